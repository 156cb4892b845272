package guestop

import (
	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/state"
)

// Observer sees what a guest does, for replay and comparison. It is called by the task's goroutine. What it gets
// is borrowed for the call.
type Observer interface {
	// Call is a call that went well, before its effects are applied. What faults undid is never seen; the
	// records before a fault come in the call that runs them again.
	Call(c *Call) error
	// Failed is a record or timer that the error policy gets, for a fault or by the guest's own word. Without
	// the guest's word it comes between calls, else behind the call it was in.
	Failed(kind uint32, f abi.Frame, fault *Fault)
	// Host is a host call, with what it answered, also of calls that are undone later. Only with Config.Trace.
	Host(h *HostCall)
}

// Call is a guest call with its effects. The zero Call has none.
type Call struct {
	Kind uint32 // abi.KindRecords, KindEventTimers, KindProcessingTimers
	Fuel int64  // of the call; with one record in it, of the record
	// Billed is the part of Fuel that is on the accounts of records, without what the call costs by itself.
	Billed int64
	NowMS  int64 // processing time
	n      int
	op     *Op
}

// Change is one entry of state before and after a call.
type Change struct {
	Record int // in the call: of a value that travels with the call the key's last, else that of the last write
	State  int // number in the function's states
	Key    state.Key
	UKey   []byte // of map and list states; of a list the way elements are kept
	Old    []byte // nil: there was none
	New    []byte // nil: there is none
}

// TimerChange is a timer that a call sets or deletes.
type TimerChange struct {
	Record int
	Domain state.Domain
	Key    state.Key
	Name   []byte
	At     int64 // ms
	Delete bool
}

// Log is a line that a call logged.
type Log struct {
	Record, Level int
	Text          []byte
}

// Len is how many records, or timers, the call did.
func (c *Call) Len() int { return c.n }

// Record is record i of the call as the function saw it. Of a timer: key, the time it was set for, and its
// name as value.
func (c *Call) Record(i int) abi.Frame { return c.op.blk.frame(i) }

// Function describes the function that was called.
func (c *Call) Function() *abi.Function { return c.op.fn }

// Outputs is every output with its record in the call, in the order it was written.
func (c *Call) Outputs(yield func(record int, f abi.Frame) bool) {
	o := c.op
	data, emits := o.guest.Out(), o.env.emits
	for i, off := range o.out.offs {
		for ; len(emits) > 0 && emits[0].at <= int(off); emits = emits[1:] {
			if !yield(emits[0].record, abi.Frame(o.env.bytes(emits[0].span))) {
				return
			}
		}
		end := uint32(len(data))
		if i+1 < len(o.out.offs) {
			end = o.out.offs[i+1]
		}
		f := abi.Frame(data[off:end])
		if !yield(int(f.Cause()), f) {
			return
		}
	}
	for _, e := range emits {
		if !yield(e.record, abi.Frame(o.env.bytes(e.span))) {
			return
		}
	}
}

// Failures is the records that failed by the guest's own word, with what it said.
func (c *Call) Failures(yield func(record int, text string) bool) {
	for _, f := range c.op.env.failures {
		if !yield(f.record, f.msg) {
			return
		}
	}
}

// Timers is what the call did to timers, in order.
func (c *Call) Timers(yield func(TimerChange) bool) {
	e := c.op.env
	for i := range e.timers {
		t := &e.timers[i]
		if !yield(TimerChange{t.record, t.domain, t.key, e.bytes(t.name), t.at, t.del}) {
			return
		}
	}
}

// Logs is what the call logged, in order.
func (c *Call) Logs(yield func(Log) bool) {
	e := c.op.env
	for _, l := range e.logs {
		if !yield(Log{l.record, l.level, e.bytes(l.span)}) {
			return
		}
	}
}

// Changes calls f with every entry of state that the call wrote, each once, also where the bytes are the same
// as before. Values that travel with the call come first.
func (c *Call) Changes(f func(Change) error) error {
	if err := c.cells(f); err != nil {
		return err
	}
	o := c.op
	journal := o.env.journal
	if len(journal) == 0 {
		return nil
	}
	first, order := map[string]int{}, make([]int, 0, len(journal))
	last := make([]int, len(journal)) // record, by first write
	var name []byte
	for i := range journal {
		u := &journal[i]
		name = append(append(append(name[:0], byte(u.st)), u.key.Bytes...), 0, byte(len(u.key.Bytes)), byte(len(u.key.Bytes)>>8))
		name = append(name, o.env.bytes(u.ukey)...)
		at, ok := first[string(name)]
		if !ok { // it has what was there
			at = i
			first[string(name)], order = i, append(order, i)
		}
		last[at] = u.record
	}
	for _, i := range order {
		if err := c.entry(&journal[i], last[i], f); err != nil {
			return err
		}
	}
	return nil
}

// entry is a changed entry that host calls wrote.
func (c *Call) entry(u *undo, last int, f func(Change) error) error {
	o := c.op
	r := &o.states[u.st]
	o.expiry.at(o, last)
	ch := Change{Record: last, State: u.st, Key: u.key, UKey: o.env.bytes(u.ukey)}
	if u.had {
		old, err := o.expiry.bare(r.number, o.env.bytes(u.old))
		if err != nil {
			return err
		}
		ch.Old = present(old)
	}
	now, ok, err := r.get(u.key, ch.UKey)
	if err != nil {
		return err
	}
	if ok {
		ch.New = present(now)
	}
	return f(ch)
}

// cells are the changed values that travel with the call.
func (c *Call) cells(f func(Change) error) error {
	o := c.op
	if len(o.pre) == 0 {
		return nil
	}
	in, err := o.guest.In(o.blk.size)
	if err != nil {
		return err
	}
	i := 0
	for st := range o.states {
		if !o.states[st].desc.Prefetched() {
			continue
		}
		p := &o.pre[i]
		i++
		at := p.base
		for j := range o.blk.keys {
			cell := in[at : at+p.stride]
			at += p.stride
			if cell[4]&abi.CellChanged == 0 {
				continue
			}
			o.expiry.at(o, int(o.blk.last[j]))
			old, had, err := p.value.Load(p.pos[j], o.blk.keys[j])
			if err != nil {
				return err
			}
			ch := Change{Record: int(o.blk.last[j]), State: st, Key: o.blk.keys[j]}
			if had {
				ch.Old = present(old)
			}
			if n := le.Uint32(cell); cell[4]&abi.CellPresent != 0 {
				ch.New = present(cell[abi.CellHeader : abi.CellHeader+n])
			}
			if err := f(ch); err != nil {
				return err
			}
		}
	}
	return nil
}

// present is b, not nil.
func present(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
