package main

import (
	"encoding/binary"
	"testing"

	millrace "github.com/millrace-io/millrace/sdk/go"
)

func record(n uint64) millrace.Input {
	return millrace.In("k", string(binary.LittleEndian.AppendUint64(nil, n))+"payload", 0)
}

func TestThreeOfFourPassAndChange(t *testing.T) {
	h := millrace.NewHarness(Module, "filter_map")
	h.Send(record(4), record(1), record(2), record(1<<64-1), millrace.In("k", "short", 0))
	out := h.Outputs()
	want := []millrace.Input{record(4), record(7), record(1<<64 - 2)}
	if len(out) != len(want) {
		t.Fatalf("%d outputs", len(out))
	}
	for i, w := range want {
		if string(out[i].Value) != string(w.Value) {
			t.Errorf("output %d: %q, expected %q", i, out[i].Value, w.Value)
		}
	}
}

func TestTheFilterKeepsRecordsAsTheyAre(t *testing.T) {
	h := millrace.NewHarness(Module, "keep")
	h.Send(record(2), record(8), millrace.Input{Key: []byte("k")})
	out := h.Outputs()
	if len(out) != 1 || !out[0].Input.Equal(record(2)) {
		t.Errorf("outputs %+v", out)
	}
}
