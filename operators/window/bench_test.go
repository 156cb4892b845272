package window

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/operatortest"
)

// benchInput is batches of 256 records, 108 bytes each with their key: event time rises by 1 ms, with up to
// 50 ms of disorder, and the watermark follows each 100 ms.
func benchInput(n, keys int, hash func([]byte) uint64) []*abi.Batch {
	rng := rand.New(rand.NewPCG(1, uint64(keys)))
	value := make([]byte, 80)
	var out []*abi.Batch
	for t := int64(0); t < int64(n); {
		b := &abi.Batch{}
		for b.Len() < 256 {
			key := fmt.Appendf(nil, "k%011d", rng.IntN(keys))
			b.Append(&abi.Record{Time: max(0, t-rng.Int64N(50)), Key: key, Value: value})
			b.Hash = append(b.Hash, hash(key))
			if t++; t%100 == 0 {
				b.Mark(t - 101)
			}
		}
		out = append(out, b)
	}
	return out
}

// cpu is the CPU time of this thread, in ns.
func cpu() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(1, &u); err != nil { // RUSAGE_THREAD
		panic(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

type dropAll struct{ n int }

func (d *dropAll) Emit(_ int, b *abi.Batch) error {
	d.n += b.Len()
	return nil
}

func benchWindow(b *testing.B, shape operators.WindowShape, keys int, kind string) {
	w := &operators.WindowNode{Time: operators.TimeEvent, Window: shape, Trigger: operators.DefaultTrigger(shape), Accumulation: operators.Accumulating,
		Aggregates: []operators.WindowAggregate{{Name: "n", Kind: operators.AggCount}}}
	ctx := operatortest.Context(b, "w", "")
	ctx.Objects, ctx.StateKind = operatortest.Objects(b), kind
	in := benchInput(1<<20, keys, ctx.Hasher.Hash)
	span := int64(1 << 20)
	b.ResetTimer()
	records, results := 0, 0
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := cpu()
	for b.Loop() {
		o := New(Config{Node: &operators.Node{ID: "w", Window: w}, OpenKeyed: operatortest.OpenKeyed})
		if err := o.Open(ctx); err != nil {
			b.Fatal(err)
		}
		var out dropAll
		for _, x := range in {
			if err := o.Batch(0, x, &out); err != nil {
				b.Fatal(err)
			}
		}
		records += int(span)
		results += out.n
		o.Close()
	}
	used := float64(cpu() - start)
	b.ReportMetric(float64(records)/used*1e3, "Mrec/cpu-s")
	b.ReportMetric(used/float64(records+results), "ns/(rec+out)")
	b.ReportMetric(float64(results)/float64(records), "out/rec")
}

func BenchmarkTumbling(b *testing.B) {
	benchWindow(b, operators.WindowShape{Type: operators.WindowTumbling, Size: 10_000}, 100_000, "memory")
}

func BenchmarkTumblingDisk(b *testing.B) {
	benchWindow(b, operators.WindowShape{Type: operators.WindowTumbling, Size: 10_000}, 100_000, "disk")
}

func BenchmarkSliding(b *testing.B) {
	benchWindow(b, operators.WindowShape{Type: operators.WindowSliding, Size: 60_000, Slide: 1000}, 1000, "memory")
}

func BenchmarkSession(b *testing.B) {
	benchWindow(b, operators.WindowShape{Type: operators.WindowSession, Gap: 5000}, 100_000, "memory")
}

// TestAllocations: what a record, its window and its result cost allocates nothing, once memory has grown.
func TestAllocations(t *testing.T) {
	for _, s := range []operators.WindowShape{{Type: operators.WindowTumbling, Size: 1000}, {Type: operators.WindowSliding, Size: 3000, Slide: 500}, {Type: operators.WindowSession, Gap: 700}} {
		w := node(s, statsOf()...)
		ctx := operatortest.Context(t, "w", "")
		ctx.Objects = operatortest.Objects(t)
		o := New(Config{Node: &operators.Node{ID: "w", Window: w}, OpenKeyed: operatortest.OpenKeyed})
		if err := o.Open(ctx); err != nil {
			t.Fatal(err)
		}
		var row abi.RowBuilder
		row.Reset(len(testFields))
		row.SetInt64(0, 5)
		in := benchInput(1<<16, 2000, ctx.Hasher.Hash)
		var b abi.Batch
		out, i := &dropAll{}, 0
		one := func() {
			x := in[i]
			i++
			b.Reset()
			for j := range x.Off {
				b.Append(&abi.Record{Time: x.Frame(j).Time(), Key: x.Frame(j).Key(), Value: row.Bytes()})
			}
			b.Hash, b.Marks = append(b.Hash, x.Hash...), append(b.Marks, x.Marks...)
			if err := o.Batch(0, &b, out); err != nil {
				t.Fatal(err)
			}
		}
		for range 128 {
			one()
		}
		if n := testing.AllocsPerRun(100, one); n > 1 { // the log of changes grows now and then
			t.Errorf("%s: %v allocations per batch of 256 records, expected none", s.Type, n)
		}
		if out.n == 0 {
			t.Errorf("%s: no results", s.Type)
		}
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
