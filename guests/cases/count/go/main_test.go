package main

import (
	"encoding/binary"
	"testing"

	millrace "github.com/millrace-io/millrace/sdk/go"
)

func TestCountsAndSumsRawAmounts(t *testing.T) {
	h := millrace.NewHarness(Module, "count")
	for _, n := range []int64{5, -7} {
		h.Send(millrace.In("k", string(binary.LittleEndian.AppendUint64(nil, uint64(n))), 0))
	}
	v := h.Outputs()[1].Value
	if count, sum := binary.LittleEndian.Uint64(v), int64(binary.LittleEndian.Uint64(v[8:])); count != 2 || sum != -2 {
		t.Errorf("count %d, sum %d", count, sum)
	}
}

func TestCountsAndSumsRows(t *testing.T) {
	h := millrace.NewHarness(Module, "count_row")
	h.Send(millrace.InRow("k", 0, 5), millrace.InRow("k", 0, nil), millrace.InRow("k", 0, 2))
	if got := h.Texts()[2]; got != `{"key":"k","count":3,"sum":7}` {
		t.Errorf("output %s", got)
	}
}
