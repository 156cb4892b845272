package guestop

import (
	"slices"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/state"
)

// timerOp is a staged registration or deletion.
type timerOp struct {
	record int
	domain state.Domain
	key    state.Key
	name   span
	at     int64
	del    bool
}

func (e *env) stageTimer(record, domain int, name []byte, at int64, del bool) abi.Status {
	k, ok := e.key(record)
	switch {
	case !ok:
		return abi.StatusNoKey
	case domain != abi.DomainEvent && domain != abi.DomainProcessing || e.op.timers == nil || !e.op.declares(domain):
		return abi.StatusBadArg
	case len(name) > abi.MaxTimerNameBytes:
		return abi.StatusLimit
	}
	e.timers = append(e.timers, timerOp{record, state.Domain(domain), k, e.keep(name), at, del})
	return abi.StatusOK
}

// TimerSet implements Env. When the timer will be due at a mark inside this block, the guest is asked to
// yield, so that the timer fires there and not after the block's end.
func (e *env) TimerSet(record, domain int, name []byte, at int64) abi.Status {
	s := e.stageTimer(record, domain, name, at, false)
	if s == abi.StatusOK && domain == abi.DomainEvent && e.op.blk.markAfter(record, at) {
		e.op.guest.Yield()
	}
	return s
}

// TimerDelete implements Env.
func (e *env) TimerDelete(record, domain int, name []byte, at int64) abi.Status {
	return e.stageTimer(record, domain, name, at, true)
}

// applyTimers does what was staged, in order.
func (e *env) applyTimers() error {
	for i := range e.timers {
		t := &e.timers[i]
		var err error
		if t.del {
			err = e.op.timers.Delete(t.domain, t.key, e.bytes(t.name), t.at)
		} else {
			err = e.op.timers.Set(t.domain, t.key, e.bytes(t.name), t.at)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

var domainNames = [...]string{abi.DomainEvent: "event", abi.DomainProcessing: "processing"}

// declares says whether the function's descriptor lists the timer domain.
func (o *Op) declares(domain int) bool { return slices.Contains(o.fn.Timers, domainNames[domain]) }

// markAfter says whether the block has a mark behind record at which a timer for at is due.
func (k *block) markAfter(record int, at int64) bool {
	for i := len(k.marks) - 1; i >= 0; i-- {
		m := k.marks[i]
		if int(m.Index) <= k.lo+record {
			return false
		}
		if m.Watermark >= at {
			return true
		}
	}
	return false
}
