package main

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/guests/cases"
)

// TestStatelessGuestDoesTheSameAsNative compares all outputs but the cause, which only a guest writes.
func TestStatelessGuestDoesTheSameAsNative(t *testing.T) {
	g, done, err := openGuest(cases.Module("filtermap"))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range makeBatches(8, 256, 1000) {
		n := blockBytes(b)
		in, err := g.In(n)
		if err != nil {
			t.Fatal(err)
		}
		writeBlock(in, b)
		o := g.Call(n, 0)
		if o.Fault != nil || o.Yielded {
			t.Fatalf("outcome %+v", o)
		}
		got := bytes.Clone(g.Out())
		for at := 0; at < len(got); at += int(binary.LittleEndian.Uint32(got[at:])) {
			binary.LittleEndian.PutUint32(got[at+abi.FrameCause:], 0)
		}
		if want := filterMap(b.Data, nil); !bytes.Equal(got, want) {
			t.Fatalf("%d bytes of output, native has %d", len(got), len(want))
		}
	}
	if err := done(); err != nil {
		t.Fatal(err)
	}
}

func TestGuestPassAllocatesNothing(t *testing.T) {
	g, done, err := openGuest(cases.Module("filtermap"))
	if err != nil {
		t.Fatal(err)
	}
	pass, failed := guestPass(g, makeBatches(4, 256, 100))
	pass()
	if n := testing.AllocsPerRun(20, func() { pass() }); n != 0 {
		t.Errorf("%v allocations for 4 batches", n)
	}
	if *failed != nil {
		t.Fatal(*failed)
	}
	if err := done(); err != nil {
		t.Fatal(err)
	}
}
