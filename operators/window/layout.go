package window

import (
	"encoding/binary"

	"github.com/millrace-io/millrace/operators"
)

var le = binary.LittleEndian

// What the value state holds for a key, its block, all integers little endian:
//
//	event timer   8  earliest event timer that is set for the key, never if none; stale ones may be set besides
//	clock timer   8  only if the trigger or the windows go by the clock
//	sequence      8  only if contents are kept: number of the next record (or session)
//	windows          in order of start, then end
//
// A window has the words that its kind and trigger need, then those of its aggregates, then, where there
// are such, the lengths (u32) and bytes of variable parts, each padded to 8. For sliced windows the entries
// are slices: start and aggregates.
type layout struct {
	clock, seq int // of the block's header; 0: not there
	header     int

	// Byte offsets inside a window; 0 where a word is not there (start is always there, at 0).
	end      int // else start + size
	records  int // since the contents were last forgotten
	state    int // u32 flags, u32 revision
	count    int // records since the count trigger fired
	every    int // next time by Every; never: not set
	clocks   int // ... EveryClock
	late     int // ... LateEvery
	timeout  int // ... Timeout; spent: it has fired and is not set anew
	id       int // of the contents
	aggs     []aggAt
	fixed    int // bytes of all words
	nvar     int // variable parts; the last is the result to retract, if kept
	varAt    int // their lengths
	keptRow  bool
	kept     int // 1 more than the number of a result that is not known yet, with guests
	headSize int // fixed and the lengths, padded
}

// aggAt is where an aggregate's words are, and which variable part it has (-1: none).
type aggAt struct {
	agg aggregate
	at  int
	end int
	v   int
}

// Bits of a window's flags.
const (
	flagEndDone    = 1 << iota // the end has fired, or does not count
	flagChanged                // a record came since the last firing
	flagStreamDone             // the end of the stream has fired
	flagDisarmed               // a time-out took the end back and no record came since
)

func newLayout(w *operators.WindowNode, t *operators.WindowTrigger, aggs []aggregate, sliced, contents bool) *layout {
	l := &layout{header: 8}
	word := func(need bool) int {
		if !need {
			return 0
		}
		l.fixed += 8
		return l.fixed - 8
	}
	if w.Time == operators.TimeProcessing || t.EveryClock > 0 || t.Timeout > 0 {
		l.clock = l.header
		l.header += 8
	}
	if contents {
		l.seq = l.header
		l.header += 8
	}
	l.fixed = 8
	if !sliced {
		once := *t
		once.Purge = false
		plain := once == operators.WindowTrigger{AtEnd: true} && w.Lateness == 0 && !w.Revision && w.Accumulation != operators.Retracting
		l.end = word(w.Window.Type != operators.WindowTumbling && w.Window.Type != operators.WindowSliding || w.Window.Zone != "")
		l.records = word(t.Purge && !plain)
		l.state = word(!plain)
		l.count = word(t.Count > 0)
		l.every = word(t.Every > 0)
		l.clocks = word(t.EveryClock > 0)
		l.late = word(t.LateEvery > 0)
		l.timeout = word(t.Timeout > 0)
		l.id = word(contents)
		l.keptRow = w.Accumulation == operators.Retracting
		l.kept = word(l.keptRow && len(w.GuestNodes("")) > 0)
	}
	for _, a := range aggs {
		at := aggAt{agg: a, at: l.fixed, v: -1}
		if w.Evictor == nil {
			l.fixed += 8 * a.words()
			if a.variable() {
				at.v = l.nvar
				l.nvar++
			}
		}
		at.end = l.fixed
		l.aggs = append(l.aggs, at)
	}
	if l.keptRow {
		l.nvar++
	}
	l.varAt = l.fixed
	l.headSize = align8(l.fixed + 4*l.nvar)
	return l
}

func align8(n int) int { return (n + 7) &^ 7 }

func word(b []byte, at int) int64       { return int64(le.Uint64(b[at:])) }
func setWord(b []byte, at int, v int64) { le.PutUint64(b[at:], uint64(v)) }

// size is the length of the window at the front of b.
func (l *layout) size(b []byte) int {
	n := l.headSize
	for i := range l.nvar {
		n += align8(int(le.Uint32(b[l.varAt+4*i:])))
	}
	return n
}

// variable is variable part i of the window at the front of b.
func (l *layout) variable(b []byte, i int) []byte {
	at := l.headSize
	for j := range i {
		at += align8(int(le.Uint32(b[l.varAt+4*j:])))
	}
	n := int(le.Uint32(b[l.varAt+4*i:]))
	return b[at : at+n : at+n]
}

// setVariable replaces variable part i of the window at off in blk and returns the block. v may not alias it.
func (l *layout) setVariable(blk []byte, off, i int, v []byte) []byte {
	w := blk[off:]
	at := off + l.headSize
	for j := range i {
		at += align8(int(le.Uint32(w[l.varAt+4*j:])))
	}
	old := align8(int(le.Uint32(w[l.varAt+4*i:])))
	le.PutUint32(w[l.varAt+4*i:], uint32(len(v)))
	blk = resize(blk, at, old, align8(len(v)))
	n := copy(blk[at:], v)
	clear(blk[at+n : at+align8(len(v))])
	return blk
}

// resize makes the n bytes at `at` to m bytes; new ones are undefined.
func resize(b []byte, at, n, m int) []byte {
	switch {
	case m > n:
		old := len(b)
		for cap(b) < old+m-n {
			b = append(b[:cap(b)], 0)
		}
		b = b[:old+m-n]
		copy(b[at+m:], b[at+n:old])
	case m < n:
		copy(b[at+m:], b[at+n:])
		b = b[:len(b)-(n-m)]
	}
	return b
}

// insert makes room for a zeroed window at off.
func (l *layout) insert(blk []byte, off int) []byte {
	blk = resize(blk, off, 0, l.headSize)
	clear(blk[off : off+l.headSize])
	return blk
}

// remove takes the window at off out.
func (l *layout) remove(blk []byte, off int) []byte {
	return resize(blk, off, l.size(blk[off:]), 0)
}
