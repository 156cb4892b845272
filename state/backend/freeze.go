package backend

import (
	"errors"
	"fmt"
	"slices"

	"github.com/millrace-io/millrace/state"
)

var errClosed = errors.New("state: closed")

// poll takes over what the background has finished. The owner calls it where its lists may change.
func (s *valueStore) poll() error {
	if s.bg.ready.Load() {
		s.apply()
	}
	if s.cut != nil && s.cut.over.Load() {
		s.endCut()
	}
	return s.err
}

func (s *valueStore) apply() {
	for _, result := range s.bg.take() {
		result()
	}
	s.planMerge()
}

// spilled puts the file that a spill became in its place.
func (s *valueStore) spilled(sp *spill, f *file) {
	s.spills = slices.DeleteFunc(s.spills, func(x *spill) bool { return x == sp })
	for p := range s.layers {
		lo, hi := s.part.bounds(p)
		if !sp.under(lo, hi) {
			continue
		}
		s.layers[p].insert(0, f, lo, hi)
		if sp.cut != nil && sp.cut == s.cut {
			s.layers[p].mark++
		}
	}
	sp.recs.Free()
	f.release()
	s.mergeAfter--
}

// Freeze implements state.Part.
func (s *valueStore) Freeze() (state.Cut, error) {
	if err := s.poll(); err != nil {
		return nil, err
	}
	if s.cut != nil {
		return nil, fmt.Errorf("state %q: a cut while the one before it is not done", s.cfg.Descriptor.Name)
	}
	s.closeSpill()
	c := &cut{bg: s.bg, name: s.cfg.Descriptor.Name, version: s.cfg.Descriptor.Version,
		objects: s.cfg.Objects, done: make(chan struct{})}
	for _, sp := range s.spills {
		s.bg.hold(sp)
		c.spills = append(c.spills, sp)
	}
	for p := range s.layers {
		l := &s.layers[p]
		if n := len(s.spills) + len(l.files); n > 0 {
			c.below[p] = make([]below, 0, n)
		}
		lo, hi := s.part.bounds(p)
		for _, sp := range s.spills {
			if !sp.under(lo, hi) {
				continue
			}
			c.below[p] = append(c.below[p], below{sp, nil, lo, hi})
		}
		for i, f := range l.files {
			c.below[p] = append(c.below[p], below{nil, f.ref(), l.runs[i].Lo, l.runs[i].Hi})
		}
		l.mark = 0
	}
	c.number = s.tab.Freeze()
	s.cut = c
	return c, nil
}

// Step implements state.Part.
func (s *valueStore) Step() (busy bool, err error) {
	if err := s.poll(); err != nil {
		return false, err
	}
	if s.cut != nil && s.tab.Freezing() {
		if err := s.tab.Step(); err != nil {
			s.tab.Abort()
			s.cut.fail(err)
			s.endCut()
			return false, nil
		}
		if s.tab.Freezing() {
			return true, nil
		}
		s.cut.snap, s.cut.side = s.tab.Take()
		s.bg.cutMem.Store(s.cut.snap.Bytes() + s.cut.side.Bytes())
		s.bg.submit(job{cut: s.cut})
		return s.tab.Growing(), nil
	}
	s.tab.GrowStep()
	return s.tab.Growing(), nil
}

// endCut puts the delta of a cut that was written in its place: above the layers that the cut has, below
// those that came later. Of a cut that failed nothing is left, and the table holds its entries dirty.
func (s *valueStore) endCut() {
	c := s.cut
	s.apply() // spills from before the cut are below the delta: they come first
	s.cut = nil
	for p := range s.layers {
		l := &s.layers[p]
		lo, hi := s.part.bounds(p)
		if c.err == nil && c.delta != nil {
			l.insert(l.mark, c.delta, lo, hi)
		}
		l.mark = 0
	}
	s.mergeAfter--
	if c.err != nil {
		s.cfg.Log.Warn("snapshot of a state failed", "operator", s.cfg.Operator, "state", c.name, "err", c.err)
		return
	}
	if c.delta != nil {
		c.delta.release()
	}
	s.tab.Installed(c.number)
	s.planMerge()
}
