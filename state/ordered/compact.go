package ordered

import (
	"math/bits"

	"github.com/millrace-io/millrace/state/runs"
)

const (
	mergeFanOut  = 4
	smallestTier = 64 << 10
)

// merger limits the merges of a process; they read and write in bulk.
var merger = make(chan struct{}, 2)

// tier is the size class of a run: a factor of four each.
func tier(size int64) int { return bits.Len64(uint64(size)/smallestTier) / 2 }

// pick chooses neighbours [i, j) to merge: the newest four or more of which none is of a higher tier than
// the first, or all, when what is above the oldest outweighs it. That bounds their number by three per
// tier and the dead entries by the live ones.
func pick(live []*liveRun) (i, j int) {
	n := len(live)
	if n > 1 && wasted(live) {
		return 0, n
	}
	if n < mergeFanOut {
		return 0, 0
	}
	above := int64(0)
	for _, l := range live[:n-1] {
		above += l.weight()
	}
	if above >= live[n-1].weight() {
		return 0, n
	}
	for i := 0; i+mergeFanOut <= n; i++ {
		t := tier(live[i].weight())
		for j = i; j < n && tier(live[j].weight()) <= t; j++ {
		}
		if j-i >= mergeFanOut {
			return i, j
		}
	}
	return 0, 0
}

// wasted says that runs have at least one removed entry for every two others: merging all of them gives the
// space back.
func wasted(live []*liveRun) bool {
	var values, removed uint64
	for _, l := range live {
		i := l.run.Info()
		values += i.Count - i.Tombstones
		removed += i.Tombstones
	}
	return removed > 0 && 2*removed >= values
}

// tryMerge starts a merge if one is due and none runs; the mutex is held.
func (h *history) tryMerge() {
	if h.merging || h.closed {
		return
	}
	i, j := pick(h.live)
	if i == j {
		return
	}
	window := append([]*liveRun(nil), h.live[i:j]...)
	for _, l := range window {
		l.refs++
	}
	h.merging = true
	path := h.file()
	go h.merge(window, path, j == len(h.live))
}

// merge replaces the window by one run. Only a window that ends with the oldest run loses its tombstones
// and markers.
func (h *history) merge(window []*liveRun, path string, oldest bool) {
	merger <- struct{}{}
	r, err := h.mergeFile(window, path, oldest)
	<-merger
	h.mu.Lock()
	defer h.mu.Unlock()
	h.merging = false
	h.changed.Broadcast()
	for _, l := range window {
		h.release(l)
	}
	if err != nil {
		if h.ctx.Err() == nil {
			h.cfg.Log.Warn("merge of runs", "state", h.cfg.Descriptor.Name, "error", err)
		}
		return // the next log tries again
	}
	at := 0
	for h.live[at] != window[0] {
		at++
	}
	rest := h.live[at+len(window):]
	live := append([]*liveRun(nil), h.live[:at]...)
	if r != nil {
		live = append(live, r)
		h.merges += r.size
	}
	h.live = append(live, rest...)
	for _, l := range window {
		h.release(l)
	}
	h.tryMerge()
}

func (h *history) mergeFile(window []*liveRun, path string, oldest bool) (*liveRun, error) {
	w, err := runs.NewWriter(h.cfg.FS, path)
	if err != nil {
		return nil, err
	}
	m := newMerged(window)
	for n := 0; err == nil && m.next(); n++ {
		if n&1023 == 0 && h.ctx.Err() != nil {
			err = h.ctx.Err()
			break
		}
		e := m.entry()
		if e.Tombstone() && oldest {
			continue
		}
		err = w.Add(e.Hash(), e.Key(), e.Value(), e.Tombstone())
	}
	if err == nil {
		err = m.err
	}
	return h.finish(w, path, err)
}
