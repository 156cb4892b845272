package window

import (
	"testing"
)

type nkey struct{ a, b uint64 }

func BenchmarkNative(b *testing.B) { // running count, Go map, as anchor 2.1M
	in := benchInput(1<<20, 100_000, func([]byte) uint64 { return 0 })
	b.ResetTimer()
	start := cpu()
	n := 0
	for b.Loop() {
		m := map[string]uint64{}
		for _, x := range in {
			for i := range x.Off {
				m[string(x.Frame(i).Key())]++
				n++
			}
		}
	}
	b.ReportMetric(float64(n)/float64(cpu()-start)*1e3, "Mrec/cpu-s")
}
