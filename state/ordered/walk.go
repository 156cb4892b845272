package ordered

import (
	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/runs"
)

// Walk goes over the entries that the runs of an ordered state, or of timers, hold together: what Open would
// load, without loading it. Next must be called before the first entry.
type Walk struct{ m *merged }

// NewWalk walks the layers, newest first, each within its own hashes and lo..hi. The caller keeps the runs
// open. What it returns points into them.
func NewWalk(layers []runs.Layer, lo, hi uint64) *Walk {
	var live []*liveRun
	for _, l := range layers {
		if a, b := max(lo, l.Lo), min(hi, l.Hi); a <= b {
			live = append(live, &liveRun{run: l.Run, lo: a, hi: b})
		}
	}
	return &Walk{newMerged(live)}
}

// Next moves to the next entry; false at the end or on error.
func (w *Walk) Next() bool {
	for w.m.next() {
		if !w.m.entry().Tombstone() {
			return true
		}
	}
	return false
}

// Hash of the current entry.
func (w *Walk) Hash() uint64 { return w.m.entry().Hash() }

// Key of the current entry: its composite key without the hash.
func (w *Walk) Key() []byte { return w.m.entry().Key() }

// Value of the current entry.
func (w *Walk) Value() []byte { return w.m.entry().Value() }

// Err is the first error met.
func (w *Walk) Err() error { return w.m.err }

// AppendTimer appends the composite key of a timer, as runs hold it behind the hash.
func AppendTimer(dst []byte, d state.Domain, k state.Key, name []byte, at int64) []byte {
	return appendTimer(dst, d, k, name, at)
}

// DecodeTimer takes a composite key of a timer apart. Errors: ErrCorrupt.
func DecodeTimer(comp []byte) (d state.Domain, k state.Key, name []byte, at int64, err error) {
	return decodeTimer(comp)
}
