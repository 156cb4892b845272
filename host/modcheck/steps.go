package modcheck

import (
	"errors"
	"fmt"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators/guestop"
)

// fold runs an aggregate over the sample: an accumulator for each key, to which records are added, and now and then
// a result, a merge of two, and where it can a record taken back.
type fold struct {
	s     *subject
	t     *trace
	steps *guestop.Steps
	cells map[string][]byte // between calls
	keys  []string          // with a cell, in order of appearance
	cur   map[string]guestop.Cell
	noted []noted
	back  map[string]abi.Frame // the record that may be taken back
}

// noted is a step that waits to be done.
type noted struct {
	result int // number of a result; -1: another step
}

// aggregate runs an aggregate function.
func (s *subject) aggregate(t *trace, m guestop.Module) error {
	clock := &still{sampleStart}
	st, err := guestop.NewSteps(guestop.CallerConfig{Node: s.node, Module: m, Context: contextOf(s.ctx, s.name(), s.dir, clock)})
	if err != nil {
		return err
	}
	f := &fold{s: s, t: t, steps: st, cells: map[string][]byte{}, back: map[string]abi.Frame{}}
	f.begin()
	for i := range s.sample.Records {
		r := s.sample.Records[i]
		if err = f.add(i, &r); err != nil {
			break
		}
	}
	if err == nil {
		err = f.run()
	}
	return errors.Join(err, st.Close())
}

func (f *fold) begin() {
	f.steps.Reset(sampleStart, true)
	f.cur, f.noted = map[string]guestop.Cell{}, f.noted[:0]
}

// cell is the accumulator of a key.
func (f *fold) cell(key string) guestop.Cell {
	c, ok := f.cur[key]
	if !ok {
		v, had := f.cells[key]
		if !had {
			f.keys = append(f.keys, key)
			f.cells[key] = nil
		}
		c = f.steps.New(v, v != nil)
		f.cur[key] = c
	}
	return c
}

// step notes a step and gets what is noted done when it is as many as the way says.
func (f *fold) step(n noted) error {
	f.noted = append(f.noted, n)
	if len(f.noted) < f.t.way.batch {
		return nil
	}
	return f.run()
}

func (f *fold) add(i int, r *abi.Record) error {
	key := string(r.Key)
	frame := abi.Frame(abi.AppendRecord(nil, r))
	if err := f.steps.Add(f.cell(key), frame, false, len(f.noted)); err != nil {
		return err
	}
	if err := f.step(noted{-1}); err != nil {
		return err
	}
	switch {
	case f.steps.Retracts() && i%8 == 3 && f.back[key] != nil:
		old := f.back[key]
		delete(f.back, key)
		if err := f.steps.Add(f.cell(key), old, true, len(f.noted)); err != nil {
			return err
		}
		return f.step(noted{-1})
	case i%40 == 39:
		return f.merge(key, r.Time, i)
	case i%5 == 4:
		at := r.Time
		n := f.steps.Result(f.cell(key), &guestop.Fired{Key: r.Key, Time: at, Start: at - 60_000, End: at + 1}, len(f.noted))
		return f.step(noted{n})
	}
	f.back[key] = frame
	return nil
}

// merge takes another key's accumulator into this one's; the other begins anew.
func (f *fold) merge(key string, at int64, i int) error {
	other := f.keys[i%len(f.keys)]
	if other == key {
		return nil
	}
	from := f.cell(other)
	f.steps.Merge(f.cell(key), []byte(key), at, []guestop.Cell{from}, len(f.noted))
	f.cur[other] = f.steps.New(nil, false)
	delete(f.back, other) // it is in this one now
	return f.step(noted{-1})
}

// run does what is noted.
func (f *fold) run() error {
	if f.t.enough() {
		return errEnough
	}
	if len(f.noted) == 0 {
		return nil
	}
	before := f.steps.Stats()
	faults, err := f.steps.Run(func(int) bool { return false })
	if err != nil {
		return err
	}
	t, first := f.t, len(f.t.entries)
	after := f.steps.Stats()
	t.spent(&before, &after)
	failed := map[int]*guestop.Fault{}
	for _, x := range faults {
		failed[x.Tag] = x.Fault
	}
	for i, n := range f.noted {
		e := entry{record: first + i}
		switch {
		case failed[i] != nil:
			e.items = append(e.items, failure(failed[i]))
			t.failed++
		case n.result >= 0:
			e.items = append(e.items, item{kind: itemOutput, data: string(abi.AppendRecord(nil, &abi.Record{Time: abi.NoTime, Value: f.steps.Row(n.result)}))})
		}
		t.entries = append(t.entries, e)
	}
	for _, key := range f.keys {
		c, ok := f.cur[key]
		if !ok {
			continue
		}
		v, present := f.steps.Value(c)
		f.cells[key] = nil
		if present {
			f.cells[key] = append([]byte{}, v...)
		}
		t.set(fmt.Sprintf("\x00%c%s", len(key), key), f.cells[key])
	}
	t.endCall()
	f.begin()
	return nil
}
