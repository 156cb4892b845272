package main

import (
	"testing"

	millrace "github.com/millrace-io/millrace/sdk/go"
)

func TestARowForEachWord(t *testing.T) {
	h := millrace.NewHarness(Module, "words")
	h.Send(millrace.InRow("", 0, "To be, or n\u00f6t to BE;"), millrace.InRow("", 0, nil))
	if n := len(h.Outputs()); n != 6 {
		t.Errorf("%d words, want 6", n)
	}
}
