package checkpoint

import (
	"errors"
	"fmt"

	"github.com/millrace-io/millrace/state"
)

// ErrTimeout is why a checkpoint was aborted that took too long.
var ErrTimeout = errors.New("checkpoint timed out")

// ErrChangeGivenUp fails a job whose checkpoint was to change its code: it goes on from the one before, with
// the old code.
var ErrChangeGivenUp = errors.New("the change of code was given up")

// Vertex is a chain of operators, run by Parallelism tasks.
type Vertex struct {
	ID          string
	Parallelism int
	Source      bool
}

// CoordinatorOptions configure a coordinator.
type CoordinatorOptions struct {
	// Template has what all manifests of this run share: Job, Engine, Seed, Pipeline, Modules, Canary.
	Template Manifest
	// Restored is the checkpoint this run started from; nil: a fresh start.
	Restored *Manifest
	// Probation is that of the code that runs; nil: none.
	Probation *Probation
	Vertices  []Vertex
	// IntervalMS is from the start of one checkpoint to the start of the next; 0: only the final one.
	IntervalMS int64
	// TimeoutMS is how long tasks may take to acknowledge; 0: for ever.
	TimeoutMS int64
	// MaxFailures is how many checkpoints in a row may fail before the job does; 0: any number.
	MaxFailures int
}

const (
	reserveIDs = 16 // ids asked for at a time; at most so many are skipped by a restart
	// A final checkpoint is tried so often, with a pause between, before the job fails.
	finalAttempts = 3
	finalPauseMS  = 500
)

// Coordinator decides when checkpoints start, end and are given up. It is a pure state machine: events in,
// effects out, no goroutines, no clock. One checkpoint is in flight at a time. Not for concurrent use.
type Coordinator struct {
	opt      CoordinatorOptions
	sources  map[TaskID]bool
	order    []TaskID
	finished map[TaskID]TaskFinished
	now      Instant
	started  bool // now is set
	effects  []Effect

	nextID, lastID ID // ids at hand: [nextID, lastID]
	reserving      bool
	flight         *flight
	lastStartMS    int64
	notBeforeMS    int64 // pause after a failed final checkpoint or reservation

	stopping, inputEnded, over bool
	wanted                     bool  // a checkpoint was asked for and has not started
	wantedKind                 Kind  // of it
	next                       *Next // to be put into force by the next checkpoint
	attempts                   int   // of the final checkpoint
	stats                      CoordinatorStats
	known                      map[string]bool // objects of the last complete checkpoint
	probation                  *Probation      // of the code that runs; nil: none
}

// flight is the checkpoint under way.
type flight struct {
	barrier   Barrier
	kind      Kind
	last      bool // the job ends with it
	startedMS int64
	acks      map[TaskID]TaskSnapshot
	writing   *Manifest // nil: acknowledgements are missing
	next      *Next     // put into force at its barrier
}

// CoordinatorStats are for people and metrics.
type CoordinatorStats struct {
	LastComplete        ID
	LastCompleteMS      int64 // monotonic
	InFlight            ID    // 0: none
	Waiting             int   // tasks that have not acknowledged it
	Complete            int
	Failed              int
	ConsecutiveFailures int
	Strays              int // late, repeated or unknown acknowledgements
	LastFailure         error
}

// NewCoordinator checks the options.
func NewCoordinator(opt CoordinatorOptions) (*Coordinator, error) {
	c := &Coordinator{opt: opt, nextID: 1, probation: opt.Probation, sources: map[TaskID]bool{}, finished: map[TaskID]TaskFinished{},
		known: map[string]bool{}}
	seen := map[string]bool{}
	for _, v := range opt.Vertices {
		if v.Parallelism < 1 || seen[v.ID] {
			return nil, fmt.Errorf("coordinator: vertex %q: parallelism %d, or twice in the graph", v.ID,
				v.Parallelism)
		}
		seen[v.ID] = true
		for t := range v.Parallelism {
			id := TaskID{v.ID, t}
			c.order = append(c.order, id)
			if v.Source {
				c.sources[id] = true
			}
		}
	}
	if len(c.sources) == 0 {
		return nil, errors.New("coordinator: a job without sources has no checkpoints")
	}
	if opt.Restored != nil {
		c.stats.LastComplete = opt.Restored.ID
		c.remember(opt.Restored)
	}
	return c, nil
}

// Stats describes the coordinator.
func (c *Coordinator) Stats() CoordinatorStats {
	s := c.stats
	if f := c.flight; f != nil {
		s.InFlight = f.barrier.ID
		s.Waiting = c.missing(f)
	}
	return s
}

// Step handles an event and returns what to do. After JobDone or FailJob nothing happens any more.
func (c *Coordinator) Step(now Instant, ev Event) []Effect {
	c.effects = nil
	if c.over {
		return nil
	}
	if !c.started {
		c.started, c.lastStartMS = true, now.MonoMS
	}
	c.now = now
	switch ev := ev.(type) {
	case Tick:
	case IDsReserved:
		c.idsReserved(ev)
	case Ack:
		c.ack(ev)
	case Decline:
		if f := c.flight; f != nil && f.barrier.ID == ev.ID && f.writing == nil {
			c.abort(fmt.Errorf("task %s: %w", ev.Task, ev.Reason))
		}
	case TaskFinished:
		c.taskFinished(ev)
	case ManifestWritten:
		c.manifestWritten(ev)
	case Stop:
		if ev.Savepoint {
			c.wantedKind = KindSavepoint
		}
		c.stop(false)
	case InputEnded:
		c.stop(true)
	case Trigger:
		c.wanted = true
		if ev.Savepoint {
			c.wantedKind = KindSavepoint
		}
		if ev.Next != nil {
			c.next = ev.Next
		}
	default:
		panic(fmt.Sprintf("checkpoint: unknown event %T", ev))
	}
	c.advance()
	return c.effects
}

// NextWake is the monotonic time at which the coordinator wants a Tick if nothing happens before.
func (c *Coordinator) NextWake() (atMS int64, ok bool) {
	wake := func(at int64) {
		if !ok || at < atMS {
			atMS, ok = at, true
		}
	}
	if c.over {
		return 0, false
	}
	if f := c.flight; f != nil {
		if f.writing == nil && c.opt.TimeoutMS > 0 {
			wake(f.startedMS + c.opt.TimeoutMS)
		}
		return atMS, ok
	}
	if c.reserving {
		return 0, false
	}
	if at, due := c.due(); due {
		wake(at)
	}
	return atMS, ok
}

// due is when the next checkpoint should start; false: nothing will start one but an event.
func (c *Coordinator) due() (atMS int64, ok bool) {
	switch {
	case c.allFinished():
		return c.notBeforeMS, true
	case c.sourcesFinished():
		return 0, false // no one can send a barrier; what is left drains and finishes
	case c.stopping, c.wanted:
		return c.notBeforeMS, true
	case c.opt.IntervalMS > 0:
		return max(c.lastStartMS+c.opt.IntervalMS, c.notBeforeMS), true
	}
	return 0, false
}

// advance does what time and state allow.
func (c *Coordinator) advance() {
	if f := c.flight; f != nil && f.writing == nil && !c.over {
		if c.missing(f) == 0 {
			c.write(f)
		} else if c.opt.TimeoutMS > 0 && c.now.MonoMS >= f.startedMS+c.opt.TimeoutMS {
			c.abort(fmt.Errorf("%w after %d ms: %s", ErrTimeout, c.now.MonoMS-f.startedMS, c.whoIsMissing(f)))
		}
	}
	if c.over || c.flight != nil {
		return
	}
	at, ok := c.due()
	start := ok && c.now.MonoMS >= at
	// Ids are fetched ahead, so that no checkpoint waits for them but the first.
	if c.nextID+reserveIDs/4 > c.lastID && !c.reserving && c.now.MonoMS >= c.notBeforeMS {
		c.reserving = true
		c.emit(ReserveIDs{N: reserveIDs})
	}
	if start && c.nextID <= c.lastID {
		c.start()
	}
}

func (c *Coordinator) start() {
	f := &flight{startedMS: c.now.MonoMS, kind: c.wantedKind, acks: map[TaskID]TaskSnapshot{}}
	f.barrier = Barrier{ID: c.nextID, Final: c.stopping}
	c.nextID++
	c.lastStartMS, c.wanted, c.wantedKind = c.now.MonoMS, false, KindCheckpoint
	c.flight = f
	if c.allFinished() {
		c.write(f)
		return
	}
	if !f.barrier.Final { // a job that stops changes nothing any more
		f.next, c.next = c.next, nil
	}
	c.emit(InjectBarrier{f.barrier, f.next})
}

func (c *Coordinator) idsReserved(ev IDsReserved) {
	c.reserving = false
	if ev.Err != nil {
		c.failed(fmt.Errorf("no ids for checkpoints: %w", ev.Err))
		c.notBeforeMS = c.now.MonoMS + finalPauseMS
		return
	}
	if ev.First <= c.lastID || ev.First <= c.stats.LastComplete || ev.N < 1 {
		c.fail(fmt.Errorf("ids %d to %d were used before", ev.First, ev.First+ID(ev.N)-1))
		return
	}
	if c.nextID > c.lastID || ev.First != c.lastID+1 {
		c.nextID = ev.First
	}
	c.lastID = ev.First + ID(ev.N) - 1
}

func (c *Coordinator) ack(ev Ack) {
	f, task := c.flight, ev.Snapshot.ID()
	if f == nil || f.barrier.ID != ev.ID || f.writing != nil || !c.isTask(task) {
		c.stats.Strays++
		return
	}
	if _, twice := f.acks[task]; twice {
		c.stats.Strays++
		return
	}
	f.acks[task] = ev.Snapshot
}

func (c *Coordinator) taskFinished(ev TaskFinished) {
	task := ev.Snapshot.ID()
	if _, twice := c.finished[task]; twice || !c.isTask(task) {
		c.stats.Strays++
		return
	}
	ev.Snapshot.Finished = true
	c.finished[task] = ev
}

func (c *Coordinator) stop(inputEnded bool) {
	c.inputEnded = c.inputEnded || inputEnded
	if c.stopping {
		return
	}
	c.stopping = true
}

func (c *Coordinator) manifestWritten(ev ManifestWritten) {
	f := c.flight
	if f == nil || f.writing == nil || f.barrier.ID != ev.ID {
		c.stats.Strays++
		return
	}
	if ev.Err != nil {
		if ev.Uncertain {
			c.fail(fmt.Errorf("checkpoint %d: %w", ev.ID, ev.Err))
			return
		}
		c.abort(ev.Err)
		return
	}
	c.flight = nil
	if f.next != nil {
		c.opt.Template.Pipeline, c.opt.Template.Modules, c.opt.Template.Canary = f.next.Pipeline, f.next.Modules, f.next.Canary
	}
	if c.probation = f.writing.Probation; f.next != nil && f.next.Probation != nil {
		c.probation = f.next.Probation.began(ev.ID)
	}
	c.remember(f.writing)
	c.stats.LastComplete, c.stats.LastCompleteMS = ev.ID, c.now.MonoMS
	c.stats.Complete++
	c.stats.ConsecutiveFailures, c.attempts = 0, 0
	c.emit(NotifyComplete{ID: ev.ID, Held: f.writing.Probation != nil})
	if f.last {
		c.over = true
		c.emit(JobDone{ID: ev.ID, Finished: f.writing.Finished})
	}
}

// write assembles the manifest of a checkpoint of which nothing is missing.
func (c *Coordinator) write(f *flight) {
	m := c.opt.Template
	m.Format, m.Slots, m.ID, m.CreatedMS = FormatVersion, state.Slots, f.barrier.ID, c.now.WallMS
	m.Kind, m.Parent = f.kind, c.stats.LastComplete
	m.Finished = true
	m.Tasks = make([]TaskSnapshot, 0, len(c.order))
	for _, task := range c.order {
		t, ok := f.acks[task]
		if !ok {
			t = c.finished[task].Snapshot
		}
		m.Finished = m.Finished && t.Finished
		m.Tasks = append(m.Tasks, t)
	}
	m.Finished = m.Finished || f.barrier.Final && c.inputEnded
	m.Next = f.next
	m.Probation = c.probation.behind(m.Finished)
	seen := map[string]bool{}
	m.StoredBytes = 0
	for ref := range m.Objects() {
		if !c.known[ref.Digest] && !seen[ref.Digest] {
			seen[ref.Digest] = true
			m.StoredBytes += max(ref.Size, 0)
		}
	}
	f.last = m.Finished || f.barrier.Final
	f.writing = &m
	c.emit(WriteManifest{&m})
}

// abort is a failure of the checkpoint under way; the next may start as if it had never been.
func (c *Coordinator) abort(reason error) {
	id, final, kind := c.flight.barrier.ID, c.flight.barrier.Final || c.allFinished(), c.flight.kind
	changing := c.flight.next != nil
	c.giveUp(reason)
	if changing { // some tasks run the new code already, with state of the old that is in no checkpoint
		c.stats.Failed++
		c.stats.ConsecutiveFailures++
		c.fail(fmt.Errorf("%w: checkpoint %d: %w", ErrChangeGivenUp, id, reason))
		return
	}
	c.failed(fmt.Errorf("checkpoint %d: %w", id, reason))
	if !final || c.over {
		return
	}
	if kind == KindSavepoint { // of the next attempt too
		c.wantedKind = kind
	}
	c.notBeforeMS = c.now.MonoMS + finalPauseMS
	if c.attempts++; c.attempts == finalAttempts {
		c.fail(fmt.Errorf("the final checkpoint failed %d times, the last good one is %d: %w", c.attempts,
			c.stats.LastComplete, reason))
	}
}

func (c *Coordinator) giveUp(reason error) {
	c.emit(AbortCheckpoint{c.flight.barrier.ID, reason})
	c.flight = nil
}

func (c *Coordinator) failed(reason error) {
	c.stats.Failed++
	c.stats.ConsecutiveFailures++
	c.stats.LastFailure = reason
	if c.opt.MaxFailures > 0 && c.stats.ConsecutiveFailures >= c.opt.MaxFailures {
		c.fail(fmt.Errorf("%d checkpoints failed in a row: %w", c.stats.ConsecutiveFailures, reason))
	}
}

func (c *Coordinator) fail(reason error) {
	c.over = true
	c.flight = nil
	c.emit(FailJob{reason})
}

func (c *Coordinator) emit(e Effect) { c.effects = append(c.effects, e) }

func (c *Coordinator) remember(m *Manifest) {
	clear(c.known)
	for ref := range m.Objects() {
		c.known[ref.Digest] = true
	}
}
