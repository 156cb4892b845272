package coldpebble

import (
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// scheduler grants compactions up to what the database allows. Pebble's own does the same with a ticker
// that wakes an idle process ten times a second; this one acts only when something happens: a compaction
// is asked for, one ends, or a flush raises what is allowed.
type scheduler struct {
	db pebble.DBForCompaction // set by Register, before everything else

	mu       sync.Mutex
	idle     sync.Cond // granting became false
	running  int
	allowed  int // as last seen
	granting bool
	closed   bool
}

var _ pebble.CompactionScheduler = (*scheduler)(nil)
var _ pebble.CompactionGrantHandle = (*scheduler)(nil)

func newScheduler() *scheduler {
	s := &scheduler{}
	s.idle.L = &s.mu
	return s
}

// Register implements pebble.CompactionScheduler.
func (s *scheduler) Register(_ int, db pebble.DBForCompaction) { s.db = db }

// Unregister implements pebble.CompactionScheduler.
func (s *scheduler) Unregister() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for s.granting {
		s.idle.Wait()
	}
}

// TrySchedule implements pebble.CompactionScheduler.
func (s *scheduler) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false, nil
	}
	s.allowed = s.db.GetAllowedWithoutPermission()
	if s.running >= s.allowed {
		return false, nil
	}
	s.running++
	return true, s
}

// UpdateGetAllowedWithoutPermission implements pebble.CompactionScheduler. The database's mutex is held:
// calling it back from here would deadlock, so another goroutine does.
func (s *scheduler) UpdateGetAllowedWithoutPermission() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.db.GetAllowedWithoutPermission()
	more := now > s.allowed
	s.allowed = now
	if more && !s.closed && !s.granting {
		s.granting = true
		go s.grant()
	}
}

// grant starts waiting compactions. The caller has set granting.
func (s *scheduler) grant() {
	for {
		s.mu.Lock()
		s.allowed = s.db.GetAllowedWithoutPermission()
		if s.closed || s.running >= s.allowed {
			break
		}
		s.mu.Unlock()
		waiting, _ := s.db.GetWaitingCompaction()
		if !waiting || !s.db.Schedule(s) {
			s.mu.Lock()
			break
		}
		s.mu.Lock()
		s.running++
		s.mu.Unlock()
	}
	s.granting = false
	s.idle.Broadcast()
	s.mu.Unlock()
}

// Started implements pebble.CompactionGrantHandle.
func (s *scheduler) Started() {}

// MeasureCPU implements pebble.CompactionGrantHandle.
func (s *scheduler) MeasureCPU(pebble.CompactionGoroutineKind) {}

// CumulativeStats implements pebble.CompactionGrantHandle.
func (s *scheduler) CumulativeStats(pebble.CompactionGrantHandleStats) {}

// Done implements pebble.CompactionGrantHandle.
func (s *scheduler) Done() {
	s.mu.Lock()
	s.running--
	for s.granting { // whoever grants now may have looked before this one ended
		s.idle.Wait()
	}
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.granting = true
	s.mu.Unlock()
	s.grant()
}
