package ordered

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"
)

const (
	logChunk  = 64 << 10
	logHeader = 8
	kindVoid  = kind(0xff) // of a record that is taken back
)

// opLog holds every change since the last cut, in order, outside the Go heap: a cut takes it away in
// O(1) and its content is sorted elsewhere. A record whose effect has gone before the cut can be made void;
// a chunk with nothing else is used again.
//
//	record: composite key length u16 | kind u8 | 0 | value length u32 | composite key | value
type opLog struct {
	chunks []logPiece // in order of time
	at     []uint32   // where the chunk with a number is in chunks
	unused []uint32   // numbers that no chunk has
	spare  [][]byte   // empty chunks of logChunk, ready for use
	bytes  int64      // taken by chunks
	n      int        // records that are not void
	seq    uint32     // of this log; it grows by one when a log is sealed, and is never 0
}

// logPiece is one chunk.
type logPiece struct {
	b      []byte // length is what is used
	number uint32
	n      int32 // records that are not void
}

// logAt is where a record of not more than logChunk is: the chunk's number, and 16 bits of offset.
type logAt uint32

// reserve makes sure that append of such a record succeeds.
func (l *opLog) reserve(comp, value int) error {
	need := logHeader + comp + value
	if n := len(l.chunks); n > 0 && cap(l.chunks[n-1].b)-len(l.chunks[n-1].b) >= need {
		return nil
	}
	var c []byte
	if m := len(l.spare); m > 0 && need <= logChunk {
		c = l.spare[m-1]
		l.spare = l.spare[:m-1]
	} else {
		var err error
		if c, err = mapAnon(max(logChunk, (need+4095)&^4095)); err != nil {
			return err
		}
	}
	p := logPiece{b: c[:0]}
	if m := len(l.unused); m > 0 {
		p.number = l.unused[m-1]
		l.unused = l.unused[:m-1]
	} else {
		p.number = uint32(len(l.at))
		l.at = append(l.at, 0)
	}
	l.at[p.number] = uint32(len(l.chunks))
	l.chunks = append(l.chunks, p)
	l.bytes += int64(cap(c))
	return nil
}

// next is where append will put a record; reserve has made room.
func (l *opLog) next() logAt {
	p := &l.chunks[len(l.chunks)-1]
	return logAt(p.number<<16 | uint32(len(p.b)))
}

// append adds a record; reserve has made room. It returns the log's copy of the value.
func (l *opLog) append(comp, value []byte, kd kind) []byte {
	p := &l.chunks[len(l.chunks)-1]
	b := p.b
	b = binary.LittleEndian.AppendUint16(b, uint16(len(comp)))
	b = append(b, byte(kd), 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(value)))
	b = append(b, comp...)
	b = append(b, value...)
	p.b = b
	p.n++
	l.n++
	return b[len(b)-len(value):]
}

// undo takes the last record back.
func (l *opLog) undo(comp, value []byte) {
	p := &l.chunks[len(l.chunks)-1]
	p.b = p.b[:len(p.b)-logHeader-len(comp)-len(value)]
	p.n--
	l.n--
}

// void takes a record of this log back, wherever it is. A chunk that holds no other any more is emptied;
// keep bytes of such chunks at most stay for use.
func (l *opLog) void(at logAt, keep int64) {
	i := l.at[at>>16]
	p := &l.chunks[i]
	p.b[at&0xffff+2] = byte(kindVoid)
	p.n--
	l.n--
	switch {
	case p.n > 0:
	case int(i) == len(l.chunks)-1:
		p.b = p.b[:0]
	default:
		l.unused = append(l.unused, p.number)
		l.bytes -= int64(cap(p.b))
		l.keep(p.b, keep)
		l.chunks = slices.Delete(l.chunks, int(i), int(i)+1)
		for j := int(i); j < len(l.chunks); j++ {
			l.at[l.chunks[j].number] = uint32(j)
		}
	}
}

// keep takes a chunk for later use, if those waiting are not keep bytes yet.
func (l *opLog) keep(c []byte, keep int64) {
	if cap(c) == logChunk && int64(len(l.spare))*logChunk < keep {
		l.spare = append(l.spare, c[:0])
		return
	}
	freeChunk(c)
}

// seal takes the content away; nil if there is none.
func (l *opLog) seal() *segment {
	if l.seq++; l.seq == 0 {
		l.seq = 1
	}
	if l.n == 0 {
		for i := range l.chunks {
			l.chunks[i].b = l.chunks[i].b[:0]
		}
		return nil
	}
	s := &segment{chunks: make([][]byte, len(l.chunks)), bytes: l.bytes, n: l.n}
	for i := range l.chunks {
		s.chunks[i] = l.chunks[i].b
	}
	l.chunks, l.at, l.unused = l.chunks[:0], l.at[:0], l.unused[:0]
	l.bytes, l.n = 0, 0
	return s
}

// recycle takes chunks of a written segment back; at most keep bytes of them stay for use.
func (l *opLog) recycle(s *segment, keep int64) {
	for _, c := range s.chunks {
		l.keep(c, keep)
	}
	s.chunks = nil
}

func (l *opLog) close() {
	for i := range l.chunks {
		freeChunk(l.chunks[i].b)
	}
	for _, c := range l.spare {
		freeChunk(c)
	}
	*l = opLog{}
}

func freeChunk(c []byte) { _ = unix.Munmap(c[:cap(c)]) } // fails only for ranges that are not ours
