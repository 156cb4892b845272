package window

import (
	"bytes"
	"slices"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/state"
)

// advance moves the watermark to w: what is due fires, then the mark goes on.
func (o *Op) advance(w int64) error {
	if w <= o.wm {
		return nil
	}
	if at, ok := o.next(abi.DomainEvent); ok && at <= w || o.soon <= w {
		if err := o.flushKeys(); err != nil {
			return err
		}
		o.wm = w
		if err := o.fireAll(abi.DomainEvent, w); err != nil {
			return err
		}
	}
	o.wm, o.ref = w, w
	o.out.mark(w)
	return nil
}

// next is when a key may be due first.
func (o *Op) next(d state.Domain) (int64, bool) {
	at, ok := o.timers.Next(d)
	if d == abi.DomainEvent {
		if x, is := o.index.next(); is && (!ok || x < at) {
			return x, true
		}
	}
	return at, ok
}

// wait notes that a key waits for an event time.
func (o *Op) wait(k state.Key, at int64) error {
	if o.index.add(at, k) {
		return nil
	}
	return o.timers.Set(abi.DomainEvent, k, nil, at)
}

// fireAll is fire, and lets guests give the results.
func (o *Op) fireAll(d state.Domain, upTo int64) error {
	if o.queue == nil {
		return o.fire(d, upTo)
	}
	o.firing = true
	err := o.fire(d, upTo)
	o.firing = false
	if err != nil {
		return err
	}
	_, err = o.commit()
	return err
}

// fire fires what is due up to a time, one instant after the other, keys of an instant in order of their
// bytes. Stale timers, and those set meanwhile, don't change that order.
func (o *Op) fire(d state.Domain, upTo int64) error {
	for {
		at, ok := o.next(d)
		if !ok || at > upTo {
			return nil
		}
		if err := o.instant(d, at); err != nil {
			return err
		}
		if next, ok := o.timers.Next(d); ok && next <= at { // it knew no better
			if err := o.later(d, upTo); err != nil {
				return err
			}
		}
	}
}

// later fires one round of a timer service that can't tell the time of its next timer.
func (o *Op) later(d state.Domain, upTo int64) (err error) {
	if o.due, err = o.timers.Due(d, upTo, abi.MaxBatchRecords, o.due[:0]); err != nil {
		return err
	}
	for i := range o.due {
		o.dueKeys = append(o.dueKeys[:0], o.due[i].Key)
		if err := o.round(d, o.due[i].At); err != nil {
			return err
		}
	}
	return nil
}

// instant fires the keys that wait for a time: those of the index and those of the timer service, merged.
func (o *Op) instant(d state.Domain, at int64) error {
	var refs []ref
	if d == abi.DomainEvent {
		if x, ok := o.index.next(); ok && x == at {
			refs = o.index.take()
			defer o.index.done()
		}
	}
	o.due, o.dueKeys = o.due[:0], o.dueKeys[:0]
	more := true
	for i, j := 0, 0; ; {
		if j == len(o.due) && more {
			if err := o.round(d, at); err != nil { // its keys are gone with the next Due
				return err
			}
			var err error
			j, o.due = 0, o.due[:0]
			if next, ok := o.timers.Next(d); ok && next <= at {
				if o.due, err = o.timers.Due(d, at, abi.MaxBatchRecords, o.due); err != nil {
					return err
				}
			}
			more = len(o.due) > 0
		}
		switch {
		case i < len(refs) && (j == len(o.due) || bytes.Compare(o.index.key(refs[i].item).Bytes, o.due[j].Key.Bytes) <= 0):
			o.dueKeys = append(o.dueKeys, o.index.key(refs[i].item))
			i++
		case j < len(o.due):
			o.dueKeys = append(o.dueKeys, o.due[j].Key)
			j++
		default:
			return o.round(d, at)
		}
		if len(o.dueKeys) == abi.MaxBatchRecords {
			if err := o.round(d, at); err != nil {
				return err
			}
		}
	}
}

// round fires the keys in o.dueKeys.
func (o *Op) round(d state.Domain, at int64) error {
	keys := o.dueKeys
	o.dueKeys = keys[:0]
	if len(keys) == 0 {
		return nil
	}
	keys = slices.CompactFunc(keys, func(a, b state.Key) bool { return a.Hash == b.Hash && bytes.Equal(a.Bytes, b.Bytes) })
	if err := o.value.Prefetch(keys, o.duePos[:len(keys)]); err != nil {
		return err
	}
	for i, k := range keys {
		v, ok, err := o.value.Load(o.duePos[i], k)
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
		if err := o.store(k, o.duePos[i], true); err != nil {
			return err
		}
		if o.queue != nil && o.queue.full() {
			if _, err := o.commit(); err != nil {
				return err
			}
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
	if o.byEnd {
		return o.fireByEnd(d, k, at)
	}
	for off := o.l.header; off < len(o.blk); {
		gone, err := o.fireWindow(d, k, off, at)
		if err != nil {
			return err
		}
		if !gone {
			if o.l.state == 0 { // the ends are in order
				return nil
			}
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
	if o.queue != nil {
		o.clearQueue(true)
	}
	if err := o.fireAll(abi.DomainProcessing, nowMS); err != nil {
		return o.fail(err)
	}
	return o.out.flush()
}
