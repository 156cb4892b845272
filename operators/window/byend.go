package window

import (
	"sort"

	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/state"
)

// A key may have many windows open: a large lateness, or a large out-of-orderness. Where all windows are as large,
// in state and in time, and only their ends, their clean-up and Every make them due, nobody has to look at all
// of them: they are in the order of their ends. Those that are over wait for nothing but their clean-up, the
// first one for the earliest; of the others the first is the next to end.

// endsInOrder says whether that is so.
func endsInOrder(w *operators.WindowNode, t *operators.WindowTrigger, l *layout) bool {
	only := operators.WindowTrigger{AtEnd: t.AtEnd, Every: t.Every, IfChanged: t.IfChanged, Count: t.Count, Purge: t.Purge}
	return (w.Window.Type == operators.WindowTumbling || w.Window.Type == operators.WindowSliding) &&
		w.Time == operators.TimeEvent && l.nvar == 0 && l.state > 0 && *t == only
}

// search is where the first window is for which f says yes, as it does for all behind that one. All windows have
// the same size.
func (o *Op) search(f func(span) bool) int {
	l := o.l
	n := (len(o.blk) - l.header) / l.headSize
	return l.header + l.headSize*sort.Search(n, func(i int) bool { return f(o.spanAt(l.header + i*l.headSize)) })
}

// dueByEnd is nextDue. Windows that end up to o.ref have fired.
func (o *Op) dueByEnd() int64 {
	l := o.l
	due := never
	if len(o.blk) > l.header {
		due = o.cleanup(o.spanAt(l.header))
	}
	for off := o.search(func(sp span) bool { return sp.last() > o.ref }); off < len(o.blk); off += l.headSize {
		e, _ := o.windowDue(off)
		due = min(due, e)
		if o.trig.Every == 0 && (!o.trig.AtEnd || o.flags(off)&flagEndDone == 0) {
			break // later ones end later
		}
	}
	return due
}

// fireByEnd fires what is due at an instant: first what is to be cleaned up, then what ends, or fires before
// its end.
func (o *Op) fireByEnd(d state.Domain, k state.Key, at int64) error {
	cleaned := false
	for off := o.l.header; off < len(o.blk); {
		sp := o.spanAt(off)
		if !cleaned && o.cleanup(sp) > at {
			cleaned = true
			off = max(off, o.search(func(sp span) bool { return sp.last() >= at }))
			continue
		}
		if cleaned && sp.last() > at && o.trig.Every == 0 {
			return nil
		}
		gone, err := o.fireWindow(d, k, off, at)
		if err != nil {
			return err
		}
		if !gone {
			off += o.l.headSize
		}
	}
	return nil
}
