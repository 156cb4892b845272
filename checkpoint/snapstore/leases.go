package snapstore

import (
	"math"

	"github.com/millrace-io/millrace/checkpoint"
)

// leases says which objects a sweep must spare although no manifest names them: those of checkpoints in
// flight, and those that a task goes on using after its checkpoint was aborted.
//
// Additions are numbered. What was added before a checkpoint began and is not in its manifest is in no
// one's use, except where a backend had added but not yet installed it (a merge) at the cut; hence one
// checkpoint of margin: spared is what was added since the last but one complete checkpoint began.
type leases struct {
	seq      uint64 // of the newest addition
	begun    map[checkpoint.ID]uint64
	holds    uint64    // given so far
	complete [2]uint64 // first addition at the begin of the last and last but one; 0: none yet
}

// next numbers an addition.
func (l *leases) next() uint64 {
	l.seq++
	return l.seq
}

func (l *leases) begin(id checkpoint.ID) { l.begun[id] = l.seq + 1 }

func (l *leases) end(id checkpoint.ID, complete bool) {
	first, ok := l.begun[id]
	delete(l.begun, id)
	if complete && ok {
		l.complete = [2]uint64{first, l.complete[0]}
	}
}

// spared is the first addition that a sweep spares. Objects of earlier processes have number 0.
func (l *leases) spared() uint64 {
	first := uint64(1)
	if l.complete[1] != 0 {
		first = l.complete[1]
	}
	oldest := uint64(math.MaxUint64)
	for _, s := range l.begun {
		oldest = min(oldest, s)
	}
	return min(first, oldest)
}

// Hold spares what is added from now on from sweeps until release, like a checkpoint in flight.
func (s *Store) Hold() (release func()) {
	s.mu.Lock()
	s.leases.holds++
	// Ids of checkpoints rise from 1; these fall from the other end.
	id := ^checkpoint.ID(s.leases.holds)
	s.leases.begin(id)
	s.mu.Unlock()
	return func() { s.Abandon(id) }
}
