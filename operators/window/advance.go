package window

import (
	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/state"
)

// advance moves the watermark to w: what is due fires, then the mark goes on.
func (o *Op) advance(w int64) error {
	if w <= o.wm {
		return nil
	}
	at, ok := o.timers.Next(abi.DomainEvent)
	if ok && at <= w || o.soon <= w {
		if err := o.flushKeys(); err != nil {
			return err
		}
		o.wm = w
		if err := o.fire(abi.DomainEvent, w); err != nil {
			return err
		}
		o.keys.epoch++
	}
	o.wm = w
	o.ref = w
	o.out.mark(w)
	return nil
}

// fire fires what is due up to a time, one instant after the other, keys of an instant in order of their
// bytes. Stale timers, and those set meanwhile, don't change that order.
func (o *Op) fire(d state.Domain, upTo int64) error {
	for {
		at, ok := o.timers.Next(d)
		if !ok || at > upTo {
			return nil
		}
		due, err := o.timers.Due(d, at, abi.MaxBatchRecords, o.due[:0])
		if len(due) == 0 && err == nil {
			if next, ok := o.timers.Next(d); ok && next <= at {
				due, err = o.timers.Due(d, upTo, abi.MaxBatchRecords, o.due[:0])
				if len(due) == 0 && err == nil {
					return nil
				}
			}
		}
		if err != nil {
			return err
		}
		o.due = due
		if err := o.round(d, due); err != nil {
			return err
		}
	}
}

// round fires the timers of distinct keys.
func (o *Op) round(d state.Domain, due []state.Timer) error {
	if len(due) == 0 {
		return nil
	}
	o.keys.reset()
	for i := range due {
		o.keys.list = append(o.keys.list, due[i].Key)
	}
	if err := o.value.Prefetch(o.keys.list, o.keys.pos[:len(due)]); err != nil {
		return err
	}
	for i := range due {
		k, p, at := due[i].Key, o.keys.pos[i], due[i].At
		v, ok, err := o.value.Load(p, k)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		o.stats.Timers++
		o.blk = append(o.blk[:0], v...)
		if err := o.fireKey(d, k, at); err != nil {
			return err
		}
		if err := o.store(k, p, true); err != nil {
			return err
		}
	}
	return nil
}

// fireKey fires what is due at an instant in o.blk.
func (o *Op) fireKey(d state.Domain, k state.Key, at int64) error {
	word1 := 0
	if d == abi.DomainProcessing {
		word1 = o.l.clock
	}
	if word(o.blk, word1) <= at { // a later one may be stale
		setWord(o.blk, word1, never)
	}
	o.ref = at
	if o.shape == sliced {
		return o.fireSlices(k, at)
	}
	for off := o.l.header; off < len(o.blk); {
		gone, err := o.fireWindow(d, k, off, at)
		if err != nil {
			return err
		}
		if !gone {
			off += o.l.size(o.blk[off:])
		}
	}
	return nil
}

// NextProcessing implements operators.ProcessingTimer.
func (o *Op) NextProcessing() (int64, bool) {
	if o.l.clock == 0 {
		return 0, false
	}
	return o.timers.Next(abi.DomainProcessing)
}

// OnProcessingTime implements operators.ProcessingTimer.
func (o *Op) OnProcessingTime(nowMS int64, out operators.Collector) error {
	o.now, o.out.to = nowMS, out
	if o.l.clock == 0 {
		return nil
	}
	if err := o.fire(abi.DomainProcessing, nowMS); err != nil {
		return o.fail(err)
	}
	return o.out.flush()
}
