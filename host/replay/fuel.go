package replay

import "math/bits"

// fuelSums adds up the fuel of records, or of calls where several are in one.
type fuelSums struct {
	total, max int64
	at         func() string // of max
	n          int64
	buckets    [fuelBuckets]int64
}

// Buckets are eighths of powers of two.
const fuelBuckets = 64 * 8

func bucketOf(v int64) int {
	if v < 8 {
		return int(max(v, 0))
	}
	e := bits.Len64(uint64(v)) - 4
	return (e+1)*8 + int(v>>e)&7
}

// bucketLeast is the least value that a bucket holds.
func bucketLeast(b int) int64 {
	if b < 8 {
		return int64(b)
	}
	return int64(8+b&7) << (b/8 - 1)
}

// add takes what n records cost together; describe names them, and is called at once if that is the most so far.
func (s *fuelSums) add(v int64, describe func() string) {
	s.total += v
	s.n++
	s.buckets[bucketOf(v)]++
	if v > s.max {
		s.max = v
		s.at = describe
	}
}

func (s *fuelSums) p50() int64 {
	left := (s.n + 1) / 2
	for b, n := range s.buckets {
		if left -= n; left <= 0 && s.n > 0 {
			return bucketLeast(b)
		}
	}
	return 0
}

// merge takes over what another task's sums have.
func (s *fuelSums) merge(o *fuelSums) {
	s.total, s.n = s.total+o.total, s.n+o.n
	for b, n := range o.buckets {
		s.buckets[b] += n
	}
	if o.max > s.max {
		s.max, s.at = o.max, o.at
	}
}

func (s *fuelSums) fuel() Fuel {
	f := Fuel{Total: s.total, P50: s.p50(), Max: s.max}
	if s.at != nil {
		f.MaxAt = s.at()
	}
	return f
}
