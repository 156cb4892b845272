package main

import (
	"encoding/binary"
	"testing"

	millrace "github.com/millrace-io/millrace/sdk/go"
)

func record(kind, amount uint32) millrace.Input {
	v := binary.LittleEndian.AppendUint32(nil, kind)
	v = binary.LittleEndian.AppendUint32(v, amount)
	return millrace.In("k", string(v)+"payload", 0)
}

func TestThreeOfFourPassAndChange(t *testing.T) {
	h := millrace.NewHarness(Module, "filter_map")
	h.Send(record(0, 1), record(1, 2), record(2, 1<<32-1), record(3, 4), millrace.In("k", "short", 0))
	out := h.Outputs()
	want := []millrace.Input{record(0, 4), record(1, 7), record(2, 1<<32-2)}
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
	h.Send(record(2, 1), record(3, 2), millrace.Input{Key: []byte("k")})
	out := h.Outputs()
	if len(out) != 1 || !out[0].Input.Equal(record(2, 1)) {
		t.Errorf("outputs %+v", out)
	}
}
