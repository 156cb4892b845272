package task

import (
	"slices"

	"github.com/millrace-io/millrace/abi"
)

// least is the minimum watermark of the channels that count. Idle ones don't, unless they have ended; where
// only such are left, it is that of the foremost, as it would be had that one become idle last.
func (t *Task) least() int64 {
	m, foremost, idles := abi.MaxWatermark, t.merged, false
	for i, w := range t.wms {
		if t.idles[i] && w != abi.MaxWatermark {
			foremost, idles = max(foremost, w), true
			continue
		}
		m = min(m, w)
	}
	if idles && m == abi.MaxWatermark {
		return foremost
	}
	return m
}

// allIdle says that no channel counts, though not all have ended.
func (t *Task) allIdle() bool {
	idles := false
	for i, w := range t.wms {
		if w == abi.MaxWatermark {
			continue
		}
		if !t.idles[i] {
			return false
		}
		idles = true
	}
	return idles
}

// statusArrived lets a channel drop out of the watermark or come back. One that comes back behind the
// watermark does not move it; it holds it until it has caught up.
func (t *Task) statusArrived(c *Channel, idle bool) error {
	t.idles[c.index] = idle
	if w := t.least(); w > t.merged {
		t.merged = w
		t.Watermark.Store(w)
		b := &t.in
		b.Reset()
		b.Mark(w)
		if err := t.cfg.Stages[0].batch(c.input, b); err != nil {
			return err
		}
	}
	return t.tellIdle(t.allIdle())
}

// tellIdle tells those behind when the task becomes idle, or active again.
func (t *Task) tellIdle(silent bool) error {
	if silent == t.idle {
		return nil
	}
	t.setIdle(silent)
	return t.sendStatus()
}

func (t *Task) setIdle(silent bool) {
	t.idle = silent
	t.Idle.Store(silent)
}

func (t *Task) sendStatus() error {
	it := item{status: active}
	if t.idle {
		it.status = idle
	}
	for _, w := range t.writers {
		if err := w.control(it); err != nil {
			return err
		}
	}
	return nil
}

// announce says at the start what those behind may not know, or may remember otherwise.
func (t *Task) announce() error {
	if t.cfg.Source != nil {
		t.setIdle(t.sourceIdle())
	} else {
		t.setIdle(t.allIdle())
	}
	if !t.idle && t.cfg.Restored == 0 {
		return nil
	}
	return t.sendStatus()
}

func (t *Task) sourceIdle() bool { return t.intake != nil && t.intake.Idle() }

// over says that the source's task is at its end. One without a split has no end of its own: it waits,
// idle, for the others, so that nothing sees the last watermark before they are there.
func (t *Task) over() bool {
	g := t.cfg.Stages[0].Context.Group
	if g == nil {
		return true
	}
	all := g.Done(t.cfg.ID.Index)
	return all || t.intake == nil || len(t.cfg.Source.Positions()) > 0
}

// idleChannels is a copy for the snapshot, nil if none is idle.
func (t *Task) idleChannels() []bool {
	if !slices.Contains(t.idles, true) {
		return nil
	}
	return slices.Clone(t.idles)
}
