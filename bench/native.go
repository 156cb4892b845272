package main

import (
	"encoding/binary"
	"sync"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/bench/result"
)

// The native baselines: the same work in plain Go on the same frames. Bounds that are ratios divide by
// them; bounds that are absolute are scaled by what they reach here over their anchor.

// Anchors of the native baselines, records per CPU-second: what such programs reached on the machine the
// absolute bounds were set on, when it was quiet. The 1k one is of this file's program: without a frame
// per update it was 17.5e6.
const (
	anchorFilterMap = 29.9e6
	anchorCount1k   = 10e6
	anchorCount100k = 2.1e6
)

func init() {
	Register("native.filter_map", func() error { note(nativeFilterMap()); return nil })
	Register("native.filter_map_uncopied", func() error {
		in := makeBatches(1024, 256, 1000)
		out := make([]byte, 0, 2*abi.MaxBatchBytes)
		result.Note("native.filter_map_uncopied", result.Rate(func() int {
			for _, b := range in {
				out = filterMap(b.Data, out[:0])
			}
			return countRecords(in)
		}), "records/s/core")
		return nil
	})
	Register("native.count_1k", func() error { note(nativeCount1k()); return nil })
	Register("native.count_100k", func() error { note(nativeCount100k()); return nil })
}

func note(b result.Baseline) { result.Note("native."+b.Name, b.Here, "records/s/core") }

// judge reports a rate against a bound that is scaled to this machine by a native baseline, and prints what
// that reaches here over its anchor.
func judge(b result.Baseline, name string, rate, bound float64) {
	result.Note(name+".native_over_anchor", b.Here/b.Anchor, b.Name)
	b.AtLeast(name+".rate", rate, "records/s/core", bound)
}

// nativeFilterMap is the filter and map with the copies that a sandboxed guest needs: each batch is
// copied into a buffer, worked on there, and the outputs are copied out.
var nativeFilterMap = sync.OnceValue(func() result.Baseline {
	return result.Baseline{Name: "filter_map", Anchor: anchorFilterMap, Here: result.Rate(filterMapCopied(makeBatches(1024, 256, 1000)))}
})

// nativeCount1k and nativeCount100k are the keyed running count over a Go map.
var (
	nativeCount1k = sync.OnceValue(func() result.Baseline {
		return result.Baseline{Name: "count_1k", Anchor: anchorCount1k, Here: result.Rate(keyedCount(makeBatches(1024, 256, 1000)))}
	})
	nativeCount100k = sync.OnceValue(func() result.Baseline {
		return result.Baseline{Name: "count_100k", Anchor: anchorCount100k, Here: result.Rate(keyedCount(makeBatches(2048, 256, 100_000)))}
	})
)

// filterMapCopied returns one pass over the batches; use it with result.Pair to compare a guest.
func filterMapCopied(batches []*abi.Batch) func() int {
	in := make([]byte, 2*abi.MaxBatchBytes)
	out := make([]byte, 0, 2*abi.MaxBatchBytes)
	sink := make([]byte, 0, 2*abi.MaxBatchBytes)
	return func() int {
		for _, b := range batches {
			n := copy(in, b.Data)
			out = filterMap(in[:n], out[:0])
			sink = append(sink[:0], out...)
		}
		return countRecords(batches)
	}
}

// filterMap appends the frames of data that pass, mapped, to out.
func filterMap(data, out []byte) []byte {
	for at := 0; at < len(data); {
		size := int(binary.LittleEndian.Uint32(data[at:]))
		frame := data[at : at+size]
		at += size
		v := abi.FrameHeader + int(binary.LittleEndian.Uint32(frame[abi.FrameKeyLen:]))
		amount := binary.LittleEndian.Uint64(frame[v:])
		if amount%4 == 0 {
			continue
		}
		o := len(out)
		out = append(out, frame...)
		binary.LittleEndian.PutUint64(out[o+v:], amount*3+1)
	}
	return out
}

// keyedCount returns one pass over the batches with a map that lives on between passes. Each update
// goes out as a frame.
func keyedCount(batches []*abi.Batch) func() int {
	counts := map[string]*uint64{}
	out := make([]byte, 0, 2*abi.MaxBatchBytes)
	return func() int {
		for _, b := range batches {
			out = out[:0]
			for i := range b.Off {
				out = countOne(b.Frame(i), counts, out)
			}
		}
		return countRecords(batches)
	}
}

func countOne(f abi.Frame, counts map[string]*uint64, out []byte) []byte {
	key := f.Key()
	n := counts[string(key)]
	if n == nil {
		n = new(uint64)
		counts[string(key)] = n
	}
	*n++
	var value [8]byte
	binary.LittleEndian.PutUint64(value[:], *n)
	return abi.AppendRecord(out, &abi.Record{Time: f.Time(), Key: key, Value: value[:], Pos: f.Pos()})
}
