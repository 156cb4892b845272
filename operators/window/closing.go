package window

import "github.com/millrace-io/millrace/operators"

// Closing returns what tells, of a record's time, the watermark at which the operator no longer takes it: the
// last instant of the last window that holds it, and the allowed lateness. For sessions it goes by a session of
// that record alone: one that others have begun takes it longer. Windows that do not close by event
// time, or whose gap is in the record, give operators.Never.
func Closing(w *operators.WindowNode) (func(ms int64) int64, error) {
	never := func(int64) int64 { return operators.Never }
	if w.Time != operators.TimeEvent {
		return never, nil
	}
	switch w.Window.Type {
	case operators.WindowGlobal, operators.WindowCount:
		return never, nil
	case operators.WindowSession:
		if w.Window.GapField != "" {
			return never, nil
		}
		return func(ms int64) int64 { return add(add(ms, w.Window.Gap)-1, w.Lateness) }, nil
	}
	a, err := newAssigner(&w.Window)
	if err != nil {
		return nil, err
	}
	return func(ms int64) int64 {
		var end int64
		if a.part > 0 {
			end = a.zone.part(ms, a.part).end
		} else {
			end = a.at(a.lastEnd(a.slice(ms)))
		}
		return add(max(end-1, ms), w.Lateness) // between windows that leave gaps: its own time
	}, nil
}
