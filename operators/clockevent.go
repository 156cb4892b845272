package operators

// ClockKind is what the clock did to an operator or a source.
type ClockKind uint8

// Kinds of clock events.
const (
	// ClockTime: from here on the operator sees MS as processing time.
	ClockTime ClockKind = iota + 1
	// ClockFire: OnProcessingTime was called with MS.
	ClockFire
	// ClockStamp: records from here on have MS as their time, that of their intake.
	ClockStamp
	// ClockMark: the clock moved a source's watermark to MS.
	ClockMark
	// ClockIdle: split Split became idle.
	ClockIdle
	// ClockFuture: the next record was too far ahead of the clock, which was at MS.
	ClockFuture
	// ClockBeyond: what the watermark function said behind the next record was, and was ignored.
	ClockBeyond
	// ClockKinds is one more than the last kind.
	ClockKinds
)

// String is a word for people.
func (k ClockKind) String() string {
	if k == 0 || k >= ClockKinds {
		return "unknown"
	}
	return [...]string{"time", "fire", "stamp", "mark", "idle", "future", "beyond"}[k-1]
}

// ClockEvent is something the clock did, at a place that the data fixes. Of an operator the place is behind N
// records and with Watermark as the last mark; of a source it is behind N records that were decoded, whatever
// became of them.
type ClockEvent struct {
	Kind      ClockKind
	N         int64
	Watermark int64  // of an operator
	MS        int64  // processing time, or what Kind says; 0 with ClockIdle and ClockBeyond
	Split     uint32 // checkpoint.SplitPosition.Index, with ClockIdle
}

// ClockUser is an operator to whose results the clock matters; others are not asked.
type ClockUser interface {
	// UsesClock says so. It may change with the operator's code, between two batches.
	UsesClock() bool
}

// ClockNotes takes what the clock does, in order of N. It borrows nothing.
type ClockNotes interface{ Add(e ClockEvent) }

// ClockScript is what the clock did to a source before, to be repeated.
type ClockScript interface {
	// Next is the event to come; false: there is none. N counts from where the script began.
	Next() (e ClockEvent, ok bool)
	// Pop takes it away.
	Pop()
	// Over says that a source which has decoded n records is behind everything that the script knows of, so that
	// the clock decides from now on.
	Over(n int64) bool
}
