package main

import (
	"testing"

	millrace "github.com/millrace-io/millrace/sdk/go"
)

func TestNullEmptyAndAbsentStayApart(t *testing.T) {
	h := millrace.NewHarness(Module, "identity")
	sent := []millrace.Input{
		{Key: []byte("k1"), Time: 1},
		{Key: []byte("k2"), Value: []byte{}, Time: millrace.NoTime, Headers: []millrace.Header{{Key: []byte("h")}, {Key: []byte("h"), Value: []byte{}}}},
		{Value: []byte("v"), Time: -5, Op: millrace.Delete},
		{Key: []byte{}, Value: []byte("w")},
	}
	h.Send(sent...)
	out := h.Outputs()
	if len(out) != len(sent) {
		t.Fatalf("%d outputs of %d records", len(out), len(sent))
	}
	for i := range sent {
		sent[i].Offset = uint64(i)
		if !out[i].Input.Equal(sent[i]) {
			t.Errorf("record %d: %+v, expected %+v", i, out[i].Input, sent[i])
		}
	}
}
