package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	millrace "github.com/millrace-io/millrace/sdk/go"
)

func send(h *millrace.Harness, commands string) []string {
	h.Send(millrace.In("k", commands, 7))
	return h.Texts()
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("outputs %q, expected %q", got, want)
	}
}

func TestStates(t *testing.T) {
	h := millrace.NewHarness(Module, "effects")
	expect(t, send(h, "value; set abc; value; unset; value; set"), "no value", "value abc", "no value")
	expect(t, send(h, "value; biglen; big 70000; biglen"), "value ", "no big", "big 70000")
	expect(t, send(h, "put b 2; put a 1; put c 3; del a; get b; get a; scan; scan c"), "b = 2", "no a", "map b=2 c=3", "map c=3")
	expect(t, send(h, "append x; append y; list; unlist; list"), "list x y", "list ")
}

func TestAFailedRecordLeavesNothing(t *testing.T) {
	h := millrace.NewHarness(Module, "effects")
	send(h, "set old; put a 1; timer 50 t; append x")
	expect(t, send(h, "set new; put a 2; put b 3; untimer 50 t; timer 60 u; append y; empty; log l; count c 5; out o; large 300000; fail no"))
	if f := h.Failures(); len(f) != 1 || f[0].Message != "no" || len(h.Logs()) != 0 || h.Counter("c") != 0 {
		t.Errorf("failures %v", f)
	}
	expect(t, send(h, "value; scan; list"), "value old", "map a=1", "list x")
	h.Watermark(100)
	expect(t, h.Texts(), "fired 50 t at watermark 100")
}

func TestTimersFireInRounds(t *testing.T) {
	h := millrace.NewHarness(Module, "effects")
	send(h, "timer 20 do timer 5 late; timer 10 do timer 15 between; timer 10 do timer 15 between; timer 30 gone; untimer 30 gone")
	h.Watermark(100)
	var times []string
	for _, s := range h.Texts() {
		times = append(times, strings.Split(s, " ")[1])
	}
	expect(t, times, "10", "15", "20", "5")
	send(h, "ptimer 1000 p")
	h.End()
	expect(t, h.Texts())
	h.ProcessingTime(1000)
	if out := h.Outputs(); len(out) != 1 || out[0].Time != millrace.NoTime {
		t.Errorf("outputs %v", out)
	}
}

func TestOutputsLargerThanTheBufferKeepTheirPlace(t *testing.T) {
	whole, tight := millrace.NewHarness(Module, "effects"), millrace.NewHarness(Module, "effects")
	tight.OutputSpace = 8 << 10
	var batch []millrace.Input
	for i := range 20 {
		batch = append(batch, millrace.In(fmt.Sprint("k", i%3), "out a; large 5000; out b; side s; large 9000; out c", 0))
	}
	whole.Send(batch...)
	tight.Send(batch...)
	a, b := whole.Outputs(), tight.Outputs()
	same := slices.EqualFunc(a, b, func(x, y millrace.Out) bool { return x.Output == y.Output && x.Input.Equal(y.Input) })
	if len(a) != 120 || !same {
		t.Errorf("%d and %d outputs, the same: %v", len(a), len(b), same)
	}
}
