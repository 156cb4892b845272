package checkpoint

import "fmt"

// Aligner decides, for one task with n input channels, what a barrier does: which channels are not read
// until the others have caught up, and when the task makes its cut. It is a pure state machine: no
// goroutines, no clock, no allocation per event. Owned by the task's goroutine.
//
// A channel that has ended counts as having delivered every barrier. Ids rise; a barrier with a higher id
// than the alignment under way replaces it, one with a lower id than the last decided is late and means
// nothing. The task drops a barrier once it has asked about it, whatever the answer.
type Aligner struct {
	floor   ID     // barriers up to here are decided: cut, aborted or replaced; below current
	current ID     // alignment under way; 0: none
	final   bool   // of current
	aborted []ID   // aborted ids above the floor, whose barriers may still come
	arrived []bool // channels that delivered current's barrier
	ended   []bool
	waiting int // channels that neither ended nor delivered current's barrier
	open    int // channels that have not ended
}

// maxAborted bounds what an aligner remembers when barriers stay away for long.
const maxAborted = 64

// Decision is what a task does upon an event, in the order of the fields.
type Decision struct {
	// GaveUp is the alignment that ends without a cut: replaced by a newer one, or aborted. 0: none.
	GaveUp ID
	// Unblock: all blocked channels are read again.
	Unblock bool
	// Block: the channel of the event is not read until the next Unblock.
	Block bool
	// Cut is the checkpoint to cut for now, before anything else is read. Its ID is 0: none.
	Cut Barrier
	// Late: the barrier belongs to a checkpoint that is already decided.
	Late bool
	// AllEnded: no channel will deliver anything any more.
	AllEnded bool
}

// NewAligner is for a task with n >= 1 input channels. Barriers up to restored were decided before the
// task started.
func NewAligner(n int, restored ID) *Aligner {
	if n < 1 {
		panic(fmt.Sprintf("checkpoint: aligner of %d channels", n))
	}
	return &Aligner{floor: restored, arrived: make([]bool, n), ended: make([]bool, n), open: n}
}

// Blocked says whether channel c must not be read.
func (a *Aligner) Blocked(c int) bool { return a.current != 0 && a.arrived[c] && !a.ended[c] }

// Aligning is the alignment under way, 0 if there is none.
func (a *Aligner) Aligning() ID { return a.current }

// Barrier is the arrival of b on channel c. An error is a broken protocol and fails the task: a barrier
// after the channel's end, or one checkpoint called final on one channel and not on another.
func (a *Aligner) Barrier(c int, b Barrier) (Decision, error) {
	if a.ended[c] {
		return Decision{}, fmt.Errorf("barrier %d on input channel %d, which has ended", b.ID, c)
	}
	if b.ID <= a.floor || a.isAborted(b.ID) {
		return Decision{Late: true}, nil
	}
	if b.ID == a.current {
		return a.join(c, b)
	}
	var d Decision
	if a.current != 0 {
		d = a.giveUp()
	}
	a.decided(b.ID - 1)
	if a.open == 1 {
		a.decided(b.ID)
		d.Cut = b
		return d, nil
	}
	a.current, a.final = b.ID, b.Final
	a.arrived[c] = true
	a.waiting = a.open - 1
	d.Block = true
	return d, nil
}

// join is a further barrier of the alignment under way.
func (a *Aligner) join(c int, b Barrier) (Decision, error) {
	if b.Final != a.final {
		return Decision{}, fmt.Errorf("barrier %d on input channel %d has final=%v, on another %v", b.ID, c,
			b.Final, a.final)
	}
	if a.arrived[c] {
		return Decision{Late: true}, nil // sent twice
	}
	a.arrived[c] = true
	if a.waiting--; a.waiting > 0 {
		return Decision{Block: true}, nil
	}
	return a.cut(), nil
}

// End is the end of channel c. Said twice it means nothing.
func (a *Aligner) End(c int) Decision {
	if a.ended[c] {
		return Decision{}
	}
	a.ended[c] = true
	a.open--
	var d Decision
	if a.current != 0 && !a.arrived[c] {
		if a.waiting--; a.waiting == 0 {
			d = a.cut()
		}
	}
	d.AllEnded = a.open == 0
	return d
}

// Abort is the coordinator's word that checkpoint id is given up. It may come before, between and after
// the barriers of id, and more than once.
func (a *Aligner) Abort(id ID) Decision {
	switch {
	case id <= a.floor || a.isAborted(id):
		return Decision{}
	case id == a.current:
		d := a.giveUp()
		a.decided(id)
		return d
	}
	if len(a.aborted) == maxAborted {
		// Its barriers, should they come yet, make an alignment that the next barrier replaces.
		a.aborted = a.aborted[:copy(a.aborted, a.aborted[1:])]
	}
	a.aborted = append(a.aborted, id)
	return Decision{}
}

// cut ends the alignment under way with a cut.
func (a *Aligner) cut() Decision {
	d := Decision{Unblock: true, Cut: Barrier{ID: a.current, Final: a.final}}
	a.decided(a.current)
	a.reset()
	return d
}

// giveUp ends the alignment under way without a cut.
func (a *Aligner) giveUp() Decision {
	d := Decision{GaveUp: a.current, Unblock: true}
	a.reset()
	return d
}

func (a *Aligner) reset() {
	clear(a.arrived)
	a.current, a.final, a.waiting = 0, false, 0
}

// decided raises the floor and forgets the aborts below it.
func (a *Aligner) decided(id ID) {
	a.floor = max(a.floor, id)
	kept := a.aborted[:0]
	for _, old := range a.aborted {
		if old > a.floor {
			kept = append(kept, old)
		}
	}
	a.aborted = kept
}

func (a *Aligner) isAborted(id ID) bool {
	for _, old := range a.aborted {
		if old == id {
			return true
		}
	}
	return false
}
