package backend

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/millrace-io/millrace/checkpoint/crashpoint"
	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/runs"
	"github.com/millrace-io/millrace/state/table"
)

// cut is one barrier of a value state: the layers that were live then, and the delta, what was dirty in
// the table.
type cut struct {
	bg      *background
	name    string
	version int
	objects state.Objects
	below   [partitions][]below // newest first
	spills  []*spill            // of below: the cut holds a reference to the file of each
	number  uint32              // the table's
	snap    table.Records
	side    table.Records
	delta   *file // what the delta became; nil: nothing was dirty
	result  state.StateSnapshot
	err     error
	over    atomic.Bool
	done    chan struct{}
}

// below is a layer of a cut: a file or a spill that will be one before the cut is written.
type below struct {
	spill  *spill
	file   *file
	lo, hi uint64
}

// Done implements state.Cut.
func (c *cut) Done() <-chan struct{} { return c.done }

// Result implements state.Cut.
func (c *cut) Result() (state.StateSnapshot, error) { return c.result, c.err }

// fail ends a cut that can't be written; a second call does nothing. Calls come one after the other: by
// the owner before the cut is submitted and after the worker ended, by the worker in between.
func (c *cut) fail(err error) {
	if c.over.Load() {
		return
	}
	c.err = fmt.Errorf("snapshot of state %q: %w", c.name, err)
	c.snap.Free()
	c.side.Free()
	c.release()
	c.over.Store(true) // last: the owner takes a cut that is over without an error for written, and may make the next one
	close(c.done)
}

// release drops the references to the layers.
func (c *cut) release() {
	for p := range c.below {
		for _, l := range c.below[p] {
			if l.spill == nil {
				l.file.release()
			}
		}
		c.below[p] = nil
	}
	for _, sp := range c.spills {
		c.bg.letGo(sp)
	}
	c.spills = nil
}

// write is the background part: the delta becomes a run, and all runs objects of the snapshot store. The
// spills before the cut have been written.
func (c *cut) write(b *background) {
	if c.over.Load() {
		return
	}
	delta, err := c.writeDelta(b)
	b.cutMem.Store(0)
	if err != nil {
		c.fail(err)
		return
	}
	if err := c.publish(b.ctx, delta); err != nil {
		if delta != nil {
			delta.release()
		}
		c.fail(err)
		return
	}
	c.delta = delta
	c.result = state.StateSnapshot{Name: c.name, Kind: "value", Version: c.version, Runs: c.list(delta)}
	c.release()
	c.over.Store(true)
	close(c.done)
}

// writeDelta merges the copies in table order with those that were overwritten in the meantime.
func (c *cut) writeDelta(b *background) (*file, error) {
	defer c.snap.Free()
	defer c.side.Free()
	if c.snap.Len()+c.side.Len() == 0 {
		return nil, nil
	}
	a, z := c.snap.Refs(), c.side.Refs()
	c.snap.Sort(a)
	c.side.Sort(z)
	return writeRun(b.fs, b.path("delta"), true, func(w *runs.Writer) error {
		for n := 0; len(a)+len(z) > 0; n++ {
			if n&4095 == 0 && b.ctx.Err() != nil {
				return b.ctx.Err()
			}
			from, refs := &c.snap, &a
			if len(a) == 0 || len(z) > 0 && less(&c.side, z[0], &c.snap, a[0]) {
				from, refs = &c.side, &z
			}
			x := (*refs)[0]
			*refs = (*refs)[1:]
			k, v, tomb := from.Get(x)
			if err := w.Add(x.Hash, k, v, tomb); err != nil {
				return err
			}
		}
		return nil
	})
}

func less(ra *table.Records, a table.Ref, rb *table.Records, b table.Ref) bool {
	if a.Hash != b.Hash {
		return a.Hash < b.Hash
	}
	ka, _, _ := ra.Get(a)
	kb, _, _ := rb.Get(b)
	return string(ka) < string(kb)
}

// publish makes all files objects of the snapshot store.
func (c *cut) publish(ctx context.Context, delta *file) error {
	done := map[*file]bool{}
	if delta != nil {
		if err := delta.publish(ctx, c.objects); err != nil {
			return err
		}
	}
	for p := range c.below {
		for i := range c.below[p] {
			l := &c.below[p][i]
			if l.spill != nil {
				l.file = l.spill.file
			}
			if !done[l.file] {
				if done[l.file] = true; delta != nil || len(done) > 1 {
					crashpoint.Hit(crashpoint.MidUpload)
				}
				if err := l.file.publish(ctx, c.objects); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// list is the runs of the snapshot, newest first for each hash. A file that several neighbouring
// partitions have in common is named once for all of them, if no other order contradicts.
func (c *cut) list(delta *file) []state.Run {
	var out []state.Run
	if delta != nil {
		out = append(out, named(delta, 0, 1<<64-1)...)
	}
	var at [partitions]int
	for {
		stuck := -1 // a partition with something left
		progress := false
		for p := range at {
			if at[p] == len(c.below[p]) {
				continue
			}
			if f := c.below[p][at[p]].file; !c.waits(f, &at) {
				out = append(out, c.take(f, &at)...)
				progress = true
			} else {
				stuck = p
			}
		}
		if progress {
			continue
		}
		if stuck < 0 {
			return out
		}
		// files that count for parts of a partition only: any order within it will do
		l := c.below[stuck][at[stuck]]
		out = append(out, named(l.file, l.lo, l.hi)...)
		at[stuck]++
	}
}

// waits says that some partition has f, but behind a newer file that is not listed yet.
func (c *cut) waits(f *file, at *[partitions]int) bool {
	for p := range at {
		rest := c.below[p][at[p]:]
		if i := slices.IndexFunc(rest, func(l below) bool { return l.file == f }); i > 0 {
			return true
		}
	}
	return false
}

// take lists f, whose turn it is wherever it is: once per group of neighbouring partitions.
func (c *cut) take(f *file, at *[partitions]int) (out []state.Run) {
	var lo, hi uint64
	open := false
	for p := range at {
		has := at[p] < len(c.below[p]) && c.below[p][at[p]].file == f
		if has {
			l := c.below[p][at[p]]
			if open && l.lo != hi+1 { // restored for part of the hashes
				out = append(out, named(f, lo, hi)...)
				open = false
			}
			if !open {
				lo, open = l.lo, true
			}
			hi = l.hi
			at[p]++
		} else if open {
			out = append(out, named(f, lo, hi)...)
			open = false
		}
	}
	if open {
		out = append(out, named(f, lo, hi)...)
	}
	return out
}

// named is the file as a run of a snapshot, for the hashes that it has in lo..hi.
func named(f *file, lo, hi uint64) []state.Run {
	lo, hi = max(lo, f.info.Lo), min(hi, f.info.Hi)
	if lo > hi {
		return nil
	}
	return []state.Run{{Object: f.digest, Size: f.size, Lo: lo, Hi: hi, Count: f.info.Count}}
}
