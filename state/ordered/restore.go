package ordered

import (
	"fmt"

	"github.com/millrace-io/millrace/checkpoint/crashpoint"
	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/runs"
)

// restore makes the runs of the configured snapshots live, each cut down to the slots that it may speak
// for, and calls put for every entry they hold; comp and value are valid during the call.
func (h *history) restore(put func(comp, value []byte) error) error {
	for _, part := range h.cfg.Restore {
		own := overlap(part.Range, h.cfg.Range)
		if own.Lo >= own.Hi {
			continue
		}
		lo, hi := uint64(own.Lo)<<48, uint64(own.Hi-1)<<48|(1<<48-1)
		first := len(h.live)
		for _, r := range part.Snapshot.Runs {
			l := &liveRun{lo: max(lo, r.Lo), hi: min(hi, r.Hi), object: r.Object, size: r.Size, refs: 1}
			if l.lo > l.hi {
				continue
			}
			if len(h.live) > 0 {
				crashpoint.Hit(crashpoint.MidRestoreLoad)
			}
			path, err := h.cfg.Objects.Path(h.ctx, r.Object)
			if err != nil {
				return err
			}
			l.stored = path
			if l.run, err = runs.Open(h.cfg.FS, path, false); err != nil {
				return err
			}
			h.live = append(h.live, l)
			if i := l.run.Info(); i.Size != r.Size || i.Count != r.Count {
				return fmt.Errorf("%w: run %s of state %s: %d entries in %d bytes, the snapshot says %d in %d",
					state.ErrCorrupt, r.Object, h.cfg.Descriptor.Name, i.Count, i.Size, r.Count, r.Size)
			}
		}
		if err := load(h.live[first:], put); err != nil {
			return err
		}
	}
	h.mu.Lock()
	h.tryMerge()
	h.mu.Unlock()
	return nil
}

func load(live []*liveRun, put func(comp, value []byte) error) error {
	m := newMerged(live)
	var comp []byte
	for m.next() {
		e := m.entry()
		if e.Tombstone() {
			continue
		}
		comp = appendHash(comp[:0], e.Hash())
		comp = append(comp, e.Key()...)
		if err := put(comp, e.Value()); err != nil {
			return err
		}
	}
	return m.err
}

func overlap(a, b state.Range) state.Range {
	return state.Range{Lo: max(a.Lo, b.Lo), Hi: min(a.Hi, b.Hi)}
}
