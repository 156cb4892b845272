package main

import (
	"slices"
	"testing"

	millrace "github.com/millrace-io/millrace/sdk/go"
)

func TestSplitsLinesIntoWords(t *testing.T) {
	h := millrace.NewHarness(Module, "split")
	h.Send(millrace.In("", "To be, or nöt to BE", 0))
	if got := h.Texts(); !slices.Equal(got, []string{"to", "be", "or", "nöt", "to", "be"}) {
		t.Errorf("words %q", got)
	}
}

func TestCountsEachWord(t *testing.T) {
	h := millrace.NewHarness(Module, "count")
	h.Send(millrace.In("to", "to", 0), millrace.In("be", "be", 0), millrace.In("to", "to", 0))
	want := []string{`{"word":"to","count":1}`, `{"word":"be","count":1}`, `{"word":"to","count":2}`}
	if got := h.Texts(); !slices.Equal(got, want) {
		t.Errorf("counts %q", got)
	}
}

func TestALineThatIsNotTextFails(t *testing.T) {
	h := millrace.NewHarness(Module, "split")
	h.Send(millrace.In("", "\xff", 0))
	if f := h.Failures(); len(f) != 1 || f[0].Message != "the value is not UTF-8" || len(h.Outputs()) != 0 {
		t.Errorf("failures %v", f)
	}
}
