package backend

import (
	"slices"

	"github.com/millrace-io/millrace/state/runs"
)

const (
	maxRuns     = 6        // files under a partition before some are merged
	crowdedRuns = 24       // files under a partition at which evictions wait for a merge
	wholeBytes  = 32 << 20 // files of all partitions are merged as one up to this size together
	fullFrom    = 4        // files from which all are merged if the older half is outweighed
	mergeShrink = 2        // a file joins a merge if it is at most so many times the newer ones together
)

// merge replaces a sequence of files by one: under one partition, or under all of them.
type merge struct {
	part   int // -1: all
	files  []*file
	layers []runs.Layer
	lo, hi uint64
	bottom bool // nothing is older: tombstones go
}

// planMerge starts a merge if some partition has too many files and none is under way.
func (s *valueStore) planMerge() {
	if s.merging || s.mergeAfter > 0 || s.ctx.Err() != nil || s.err != nil {
		return
	}
	m := s.pickMerge()
	if m == nil {
		return
	}
	for _, f := range m.files {
		f.ref()
	}
	s.merging = true
	s.bg.running.Add(1)
	go func() {
		defer s.bg.running.Done()
		f, err := writeRun(s.bg.fs, s.path("merge"), false, func(w *runs.Writer) error {
			return runs.Merge(s.ctx, w, m.layers, m.lo, m.hi, m.bottom)
		})
		s.bg.post(func() { s.merged(m, f, err) })
	}()
}

// merged puts the result in the place of what was merged.
func (s *valueStore) merged(m *merge, f *file, err error) {
	s.merging = false
	for _, x := range m.files {
		x.release()
	}
	switch {
	case s.ctx.Err() != nil:
		if f != nil {
			f.release()
		}
		return
	case err != nil && isCorrupt(err):
		_ = s.fail(err) // kept for the next call
		return
	case err != nil: // no space, most likely: wait longer each time
		s.failures = min(s.failures+1, 8)
		s.mergeAfter = 1 << s.failures
		s.cfg.Log.Warn("merge of state files failed", "operator", s.cfg.Operator, "state", s.cfg.Descriptor.Name, "err", err)
		return
	}
	s.failures, s.mergeAfter = 0, 0
	for p := range s.layers {
		if m.part < 0 || m.part == p {
			lo, hi := s.part.bounds(p)
			s.layers[p].replace(m.files, f, lo, hi)
		}
	}
	if m.part >= 0 {
		for _, x := range m.files {
			s.dropGhosts(x)
		}
	}
	if f != nil {
		s.mergeBytes += f.size
		f.release()
	}
}

// dropGhosts removes a file from the partitions for which it has no entries. It is there as long as it is
// everywhere, see pickWhole.
func (s *valueStore) dropGhosts(f *file) {
	for p := range s.layers {
		l := &s.layers[p]
		lo, hi := s.part.bounds(p)
		if i := slices.Index(l.files, f); i >= 0 && (hi < f.info.Lo || lo > f.info.Hi) {
			if i < l.mark {
				l.mark--
			}
			l.replace([]*file{f}, nil, 0, 0)
		}
	}
}

// pickMerge chooses what to merge; nil: nothing is due. Only files below the mark take part: the delta of
// a cut in progress belongs above them.
func (s *valueStore) pickMerge() *merge {
	worst, most := -1, 0
	for p := range s.layers {
		if n := len(s.layers[p].files) - s.layers[p].mark; n > most && s.due(p) > 0 {
			worst, most = p, n
		}
	}
	if worst < 0 {
		return nil
	}
	if m := s.pickWhole(); m != nil {
		return m
	}
	l := &s.layers[worst]
	n := s.due(worst)
	m := &merge{part: worst, bottom: l.mark+n == len(l.files)}
	m.files = slices.Clone(l.files[l.mark : l.mark+n])
	m.layers = slices.Clone(l.runs[l.mark : l.mark+n])
	m.lo, m.hi = s.part.bounds(worst)
	return m
}

// sizes are the bytes of the files that may be merged under a partition, newest first.
func (s *valueStore) sizes(p int) []int64 {
	l := &s.layers[p]
	var out []int64
	for _, f := range l.files[l.mark:] {
		out = append(out, share(f, &s.part, p)+1)
	}
	return out
}

// due is how many of the newest files under a partition to merge; 0: none.
func (s *valueStore) due(p int) int {
	sizes := s.sizes(p)
	if n := tier(sizes); n > 0 || len(sizes) < 2 || !s.wasted(p) {
		return n
	}
	return len(sizes)
}

// wasted says that the files under a partition have at least one removed key for every two entries with a
// value: merging all of them gives the space back.
func (s *valueStore) wasted(p int) bool {
	l := &s.layers[p]
	var values, removed float64
	for _, f := range l.files[l.mark:] {
		part := float64(share(f, &s.part, p)) / float64(max(f.info.Size, 1))
		values += part * float64(f.info.Count-f.info.Tombstones)
		removed += part * float64(f.info.Tombstones)
	}
	return removed > 0 && 2*removed >= values
}

// tier is how many of the newest files to merge; 0: none. All, if the newer ones together outweigh the
// oldest: so the space taken stays within a few times the live data. Else, if there are too many, those
// that are not much larger than the ones before them together.
func tier(sizes []int64) int {
	n := len(sizes)
	var newer int64
	for i := 0; i < n-1; i++ {
		newer += sizes[i]
	}
	if n >= fullFrom && newer > sizes[n-1] {
		return n
	}
	if n <= maxRuns {
		return 0
	}
	k, sum := 2, sizes[0]+sizes[1]
	for k < n && sizes[k] <= mergeShrink*sum {
		sum += sizes[k]
		k++
	}
	return k
}

// pickWhole merges small files that all partitions have in common, so that small states and frequent
// small deltas do not become 16 files each.
func (s *valueStore) pickWhole() *merge {
	first := &s.layers[0]
	var files []*file
	var sizes []int64
	var total int64
	for i := first.mark; i < len(first.files); i++ {
		f := first.files[i]
		if total += f.size; total > wholeBytes || !s.everywhere(f, i-first.mark) {
			break
		}
		files = append(files, f)
		sizes = append(sizes, f.size)
	}
	if len(files) < 2 {
		return nil
	}
	bottom := true
	for p := range s.layers {
		bottom = bottom && len(s.layers[p].files) == s.layers[p].mark+len(files)
	}
	n := len(files)
	if !bottom { // keep tiers: a large one is not written again for the sake of a small one
		k, sum := 1, sizes[0]
		for k < n && sizes[k] <= mergeShrink*sum {
			sum += sizes[k]
			k++
		}
		n = k
	} else if k := tier(sizes); k > 0 {
		n = k
	}
	if n < 2 {
		return nil
	}
	m := &merge{part: -1, files: files[:n], bottom: bottom && n == len(files)}
	m.lo, m.hi = hashRange(s.cfg.Range)
	for _, f := range m.files {
		m.layers = append(m.layers, runs.Layer{Run: f.run, Lo: m.lo, Hi: m.hi})
	}
	return m
}

// everywhere says that f counts for all hashes of all partitions, i-th below the mark.
func (s *valueStore) everywhere(f *file, i int) bool {
	for p := range s.layers {
		l := &s.layers[p]
		lo, hi := s.part.bounds(p)
		if lo > hi {
			continue
		}
		i := i + l.mark
		if i >= len(l.files) || l.files[i] != f || l.runs[i].Lo > max(lo, f.info.Lo) || l.runs[i].Hi < min(hi, f.info.Hi) {
			return false
		}
	}
	return true
}
