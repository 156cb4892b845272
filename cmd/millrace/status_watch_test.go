package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/host/control"
)

// status shows what each operator has done so far, while it runs; --watch again and again, until the run ends.
func TestStatusOfOperators(t *testing.T) {
	l := newLive(t)
	l.settle("v1")
	r := do(t, l.dir, "status", "p.yaml", "--json")
	r.want(t, 0)
	var in control.Info
	if err := json.Unmarshal(envelopeOf(t, r.out).Data, &in); err != nil {
		t.Fatal(err)
	}
	by := map[string]control.OperatorStats{}
	for _, o := range in.Stats.Operators {
		by[o.ID] = o
	}
	for _, c := range []struct {
		operator, counter string
		want              int64
	}{{"in", "out", 100}, {"count", "in", 100}, {"count", "out", 100}, {"count", "state entries", 5}, {"out", "written", 100}} {
		if got := by[c.operator].Counters[c.counter]; got != c.want {
			t.Errorf("operator %s: %s %d, expected %d", c.operator, c.counter, got, c.want)
		}
	}
	if o := by["count"]; o.Counters["fuel"] == 0 || o.LagMS != -1 || o.Unanswered != 0 {
		t.Errorf("count: %+v, expected fuel, no watermark and every task", o)
	}
	do(t, l.dir, "status", "p.yaml").want(t, 0, "operator  in", "count     100  100")

	c := command(l.dir, "status", "p.yaml", "--watch")
	var out bytes.Buffer
	c.Stdout = &out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	l.send(400)
	time.Sleep(2500 * time.Millisecond)
	l.stop()
	if err := c.Wait(); err != nil {
		t.Errorf("watch: %v", err)
	}
	if n := strings.Count(out.String(), "operator  in"); n < 1 || !strings.Contains(out.String(), "count     500") {
		t.Errorf("watch printed %s", out.String())
	}
}

func TestRates(t *testing.T) {
	op := func(id string, in, fuel int64, unanswered int) control.OperatorStats {
		return control.OperatorStats{ID: id, Counters: map[string]int64{"in": in, "fuel": fuel}, Unanswered: unanswered}
	}
	is := []control.OperatorStats{op("a", 300, 50, 0), op("b", 10, 0, 1), op("c", 5, 0, 0), op("new", 1, 0, 0)}
	rates([]control.OperatorStats{op("c", 9, 0, 0), op("b", 0, 0, 0), op("a", 100, 50, 0)}, is, 2*time.Second)
	if r := is[0].Rates; r["in"] != 100 || len(r) != 1 {
		t.Errorf("a: %v, expected 100 in per second and nothing else", r)
	}
	if is[1].Rates != nil || is[3].Rates != nil {
		t.Errorf("rates where a task did not answer, or there was no first look: %v, %v", is[1].Rates, is[3].Rates)
	}
	if len(is[2].Rates) != 0 {
		t.Errorf("c began anew: %v", is[2].Rates)
	}
}
