package task

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/crashpoint"
	"github.com/millrace-io/millrace/host/clock"
	"github.com/millrace-io/millrace/host/clocklog"
	"github.com/millrace-io/millrace/operators"
)

// ID names a task: the chain's first operator and the number among its parallel tasks.
type ID struct {
	Vertex string
	Index  int
}

func (id ID) String() string { return fmt.Sprintf("%s-%d", id.Vertex, id.Index) }

// Control is what the job tells a task.
type Control struct {
	Barrier  *checkpoint.Barrier // sources: inject it now
	Abort    checkpoint.ID       // give up aligning for it
	Complete checkpoint.ID       // it is durable
	Held     bool                // with Complete: nothing of it is published yet
	// Look is called by the task's goroutine between two batches, with what finds an operator of its chain (nil:
	// it has none of that id). It must be short and change nothing.
	Look func(find func(operator string) operators.Operator)
}

// Event is what a task tells the job.
type Event struct {
	Task     ID
	Kind     EventKind
	ID       checkpoint.ID
	Snapshot checkpoint.TaskSnapshot // Ack
	Err      error                   // Decline, Failed
}

// EventKind is the kind of an event.
type EventKind int

// Kinds of events.
const (
	Opened     EventKind = iota
	Ack                  // the task's part of a checkpoint is durable
	Decline              // it could not be made
	InputEnded           // a source has read everything
	Committed            // the operators have committed a complete checkpoint
	Finished             // the final checkpoint is complete, the task is gone
	Failed
)

// Config is what New needs. The chain's stages come in an order in which inputs come first.
type Config struct {
	ID          ID
	Parallelism int
	Source      operators.Source // nil: the head stage is fed from the inbox
	Stages      []*Stage         // a source's own stage first
	Inbox       *Inbox           // nil for sources
	Watermarks  []int64          // restored, one per channel; nil: none yet
	Idle        []bool           // restored, one per channel; nil: none is
	Ahead       uint64           // restored: how far the watermark is ahead of the least of Watermarks, ms
	Restored    checkpoint.ID    // checkpoint the job started from; 0: none
	Batch       int              // records per batch
	Linger      time.Duration
	Clock       clock.Clock
	// Repeat is what the clock did over a stretch, to be done again instead of looking at Clock; nil: nothing.
	Repeat *clocklog.Reader
	// Keep puts bytes into the snapshot store; nil: a log of the clock goes into the manifest, however long it is.
	Keep   func(ctx context.Context, data []byte) (digest string, size int64, err error)
	Report func(Event) // called from the task's goroutine and from its snapshot writers; must not block for long
}

// Task is one running chain.
type Task struct {
	cfg     Config
	mail    mailbox
	writers []*Writer
	timers  []timerStage
	snaps   []snapStage
	align   *checkpoint.Aligner // nil for sources
	wms     []int64             // of each channel
	merged  int64
	intake  *operators.Intake // the source's, nil if it has none
	idles   []bool            // channels that the watermark does without
	idle    bool              // what those behind have been told
	in      abi.Batch
	cut     *cut
	// lettersAt is the last watermark on a source's dead-letter output; noLetters carries one alone.
	lettersAt int64
	noLetters abi.Batch
	acks      chan *cut
	final     checkpoint.ID // id of the final barrier passed, 0: none
	ended     bool          // source: everything is read
	done      bool
	timer     *time.Timer
	clocks    *clocklog.Log
	// sourceNotes is the source's section of clocks, nil: it does not look at the clock.
	sourceNotes *clocklog.Section
	armed       atomic.Pointer[Swap]

	// Counters, read by others.
	Records   atomic.Int64 // taken from source or inbox
	Emitted   atomic.Int64
	Watermark atomic.Int64
	Idle      atomic.Bool  // nothing waits for its watermark
	Busy      atomic.Int64 // ns of Mono spent in operators
}

type timerStage struct {
	stage *Stage
	op    operators.ProcessingTimer
}

type snapStage struct {
	stage *Stage
	op    operators.Snapshotter
}

// New wires a task; Run runs it.
func New(cfg Config) *Task {
	t := &Task{cfg: cfg, mail: mailbox{notify: make(chan struct{}, 1)}, acks: make(chan *cut, 4), merged: abi.MinWatermark, lettersAt: abi.MinWatermark}
	t.Watermark.Store(abi.MinWatermark)
	t.clocks = clocklog.New(cfg.Restored)
	t.clockStages()
	seen := map[*Writer]bool{}
	for _, s := range cfg.Stages {
		s.task = t
		if op, ok := s.Op.(operators.ProcessingTimer); ok {
			t.timers = append(t.timers, timerStage{s, op})
		}
		if op, ok := s.Op.(operators.Snapshotter); ok {
			t.snaps = append(t.snaps, snapStage{s, op})
		}
		for _, r := range s.outs {
			for _, x := range r.targets {
				if x.w != nil && !seen[x.w] {
					seen[x.w] = true
					t.writers = append(t.writers, x.w)
				}
			}
		}
	}
	if cfg.Inbox != nil {
		t.initInputs()
	}
	return t
}

func (t *Task) initInputs() {
	n := len(t.cfg.Inbox.channels)
	t.wms, t.idles = make([]int64, n), make([]bool, n)
	for i := range t.wms {
		t.wms[i] = abi.MinWatermark
		if i < len(t.cfg.Watermarks) {
			t.wms[i] = t.cfg.Watermarks[i]
		}
	}
	copy(t.idles, t.cfg.Idle)
	t.merged = checkpoint.Advance(minOf(t.wms), t.cfg.Ahead)
	t.Watermark.Store(t.merged)
	t.align = checkpoint.NewAligner(n, t.cfg.Restored)
}

func minOf(v []int64) int64 {
	m := abi.MaxWatermark
	for _, x := range v {
		m = min(m, x)
	}
	return m
}

// ID returns the task's name.
func (t *Task) ID() ID { return t.cfg.ID }

// Control hands the task a message; it never blocks: a task may be stuck in a slow sink for as long as it
// likes without holding up those who talk to it.
func (t *Task) Control(c Control) { t.mail.put(c) }

// Run opens the operators, runs until the final checkpoint is complete, ctx ends, or something fails, and
// closes the operators. It reports how it ended.
func (t *Task) Run(ctx context.Context) {
	err := t.guarded(ctx)
	t.finishCut()
	for _, s := range t.cfg.Stages {
		if s.Op != nil && s.Context != nil {
			if e := s.Op.Close(); e != nil && err == nil && ctx.Err() == nil {
				err = e
			}
		}
	}
	if e := t.intake.Close(); e != nil && err == nil && ctx.Err() == nil {
		err = e
	}
	if t.cfg.Source != nil {
		if e := t.cfg.Source.Close(); e != nil && err == nil && ctx.Err() == nil {
			err = e
		}
	}
	if err != nil {
		t.cfg.Report(Event{Task: t.cfg.ID, Kind: Failed, Err: err})
		return
	}
	t.cfg.Report(Event{Task: t.cfg.ID, Kind: Finished})
}

// guarded turns a broken invariant into a failed task: the job starts again from its last checkpoint.
func (t *Task) guarded(ctx context.Context) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("broken invariant in task %s: %v\n%s", t.cfg.ID, r, debug.Stack())
		}
	}()
	return t.run(ctx)
}

// finishCut lets a cut's writer end, since it uses the operators that are to be closed.
func (t *Task) finishCut() {
	for t.cut != nil {
		select {
		case <-t.cut.written:
			return
		default:
		}
		busy, err := t.step()
		if err != nil {
			return
		}
		if !busy {
			<-t.cut.written
			return
		}
	}
}

func (t *Task) run(ctx context.Context) error {
	if err := t.open(ctx); err != nil {
		return err
	}
	t.cfg.Report(Event{Task: t.cfg.ID, Kind: Opened})
	t.timer = time.NewTimer(time.Hour)
	defer t.timer.Stop()
	if err := t.announce(); err != nil {
		return err
	}
	if err := t.startClock(); err != nil {
		return err
	}
	if err := t.processingTime(); err != nil { // overdue timers fire before the first new record
		return err
	}
	for !t.done {
		if err := ctx.Err(); err != nil {
			return err
		}
		worked, err := t.turn()
		if err != nil {
			return err
		}
		if !worked {
			if err := t.wait(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *Task) open(ctx context.Context) error {
	for _, w := range t.writers {
		w.ctx, w.now = ctx, t.cfg.Clock.Mono
	}
	if err := t.openClock(); err != nil {
		for _, s := range t.cfg.Stages {
			s.Context = nil // never opened
		}
		return err
	}
	// Last first, so that an operator that emits early finds its chain open.
	for i := len(t.cfg.Stages) - 1; i >= 0; i-- {
		s := t.cfg.Stages[i]
		s.Context.Context = ctx
		if s.Op == nil {
			continue
		}
		if err := s.Op.Open(s.Context); err != nil {
			s.Context = nil // never opened: not closed either
			return err
		}
	}
	if t.cfg.Restored != 0 {
		crashpoint.Hit(crashpoint.MidRestore)
	}
	if t.cfg.Source != nil {
		if err := t.cfg.Source.Open(t.cfg.Stages[0].Context); err != nil {
			return err
		}
		if s, ok := t.cfg.Source.(operators.Timed); ok {
			t.intake = s.Intake()
		}
	}
	return t.openSourceClock()
}

// turn does one bounded piece of everything there is to do; worked: there may be more at once.
func (t *Task) turn() (worked bool, err error) {
	if worked, err = t.controls(); err != nil || t.done {
		return worked, err
	}
	w, err := t.input()
	if err != nil {
		return false, err
	}
	if w {
		crashpoint.Hit(crashpoint.AfterEmit)
	}
	worked = worked || w
	busy, err := t.step()
	if err != nil {
		return false, err
	}
	if len(t.timers) > 0 {
		if err := t.processingTime(); err != nil {
			return false, err
		}
	}
	return worked || busy, t.linger()
}

// controls takes what the job says.
func (t *Task) controls() (worked bool, err error) {
	for {
		if c, ok := t.mail.take(); ok {
			worked = true
			if err := t.control(c); err != nil {
				return true, err
			}
		} else {
			select {
			case c := <-t.acks:
				worked = true
				t.acknowledge(c)
			default:
				return worked, nil
			}
		}
		if t.done {
			return true, nil
		}
	}
}

func (t *Task) control(c Control) error {
	switch {
	case c.Barrier != nil:
		return t.snapshot(*c.Barrier)
	case c.Abort != 0:
		return t.abort(c.Abort)
	case c.Look != nil:
		c.Look(t.operator)
	case c.Complete != 0:
		for _, s := range t.snaps {
			complete := s.op.Complete
			if h, ok := s.op.(operators.Holder); ok && c.Held {
				complete = h.Held
			}
			if err := complete(c.Complete); err != nil {
				return fmt.Errorf("operator %s: commit checkpoint %d: %w", s.stage.Node.ID, c.Complete, err)
			}
		}
		t.clocks.Complete(c.Complete)
		t.cfg.Report(Event{Task: t.cfg.ID, Kind: Committed, ID: c.Complete})
		t.done = t.final != 0 && c.Complete >= t.final
	}
	return nil
}

// Runs says whether an operator is in the task's chain; by any goroutine.
func (t *Task) Runs(operator string) bool {
	return slices.ContainsFunc(t.cfg.Stages, func(s *Stage) bool { return s.Node.ID == operator })
}

// operator is one of the chain by its id, nil if it is not there.
func (t *Task) operator(id string) operators.Operator {
	for _, s := range t.cfg.Stages {
		if s.Node.ID == id {
			return s.Op
		}
	}
	return nil
}

// input takes one batch from the source or one item from the inbox.
func (t *Task) input() (worked bool, err error) {
	if t.cfg.Source != nil {
		return t.poll()
	}
	c, it, ok := t.cfg.Inbox.recv()
	if !ok {
		return false, nil
	}
	if it.batch == nil {
		if it.status != noStatus {
			return true, t.statusArrived(c, it.status == idle)
		}
		return true, t.barrierArrived(c, it.barrier)
	}
	t.Records.Add(int64(it.batch.Len()))
	ended := t.merge(c.index, it.batch)
	if !it.batch.Empty() {
		err = t.cfg.Stages[0].batch(c.input, it.batch)
	}
	c.release(it.batch)
	if ended && err == nil { // those that are left may all be idle
		err = t.tellIdle(t.allIdle())
	}
	return true, err
}

// merge turns a channel's marks into marks of the minimum over all channels. ended: its last one was there.
func (t *Task) merge(ch int, b *abi.Batch) (ended bool) {
	n := len(b.Marks)
	if n == 0 {
		return false
	}
	ended = b.Marks[n-1].Watermark == abi.MaxWatermark
	if len(t.wms) == 1 {
		t.wms[0], t.merged = b.Marks[n-1].Watermark, b.Marks[n-1].Watermark
		t.Watermark.Store(t.merged)
		return ended
	}
	kept := b.Marks[:0]
	for _, m := range b.Marks {
		if m.Watermark <= t.wms[ch] {
			continue
		}
		t.wms[ch] = m.Watermark
		if w := t.least(); w > t.merged {
			t.merged = w
			kept = append(kept, abi.Mark{Index: m.Index, Watermark: w})
		}
	}
	b.Marks = kept
	t.Watermark.Store(t.merged)
	return ended
}

// poll reads one batch of the source.
func (t *Task) poll() (worked bool, err error) {
	if t.ended || t.final != 0 {
		return false, nil
	}
	b := &t.in
	b.Reset()
	most := t.cfg.Batch
	if t.sourceNotes != nil {
		most = t.intake.Most(most)
	}
	st, err := t.cfg.Source.Poll(b, most)
	if err != nil {
		return false, &SourceError{Source: t.cfg.ID.Vertex, Err: err}
	}
	if t.intake != nil {
		if err := t.intake.End(b); err != nil {
			return false, &SourceError{Source: t.cfg.ID.Vertex, Err: err}
		}
	}
	if st == operators.PollEnd && t.over() {
		b.Mark(abi.MaxWatermark)
		t.ended = true
	}
	silent := !t.ended && t.sourceIdle()
	if !silent { // before the records that end the silence
		if err := t.tellIdle(false); err != nil {
			return false, err
		}
	}
	if n := len(b.Marks); n > 0 {
		t.merged = b.Marks[n-1].Watermark
		t.Watermark.Store(t.merged)
	}
	t.Records.Add(int64(b.Len()))
	worked = st == operators.PollMore || !b.Empty()
	if err := t.emit(b); err != nil {
		return false, err
	}
	if silent {
		if err := t.tellIdle(true); err != nil {
			return false, err
		}
	}
	if t.ended {
		for _, w := range t.writers {
			if err := w.flush(); err != nil {
				return false, err
			}
		}
		t.cfg.Report(Event{Task: t.cfg.ID, Kind: InputEnded})
	}
	return worked, nil
}

// emit hands on what a poll gave.
func (t *Task) emit(b *abi.Batch) error {
	if !b.Empty() {
		crashpoint.Hit(crashpoint.AfterPoll)
		if err := t.cfg.Stages[0].Emit(operators.OutputMain, b); err != nil {
			return err
		}
	}
	if r, ok := t.cfg.Source.(operators.Rejecter); ok {
		return t.rejected(r, t.merged)
	}
	return nil
}

func (t *Task) processingTime() error {
	if t.cfg.Repeat != nil {
		if err := t.repeatTimers(); err != nil {
			return err
		}
	}
	now := t.cfg.Clock.NowMS()
	for _, s := range t.timers {
		if at, ok := s.op.NextProcessing(); ok && at <= now && !s.stage.repeats() {
			s.stage.fired(now)
			if err := s.op.OnProcessingTime(now, s.stage); err != nil {
				return err
			}
		}
	}
	return nil
}

// linger flushes what has waited long enough.
func (t *Task) linger() error {
	now := int64(0)
	for _, w := range t.writers {
		if !w.pending {
			continue
		}
		if now == 0 {
			now = t.cfg.Clock.Mono()
		}
		if t.cfg.Linger == 0 || now-w.since >= int64(t.cfg.Linger) {
			if err := w.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// wait blocks until something may have changed.
func (t *Task) wait(ctx context.Context) error {
	t.timer.Reset(t.deadline())
	var notify, wake <-chan struct{}
	if t.cfg.Inbox != nil {
		notify = t.cfg.Inbox.notify
	} else if !t.ended && t.final == 0 {
		notify = t.cfg.Source.Ready()
		if g := t.cfg.Stages[0].Context.Group; g != nil {
			wake = g.Wake(t.cfg.ID.Index)
		}
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-notify:
	case <-wake:
	case <-t.timer.C:
	case <-t.mail.notify:
	case c := <-t.acks:
		t.acknowledge(c)
	}
	return nil
}

// deadline is how long the task may sleep: until a linger or a processing-time timer is due, or the source
// wants to look whether something came.
func (t *Task) deadline() time.Duration {
	d := time.Hour
	until := func(at int64) {
		ms := min(max(0, at-t.cfg.Clock.NowMS()), time.Hour.Milliseconds())
		d = min(d, time.Duration(ms)*time.Millisecond)
	}
	now := t.cfg.Clock.Mono()
	for _, w := range t.writers {
		if w.pending {
			d = min(d, max(0, t.cfg.Linger-time.Duration(now-w.since)))
		}
	}
	for _, s := range t.timers {
		if at, ok := s.op.NextProcessing(); ok && !s.stage.repeats() {
			until(at)
		}
	}
	if t.intake != nil && !t.ended && t.final == 0 {
		if at, ok := t.intake.NextLook(); ok {
			until(at)
		}
	}
	return d
}

// Queued is the bytes waiting in the task's inbox.
func (t *Task) Queued() int {
	if t.cfg.Inbox == nil {
		return 0
	}
	return t.cfg.Inbox.Queued()
}
