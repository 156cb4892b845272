package main

import (
	"encoding/binary"
	"testing"

	"github.com/millrace-io/millrace/abi"
)

func TestNativeFilterMapKeepsThreeQuartersAndMaps(t *testing.T) {
	batches := makeBatches(8, 256, 1000)
	in, kept := 0, 0
	for _, b := range batches {
		if err := b.Check(); err != nil {
			t.Fatal(err)
		}
		out := filterMap(b.Data, nil)
		i := 0
		for len(out) > 0 {
			f, rest, err := abi.NextFrame(out)
			if err != nil {
				t.Fatal(err)
			}
			for ; binary.LittleEndian.Uint64(b.Frame(i).Value())%4 == 0; i++ {
			}
			want := binary.LittleEndian.Uint64(b.Frame(i).Value())*3 + 1
			if got := binary.LittleEndian.Uint64(f.Value()); got != want || f.Pos() != b.Frame(i).Pos() {
				t.Fatalf("record %d: amount %d, expected %d", i, got, want)
			}
			out, i, kept = rest, i+1, kept+1
		}
		in += b.Len()
	}
	if kept < in*7/10 || kept > in*8/10 {
		t.Errorf("kept %d of %d, expected three quarters", kept, in)
	}
}

func TestNativeCountGivesEachUpdate(t *testing.T) {
	b := makeBatches(1, 1000, 10)[0]
	counts, seen := map[string]*uint64{}, map[string]uint64{}
	for i := range b.Off {
		f, rest, err := abi.NextFrame(countOne(b.Frame(i), counts, nil))
		if err != nil || len(rest) != 0 {
			t.Fatal(err, len(rest))
		}
		seen[string(f.Key())]++
		if got := binary.LittleEndian.Uint64(f.Value()); got != seen[string(f.Key())] {
			t.Fatalf("record %d: count %d, expected %d", i, got, seen[string(f.Key())])
		}
	}
	if len(seen) != 10 {
		t.Errorf("%d keys, expected 10", len(seen))
	}
}

func TestNativePassesAllocateNothingPerRecord(t *testing.T) {
	batches := makeBatches(4, 256, 100)
	for name, pass := range map[string]func() int{"filter_map": filterMapCopied(batches), "count": keyedCount(batches)} {
		pass()
		if n := testing.AllocsPerRun(5, func() { pass() }); n != 0 {
			t.Errorf("%s: %v allocations a pass", name, n)
		}
	}
}
