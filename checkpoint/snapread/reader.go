package snapread

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/ordered"
	"github.com/millrace-io/millrace/state/runs"
	"github.com/millrace-io/millrace/state/ttl"
)

// Reader has the files of a state open. Its methods may be called by several goroutines; what they return
// points into the files and is good until Close.
type Reader struct {
	state *State
	parts []open
}

// open is a part with its runs.
type open struct {
	part
	lo, hi uint64 // hashes, hi inclusive
	layers []runs.Layer
}

// Open opens the files that hold hashes lo to hi, inclusive; 0 and the greatest number are all. From then on
// they may be removed from the store: the reader keeps them.
//
// Errors: *snapstore.DamageError, naming file, object and what it is in the snapshot.
func (x *State) Open(ctx context.Context, lo, hi uint64) (*Reader, error) {
	r := &Reader{state: x}
	for _, p := range x.parts {
		if p.slots.Hi <= p.slots.Lo {
			continue
		}
		o := open{part: p, lo: max(lo, uint64(p.slots.Lo)<<48), hi: min(hi, uint64(p.slots.Hi)<<48-1)}
		if o.lo > o.hi {
			continue
		}
		err := o.open(ctx, x)
		r.parts = append(r.parts, o)
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
	}
	return r, nil
}

func (o *open) open(ctx context.Context, x *State) error {
	for i, r := range o.runs {
		lo, hi := max(o.lo, r.Lo), min(o.hi, r.Hi)
		if lo > hi {
			continue
		}
		path, err := x.snap.path(ctx, r)
		if err != nil {
			return x.damage(o, i, path, err)
		}
		run, err := runs.Open(x.snap.fs, path, false)
		if err != nil {
			return x.damage(o, i, path, err)
		}
		o.layers = append(o.layers, runs.Layer{Run: run, Lo: lo, Hi: hi})
		if f := run.Info(); f.Size != r.Size || f.Count != r.Count {
			return x.damage(o, i, path, fmt.Errorf("%d entries in %d bytes, the manifest says %d in %d", f.Count, f.Size, r.Count, r.Size))
		}
	}
	return nil
}

// damage names run i of a part.
func (x *State) damage(o *open, i int, path string, problem error) error {
	var known *snapstore.DamageError
	if errors.As(problem, &known) || errors.Is(problem, context.Canceled) {
		return problem
	}
	return &snapstore.DamageError{Checkpoint: x.snap.manifest.ID, Path: path, Object: o.runs[i].Object,
		Where: fmt.Sprintf("operator %s, task %d, state %s, run %d", x.Operator, o.task, x.Name, i), Problem: problem}
}

// failed says in which object an error of reading came up.
func (r *Reader) failed(o *open, err error) error {
	if err == nil || !errors.Is(err, state.ErrCorrupt) {
		return err
	}
	for i, run := range o.runs {
		for _, l := range o.layers {
			if path := l.Run.Path(); bytes.Contains([]byte(err.Error()), []byte(path)) && bytes.Contains([]byte(path), []byte(run.Object)) {
				return r.state.damage(o, i, path, err)
			}
		}
	}
	return fmt.Errorf("operator %s, state %s: %w", r.state.Operator, r.state.Name, err)
}

// Close closes the files.
func (r *Reader) Close() error {
	var errs []error
	for i := range r.parts {
		for _, l := range r.parts[i].layers {
			errs = append(errs, l.Run.Close())
		}
		r.parts[i].layers = nil
	}
	return errors.Join(errs...)
}

// Entry is one entry of a state. Its slices point into files.
type Entry struct {
	Hash    uint64
	Key     []byte
	UserKey []byte // of map and list entries
	Value   []byte
	Timer   *Timer // of timers; UserKey and Value are nil then
	// Stamp is the time from which the entry ages, ms, where the state has a TTL; Value is without it.
	Stamp int64
	// StoredBytes is what key and value take in a run.
	StoredBytes int
}

// Timer is a timer's identity besides its key.
type Timer struct {
	Domain state.Domain
	Name   []byte
	At     int64 // ms
}

// Slot is the entry's slot.
func (e *Entry) Slot() state.Slot { return state.SlotOf(e.Hash) }

// Get is the entry of a key of a value state; nil: it has none. It reads one block of each run that may have it.
func (r *Reader) Get(key []byte) (*Entry, error) {
	h := r.state.snap.Hash(key)
	for i := range r.parts {
		o := &r.parts[i]
		if h < o.lo || h > o.hi {
			continue
		}
		for _, l := range o.layers {
			if h < l.Lo || h > l.Hi {
				continue
			}
			v, removed, found, err := l.Run.Get(h, key)
			if err != nil {
				return nil, r.failed(o, err)
			}
			if removed {
				return nil, nil
			}
			if found {
				c := Cursor{r: r, cur: o, e: Entry{Hash: h, Key: key, StoredBytes: len(key) + len(v) + 8}}
				err := c.stamped(v)
				return &c.e, err
			}
		}
	}
	return nil, nil
}

// source is what a cursor walks: runs.Merged or ordered.Walk.
type source interface {
	Next() bool
	Hash() uint64
	Key() []byte
	Value() []byte
	Err() error
}

// Cursor walks entries in hash order, of equal hashes by key, user key (timers: domain, time, name). Next must
// be called before the first one.
type Cursor struct {
	r      *Reader
	ctx    context.Context
	lo, hi uint64
	part   int // next one to start
	src    source
	cur    *open
	e      Entry
	timer  Timer
	key    []byte
	n      int
	err    error
}

// Scan walks the entries with hashes from lo to hi, inclusive.
func (r *Reader) Scan(ctx context.Context, lo, hi uint64) *Cursor {
	return &Cursor{r: r, ctx: ctx, lo: lo, hi: hi}
}

// Key walks the entries of one key.
func (r *Reader) Key(ctx context.Context, key []byte) *Cursor {
	h := r.state.snap.Hash(key)
	c := r.Scan(ctx, h, h)
	c.key = slices.Clone(key)
	return c
}

// Next moves to the next entry; false at the end or on error.
func (c *Cursor) Next() bool {
	for c.err == nil {
		if c.n++; c.n&1023 == 0 {
			if c.err = c.ctx.Err(); c.err != nil {
				return false
			}
		}
		if c.src == nil && !c.start() {
			return false
		}
		if !c.src.Next() {
			c.err = c.r.failed(c.cur, c.src.Err())
			c.src = nil
			continue
		}
		if m, ok := c.src.(*runs.Merged); ok && m.Tombstone() {
			continue
		}
		if c.err = c.decode(); c.err != nil {
			return false
		}
		if c.key == nil || bytes.Equal(c.key, c.e.Key) {
			return true
		}
	}
	return false
}

// start goes to the next part that has hashes of the range.
func (c *Cursor) start() bool {
	for c.part < len(c.r.parts) {
		o := &c.r.parts[c.part]
		c.part++
		lo, hi := max(c.lo, o.lo), min(c.hi, o.hi)
		if lo > hi {
			continue
		}
		c.cur = o
		if c.r.state.Kind == "value" {
			c.src = runs.NewMerged(o.layers, lo, hi)
		} else {
			c.src = ordered.NewWalk(o.layers, lo, hi)
		}
		return true
	}
	return false
}

// decode takes the current entry apart.
func (c *Cursor) decode() (err error) {
	k, v := c.src.Key(), c.src.Value()
	c.e = Entry{Hash: c.src.Hash(), StoredBytes: len(k) + len(v) + 8}
	if c.r.state.Kind == "value" {
		c.e.Key = k
		return c.stamped(v)
	}
	key, rest, err := state.ReadEscaped(nil, k)
	if err != nil {
		return c.misfit(err)
	}
	c.e.Key = key
	if c.r.state.Kind != KindTimers {
		c.e.UserKey = rest
		return c.stamped(v)
	}
	comp := append(make([]byte, state.HashBytes, state.HashBytes+len(k)), k...)
	d, _, name, at, err := ordered.DecodeTimer(comp)
	if err != nil {
		return c.misfit(err)
	}
	c.timer = Timer{d, name, at}
	c.e.Timer = &c.timer
	return nil
}

// stamped takes the stamp from a value that has one.
func (c *Cursor) stamped(v []byte) error {
	if c.r.state.TTL == nil {
		c.e.Value = v
		return nil
	}
	if len(v) < ttl.StampBytes {
		return c.misfit(fmt.Errorf("%w: an entry of %d bytes, its stamp has %d", state.ErrCorrupt, len(v), ttl.StampBytes))
	}
	c.e.Stamp, c.e.Value = int64(binary.LittleEndian.Uint64(v)), v[ttl.StampBytes:]
	return nil
}

// misfit is about an entry whose block is as it was written, but which makes no sense.
func (c *Cursor) misfit(err error) error {
	return fmt.Errorf("operator %s, task %d, state %s: %w", c.r.state.Operator, c.cur.task, c.r.state.Name, err)
}

// Entry is the current one, valid until Next.
func (c *Cursor) Entry() *Entry { return &c.e }

// Err is the first error met.
func (c *Cursor) Err() error { return c.err }
