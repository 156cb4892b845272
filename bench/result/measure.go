package result

import (
	"fmt"
	"os"
	"runtime"
	"time"
)

// Runs is how many times a figure is measured; the median counts.
const Runs = 5

// Rate runs f once to warm up and then Runs times, and returns the median of items per CPU-second of
// the whole process. f processes the number of items that it returns.
func Rate(f func() int) float64 { return RateOf(Runs, f) }

// RateOf is Rate with another number of runs.
func RateOf(runs int, f func() int) float64 {
	f()
	rates := make([]float64, 0, runs)
	for i := 0; i < runs; i++ {
		runtime.GC()
		start := CPU()
		n := f()
		rates = append(rates, float64(n)/(CPU()-start).Seconds())
	}
	return Median(rates)
}

// Pair measures two things in turn, run by run, so that both see the same machine, and returns the
// median of each and of the ratio a/b.
func Pair(a, b func() int) (rateA, rateB, ratio float64) {
	a()
	b()
	var as, bs, rs []float64
	for i := 0; i < Runs; i++ {
		ra, rb := once(a), once(b)
		as, bs, rs = append(as, ra), append(bs, rb), append(rs, ra/rb)
	}
	return Median(as), Median(bs), Median(rs)
}

func once(f func() int) float64 {
	runtime.GC()
	start := CPU()
	n := f()
	used := CPU() - start
	if used <= 0 {
		used = time.Nanosecond
	}
	return float64(n) / used.Seconds()
}

// Baseline ties an absolute bound to a machine: Anchor is what a native program reached where the
// bounds were set, Here what the same program reaches in this run.
type Baseline struct {
	Name   string
	Anchor float64 // records per CPU-second
	Here   float64
}

// Scale is how this machine compares, at most 1: a faster machine does not raise a bound.
func (b Baseline) Scale() float64 {
	if b.Anchor <= 0 || b.Here <= 0 || b.Here >= b.Anchor {
		return 1
	}
	return b.Here / b.Anchor
}

// AtLeast reports value against bound scaled to this machine and prints the unscaled bound beside it.
func (b Baseline) AtLeast(name string, value float64, unit string, bound float64) bool {
	s := b.Scale()
	if s < 1 {
		fmt.Fprintf(os.Stderr, "%s: bound %s %s scaled by %s (%s here %s, anchor %s)\n",
			name, number(bound), unit, number(s), b.Name, number(b.Here), number(b.Anchor))
	}
	return AtLeast(name, value, unit, bound*s)
}
