package modcheck

import (
	"errors"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators/guestop"
)

// windows runs a window function: windows of 1 to 12 records of the sample, with the watermark between them.
func (s *subject) windows(t *trace, m guestop.Module) error {
	ctx := contextOf(s.ctx, s.name(), s.dir, &still{sampleStart})
	w, err := guestop.NewWindows(guestop.CallerConfig{Node: s.node, Module: m, Context: ctx})
	if err != nil {
		return err
	}
	wm := abi.MinWatermark
	w.Reset(sampleStart, wm)
	number, rs := 0, s.sample.Records
	for lo := 0; lo < len(rs) && err == nil; number++ {
		hi := min(lo+1+number%12, len(rs))
		at := rs[hi-1].Time
		w.Begin(&guestop.Fired{Key: rs[lo].Key, Time: at, Start: at - 60_000, End: at + 1, Revision: 1})
		for i := lo; i < hi && err == nil; i++ {
			err = w.Element(rs[i].Time, rs[i].Value)
		}
		w.End(number)
		if number%3 == 2 && at > wm {
			wm = at
			w.Mark(wm)
		}
		lo = hi
		if err == nil && (w.Len() >= t.way.batch || lo == len(rs)) {
			err = runWindows(t, w)
			w.Reset(sampleStart, wm)
		}
	}
	return errors.Join(err, w.Close())
}

// runWindows calls the function for the windows that are noted.
func runWindows(t *trace, w *guestop.Windows) error {
	if t.enough() {
		return errEnough
	}
	first := len(t.entries)
	for i := range w.Len() {
		t.entries = append(t.entries, entry{record: first + i})
	}
	before := w.Stats()
	err := w.Run(func(tag int, f abi.Frame) error {
		t.entries[tag].items = append(t.entries[tag].items, output(f))
		return nil
	}, func(x guestop.StepFault) error {
		t.entries[x.Tag].items = append(t.entries[x.Tag].items, failure(x.Fault))
		t.failed++
		return nil
	}, func(int64) {})
	after := w.Stats()
	t.spent(&before, &after)
	t.endCall()
	return err
}

// watermarks runs a watermark function.
func (s *subject) watermarks(t *trace, m guestop.Module) error {
	ctx := contextOf(s.ctx, s.name(), s.dir, &still{sampleStart})
	p, err := guestop.NewPunctuator(guestop.CallerConfig{Node: s.node, Module: m, Context: ctx})
	if err != nil {
		return err
	}
	err = s.sample.batches(t.way.batch, ctx.Hasher.Hash, func(b *abi.Batch) error {
		if t.enough() {
			return errEnough
		}
		answers, err := p.Punctuate(b, sampleStart, nil)
		if err != nil {
			return err
		}
		for _, a := range answers {
			e := entry{record: len(t.entries)}
			var f *guestop.Fault
			if errors.As(a.Fault, &f) {
				e.items = append(e.items, failure(f))
				t.failed++
			} else if a.Watermark != abi.NoTime {
				e.items = append(e.items, item{kind: itemWatermark, at: a.Watermark})
			}
			t.entries = append(t.entries, e)
		}
		t.endCall()
		return nil
	}, func() error { return nil })
	st := p.Stats()
	t.spent(&guestop.CallerStats{}, &st)
	return errors.Join(err, p.Close())
}
