package record

import (
	"errors"
	"slices"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
)

// sourceTask is one task of a source while it is read.
type sourceTask struct {
	node    *operators.Node
	task    int
	src     operators.Source
	intake  *operators.Intake // nil: it has none
	group   *operators.SourceGroup
	out     *taskWriter
	places  placer // nil: positions name themselves
	event   event
	mark    int64 // its watermark
	records int64
	until   map[uint32]checkpoint.SplitPosition // where to end, by split; empty: nowhere
	toOver  bool                                // to the end of its input
	idle    bool
	waits   bool // it has nothing now, unless another task moves
	done    bool // it is where the recording ends
	over    bool // it has read everything
}

// poll fills t.event. moved: it is not where it was.
func (t *sourceTask) poll(most int) (moved bool, err error) {
	e := &t.event
	e.kind = eventBatch
	e.batch.Reset()
	e.rejected.Reset()
	st, err := t.src.Poll(&e.batch, most)
	if err == nil && t.intake != nil {
		err = t.intake.End(&e.batch)
	}
	if err != nil {
		return false, err
	}
	if r, ok := t.src.(operators.Rejecter); ok {
		letters := r.Rejected()
		for i := range letters.Len() {
			e.rejected.AppendFrame(letters.Frame(i))
		}
	}
	moved = st == operators.PollMore || !e.batch.Empty() || e.rejected.Len() > 0
	t.waits = !moved && st == operators.PollIdle
	t.over = st == operators.PollEnd
	if t.over {
		t.group.Done(t.task)
	}
	if t.intake != nil {
		t.mark = t.intake.Watermark()
	}
	if len(t.until) > 0 {
		t.done = t.arrived()
		t.over = t.over && t.toOver
	}
	return moved, nil
}

// arrived says that every split is where the recording ends.
func (t *sourceTask) arrived() bool {
	for _, p := range t.src.Positions() {
		end, ok := t.until[p.Index]
		if ok && !p.Finished && (end.Finished || p.Offset < end.Offset) {
			return false
		}
	}
	return !t.toOver || t.over
}

// write hands on what the poll gave.
func (t *sourceTask) write() error {
	idle := !t.over && t.intake != nil && t.intake.Idle()
	if !idle && t.idle { // before the records that end the silence
		if err := t.out.event(&event{kind: eventActive}, nil); err != nil {
			return err
		}
	}
	if !t.event.batch.Empty() || t.event.rejected.Len() > 0 {
		if err := t.out.event(&t.event, t.places); err != nil {
			return err
		}
	}
	if idle && !t.idle {
		if err := t.out.event(&event{kind: eventIdle}, nil); err != nil {
			return err
		}
	}
	t.idle = idle
	if t.over {
		return t.out.event(&event{kind: eventOver}, nil)
	}
	return nil
}

func (t *sourceTask) ended() TaskEnd {
	return TaskEnd{Source: t.node.ID, Task: t.task, Over: t.over, Idle: t.idle, Records: t.records, Splits: t.src.Positions()}
}

func (t *sourceTask) close() error {
	if t.places != nil {
		t.places.close()
	}
	return errors.Join(t.intake.Close(), t.src.Close())
}

// cutAt takes out of a batch what its splits gave behind the end of the recording.
func (t *sourceTask) cutAt(b *abi.Batch) {
	keep(b, func(f abi.Frame) bool {
		end, ok := t.until[f.Pos().Split]
		return !ok || end.Finished || f.Pos().Offset < uint64(end.Offset)
	}, true)
}

// chosen takes out of a batch the records with other keys, and says how many they were.
func chosen(b *abi.Batch, keys []string) int {
	n := b.Len()
	keep(b, func(f abi.Frame) bool { return slices.Contains(keys, string(f.Key())) }, false)
	return n - b.Len()
}

// keep leaves the records of a batch for which f holds, its marks where they were between them. Those behind the
// last one go with cut: the records that made them are gone.
func keep(b *abi.Batch, f func(abi.Frame) bool, cut bool) {
	var out abi.Batch
	place := make([]uint32, b.Len()+1)
	last := -1
	for i := range b.Len() {
		place[i] = uint32(out.Len())
		if r := b.Frame(i); f(r) {
			out.AppendFrame(r)
			last = i
		}
	}
	if out.Len() == b.Len() {
		return
	}
	place[b.Len()] = uint32(out.Len())
	for _, m := range b.Marks {
		if !cut || int(m.Index) <= last+1 {
			out.Marks = append(out.Marks, abi.Mark{Index: place[m.Index], Watermark: m.Watermark})
		}
	}
	*b = out
}
