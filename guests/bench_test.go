package guests_test

import (
	"encoding/binary"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/host/engine/enginetest"
	"github.com/millrace-io/millrace/operators/guestop"
)

type discard struct{}

func (discard) Emit(int, *abi.Batch) error { return nil }

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// batches makes batches of 256 records of 108 bytes over so many keys.
func batches(keys, n int) []abi.Batch {
	list := make([]abi.Batch, n)
	i := uint64(0)
	for b := range list {
		for range 256 {
			x := i * 0x9e3779b97f4a7c15 >> 20
			v := make([]byte, 56)
			binary.LittleEndian.PutUint32(v, uint32(i))
			list[b].Append(&abi.Record{Time: int64(i), Key: fmt.Appendf(nil, "key-%08d", x%uint64(keys)), Value: v, Pos: abi.Position{Offset: i}})
			i++
		}
	}
	return list
}

// BenchmarkGuest runs the guest alone, blocks copied in, outputs looked at where they are: no keys, no
// state. It reports CPU time of the process, for the machine may be busy.
func BenchmarkGuest(b *testing.B) {
	for language, path := range modules("stateless") {
		b.Run("filter_map/"+language, func(b *testing.B) {
			m := compile(b, newEngine(b), path)
			g, err := m.New(enginetest.NewEnv(), guestop.InstanceOptions{})
			if err != nil {
				b.Fatal(err)
			}
			defer g.Close()
			block := enginetest.Block(&batches(1000, 1)[0], 0)
			run(b, func() {
				in, err := g.In(len(block))
				if err != nil {
					b.Fatal(err)
				}
				copy(in, block)
				if o := g.Call(len(block), 0); o.Fault != nil || len(g.Out()) != 192*108 {
					b.Fatalf("%+v, %d bytes", o, len(g.Out()))
				}
			})
		})
	}
}

// BenchmarkOperator runs the operator with state in memory.
func BenchmarkOperator(b *testing.B) {
	for _, keys := range []int{1000, 100_000} {
		for language, path := range modules("count") {
			b.Run(fmt.Sprintf("count/%d/%s", keys, language), func(b *testing.B) {
				op, done := operator(b, compile(b, newEngine(b), path), "count", &manualClock{now: 1})
				defer done()
				list := batches(keys, 1000)
				i := 0
				next := func() {
					if err := op.Batch(0, &list[i%len(list)], discard{}); err != nil {
						b.Fatal(err)
					}
					i++
				}
				for range list {
					next()
				}
				run(b, next)
			})
		}
	}
}

func run(b *testing.B, batch func()) {
	b.ReportAllocs()
	b.ResetTimer()
	start := cpu()
	for range b.N {
		batch()
	}
	b.ReportMetric(float64(cpu()-start)/float64(256*b.N), "cpu-ns/record")
}
