package main

import (
	"testing"

	millrace "github.com/millrace-io/millrace/sdk/go"
)

func TestCountsAndGoesOver(t *testing.T) {
	h := millrace.NewHarness(Module, "ledger")
	h.Send(millrace.In("a", "a 5", 0), millrace.In("a", "6", 0), millrace.In("b", "b 7", 0))
	if got := h.Texts()[1]; got != `{"key":"a","count":2,"n":6,"xor":3,"was":5}` {
		t.Errorf("output %s", got)
	}
	stream := save()
	entries, numbers = map[string]*entry{}, nil
	if err := load(stream); err != nil {
		t.Fatal(err)
	}
	h.Send(millrace.In("a", "a 1", 0))
	texts := h.Texts()
	if got := texts[len(texts)-1]; got != `{"key":"a","count":3,"n":1,"xor":2,"was":6}` {
		t.Errorf("output %s", got)
	}
	if load(stream[:len(stream)-1]) == nil || load([]byte{2}) == nil {
		t.Error("a cut or foreign stream was taken")
	}
}
