package backend

import (
	"math/bits"
	"slices"

	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/runs"
)

// partitions of a task's hash range: the unit of merging and of spilling.
const partitions = 16

// hashRange is a range of slots as hashes, hi inclusive.
func hashRange(r state.Range) (lo, hi uint64) { return uint64(r.Lo) << 48, uint64(r.Hi)<<48 - 1 }

// partitioning splits a task's hash range.
type partitioning struct {
	base uint64
	mul  uint64
	lo   [partitions + 1]uint64 // first hash of each relative to base, and behind it (0: beyond all)
	last uint64                 // highest hash of all
}

func newPartitioning(r state.Range) partitioning {
	p := partitioning{mul: uint64(partitions) << 16 / uint64(r.Hi-r.Lo)}
	p.base, p.last = hashRange(r)
	for i := 1; i < partitions; i++ {
		q, rem := bits.Div64(uint64(i), 0, p.mul)
		if rem > 0 {
			q++
		}
		p.lo[i] = q
	}
	return p
}

func (p *partitioning) of(hash uint64) int {
	h, _ := bits.Mul64(hash-p.base, p.mul)
	return int(h)
}

// bounds of partition i, hi inclusive.
func (p *partitioning) bounds(i int) (lo, hi uint64) {
	if i == partitions-1 {
		return p.base + p.lo[i], p.last
	}
	return p.base + p.lo[i], p.base + p.lo[i+1] - 1
}

// layers are the files below the table for one partition, each newer than the one behind it.
type layers struct {
	files []*file
	runs  []runs.Layer // of files
	mark  int          // files newer than the cut in progress
}

// insert puts a file at index i, taking a reference.
func (l *layers) insert(i int, f *file, lo, hi uint64) {
	l.files = slices.Insert(l.files, i, f.ref())
	l.runs = slices.Insert(l.runs, i, runs.Layer{Run: f.run, Lo: lo, Hi: hi})
}

// replace puts f (nil: nothing) in the place of a sequence of files, which are released.
func (l *layers) replace(old []*file, f *file, lo, hi uint64) {
	i := slices.Index(l.files, old[0])
	for _, x := range old {
		x.release()
	}
	l.files = slices.Delete(l.files, i, i+len(old))
	l.runs = slices.Delete(l.runs, i, i+len(old))
	if f != nil {
		l.insert(i, f, lo, hi)
	}
}

// share is about how many bytes of a file fall on one partition.
func share(f *file, part *partitioning, i int) int64 {
	lo, hi := part.bounds(i)
	return shareOf(f, lo, hi)
}

func shareOf(f *file, lo, hi uint64) int64 {
	a, b := max(lo, f.info.Lo), min(hi, f.info.Hi)
	if a > b {
		return 0
	}
	width := f.info.Hi - f.info.Lo
	if width == 0 {
		return f.info.Size
	}
	return int64(float64(f.info.Size) * (float64(b-a) / float64(width)))
}
