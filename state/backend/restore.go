package backend

import (
	"errors"
	"fmt"
	"slices"

	"github.com/millrace-io/millrace/checkpoint/crashpoint"
	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/runs"
	"github.com/millrace-io/millrace/state/table"
)

func isCorrupt(err error) bool { return errors.Is(err, state.ErrCorrupt) }

// restore takes over the runs of the snapshots, each for the hashes for which it counts. With cold that
// is all; else all entries are loaded.
func (s *valueStore) restore() error {
	files := map[string]*file{}
	defer func() {
		for _, f := range files {
			f.release()
		}
	}()
	myLo, myHi := hashRange(s.cfg.Range)
	for _, part := range s.cfg.Restore {
		if part.Range.Hi <= part.Range.Lo {
			continue
		}
		lo, hi := hashRange(part.Range)
		for _, r := range part.Snapshot.Runs {
			a, b := max(lo, myLo, r.Lo), min(hi, myHi, r.Hi)
			if a > b {
				continue
			}
			f := files[r.Object]
			if f == nil {
				if len(files) > 0 {
					crashpoint.Hit(crashpoint.MidRestoreLoad)
				}
				var err error
				if f, err = openObject(s.ctx, s.cfg.FS, s.cfg.Objects, r); err != nil {
					return err
				}
				files[r.Object] = f
			}
			if r.Lo <= f.info.Lo && r.Hi >= f.info.Hi { // all of the file: then for all hashes
				a, b = max(lo, myLo), min(hi, myHi)
			}
			s.place(f, a, b)
		}
	}
	if s.cfg.Cold {
		return nil
	}
	return s.load()
}

// place puts a restored file below all that are there.
func (s *valueStore) place(f *file, a, b uint64) {
	for p := range s.layers {
		lo, hi := s.part.bounds(p)
		lo, hi = max(lo, a), min(hi, b)
		if lo <= hi {
			l := &s.layers[p]
			l.insert(len(l.files), f, lo, hi)
		}
	}
}

// load reads all live entries into the table.
func (s *valueStore) load() error {
	if err := s.tab.Reserve(s.expected()); err != nil {
		return err
	}
	for p := range s.layers {
		lo, hi := s.part.bounds(p)
		m := runs.NewMerged(s.layers[p].runs, lo, hi)
		for m.Next() {
			if m.Tombstone() {
				continue
			}
			if _, err := s.tab.Insert(m.Hash(), m.Key(), m.Value(), false, table.Clean); err != nil {
				return err
			}
		}
		if err := m.Err(); err != nil {
			return err
		}
	}
	for s.tab.Growing() {
		s.tab.GrowStep()
	}
	return nil
}

// expected is a guess of the number of live entries: deltas mostly overwrite what older runs have.
func (s *valueStore) expected() int {
	var sum, most float64
	seen := map[*file]bool{}
	lo, hi := hashRange(s.cfg.Range)
	for p := range s.layers {
		for _, f := range s.layers[p].files {
			if seen[f] {
				continue
			}
			seen[f] = true
			n := float64(f.info.Count) * float64(shareOf(f, lo, hi)) / float64(f.size)
			sum += n
			most = max(most, n)
		}
	}
	return int(min(sum, most+sum/4, 1<<28))
}

// checkRestore finds the snapshot of each descriptor's state in those of the tasks, and refuses what
// does not fit: gaps, overlaps, states nobody declares, other kinds or versions.
func checkRestore(cfg *Config) ([]state.Snapshot, error) {
	var in []state.Snapshot
	for _, s := range cfg.Restore {
		if s.Range.Lo < cfg.Range.Hi && s.Range.Hi > cfg.Range.Lo {
			in = append(in, s)
		}
	}
	slices.SortFunc(in, func(a, b state.Snapshot) int { return int(a.Range.Lo) - int(b.Range.Lo) })
	at := cfg.Range.Lo
	for i, s := range in {
		if s.Range.Hi > state.Slots || s.Range.Lo > s.Range.Hi {
			return nil, fmt.Errorf("%w: snapshot of operator %q has slots [%d, %d)", state.ErrCorrupt, cfg.Operator, s.Range.Lo, s.Range.Hi)
		}
		if i > 0 && s.Range.Lo < in[i-1].Range.Hi {
			return nil, fmt.Errorf("%w: snapshots of operator %q overlap at slot %d", state.ErrCorrupt, cfg.Operator, s.Range.Lo)
		}
		if s.Range.Lo > at {
			break
		}
		at = s.Range.Hi
	}
	if len(cfg.Restore) > 0 && at < cfg.Range.Hi {
		return nil, fmt.Errorf("%w: snapshots of operator %q have no slot %d", state.ErrCorrupt, cfg.Operator, at)
	}
	for _, s := range in {
		for _, st := range s.States {
			if err := fits(cfg, st); err != nil {
				return nil, err
			}
		}
	}
	return in, nil
}

func fits(cfg *Config, st state.StateSnapshot) error {
	if st.Kind == kindTimers {
		return nil
	}
	for _, d := range cfg.Descriptors {
		if d.Name != st.Name {
			continue
		}
		if string(d.Kind) != st.Kind {
			return fmt.Errorf("state %q of operator %q: the snapshot has kind %s, the operator declares %s", d.Name, cfg.Operator, st.Kind, d.Kind)
		}
		if d.Version != st.Version {
			return fmt.Errorf("state %q of operator %q: the snapshot has version %d, the operator declares %d", d.Name, cfg.Operator, st.Version, d.Version)
		}
		return nil
	}
	if len(st.Runs) == 0 {
		return nil
	}
	return fmt.Errorf("state %q of operator %q is in the snapshot, but the operator declares no such state", st.Name, cfg.Operator)
}

// restoreParts picks one state out of the tasks' snapshots.
func restoreParts(in []state.Snapshot, name, kind string) (out []state.RestorePart) {
	for _, s := range in {
		for _, st := range s.States {
			if st.Name == name && st.Kind == kind {
				out = append(out, state.RestorePart{Range: s.Range, Snapshot: st})
			}
		}
	}
	return out
}
