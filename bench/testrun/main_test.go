package main

import "testing"

func TestSummaryCountsAndNamesSkips(t *testing.T) {
	s := &summary{output: map[string][]string{}}
	for _, e := range []event{
		{Action: "output", Package: "p", Test: "A", Output: "=== RUN   A\n"},
		{Action: "pass", Package: "p", Test: "A", Elapsed: 7},
		{Action: "output", Package: "p", Test: "B", Output: "    b_test.go:3: no rustc here\n"},
		{Action: "output", Package: "p", Test: "B", Output: "--- SKIP: B (0.00s)\n"},
		{Action: "skip", Package: "p", Test: "B"},
		{Action: "fail", Package: "p", Test: "C/sub"},
		{Action: "fail", Package: "p"},
		{Action: "skip", Package: "q"},
	} {
		s.take(&e)
	}
	if s.passed != 1 || len(s.failed) != 1 || s.packages != 2 || s.broken != 1 || s.empty != 1 || len(s.slow) != 1 {
		t.Errorf("got %+v", s)
	}
	if len(s.skipped) != 1 || s.skipped[0] != "p B: no rustc here" {
		t.Errorf("skips %q", s.skipped)
	}
	if len(s.output) != 0 {
		t.Errorf("output of ended tests is kept: %v", s.output)
	}
}
