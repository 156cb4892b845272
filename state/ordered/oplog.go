package ordered

import (
	"bytes"
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/millrace-io/millrace/state"
)

const (
	logChunk  = 64 << 10
	logHeader = 8
)

// opLog holds every change since the last cut, in order, outside the Go heap: a cut takes it away in
// O(1) and its content is sorted elsewhere.
//
//	record: composite key length u16 | kind u8 | 0 | value length u32 | composite key | value
type opLog struct {
	chunks [][]byte // length is what is used
	spare  [][]byte // empty chunks of logChunk, ready for use
	bytes  int64    // taken by chunks
	n      int
}

// reserve makes sure that append of such a record succeeds.
func (l *opLog) reserve(comp, value int) error {
	need := logHeader + comp + value
	if n := len(l.chunks); n > 0 && cap(l.chunks[n-1])-len(l.chunks[n-1]) >= need {
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
	l.chunks = append(l.chunks, c[:0])
	l.bytes += int64(cap(c))
	return nil
}

// append adds a record; reserve has made room. It returns the log's copy of the value.
func (l *opLog) append(comp, value []byte, kd kind) []byte {
	last := len(l.chunks) - 1
	b := l.chunks[last]
	b = binary.LittleEndian.AppendUint16(b, uint16(len(comp)))
	b = append(b, byte(kd), 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(value)))
	b = append(b, comp...)
	b = append(b, value...)
	l.chunks[last] = b
	l.n++
	return b[len(b)-len(value):]
}

// undo takes the last record back.
func (l *opLog) undo(comp, value []byte) {
	last := len(l.chunks) - 1
	b := l.chunks[last]
	l.chunks[last] = b[:len(b)-logHeader-len(comp)-len(value)]
	l.n--
}

// seal takes the content away.
func (l *opLog) seal() *segment {
	s := &segment{chunks: l.chunks, bytes: l.bytes, n: l.n}
	l.chunks, l.bytes, l.n = nil, 0, 0
	return s
}

// recycle takes chunks of a written segment back; at most keep bytes of them stay for use.
func (l *opLog) recycle(s *segment, keep int64) {
	for _, c := range s.chunks {
		if cap(c) == logChunk && int64(len(l.spare))*logChunk < keep {
			l.spare = append(l.spare, c)
			continue
		}
		freeChunk(c)
	}
	s.chunks = nil
}

func (l *opLog) close() {
	for _, c := range append(l.chunks, l.spare...) {
		freeChunk(c)
	}
	*l = opLog{}
}

func freeChunk(c []byte) { _ = unix.Munmap(c[:cap(c)]) } // fails only for ranges that are not ours

// segment is a sealed log.
type segment struct {
	chunks [][]byte
	bytes  int64
	n      int
}

func (s *segment) close() {
	for _, c := range s.chunks {
		freeChunk(c)
	}
	s.chunks = nil
}

// logRef is a record: its hash and place. Places grow with time.
type logRef struct {
	hash  uint64
	chunk uint32
	off   uint32
}

func (s *segment) record(r logRef) (comp, value []byte, kd kind) {
	b := s.chunks[r.chunk][r.off:]
	k := int(binary.LittleEndian.Uint16(b))
	v := int(binary.LittleEndian.Uint32(b[4:]))
	return b[logHeader : logHeader+k], b[logHeader+k : logHeader+k+v], kind(b[2])
}

// sorted is the records by (composite key, time).
func (s *segment) sorted() []logRef {
	refs := make([]logRef, 0, s.n)
	for c, b := range s.chunks {
		for off := 0; off < len(b); {
			k := int(binary.LittleEndian.Uint16(b[off:]))
			v := int(binary.LittleEndian.Uint32(b[off+4:]))
			refs = append(refs, logRef{binary.BigEndian.Uint64(b[off+logHeader:]), uint32(c), uint32(off)})
			off += logHeader + k + v
		}
	}
	slices.SortFunc(refs, func(a, b logRef) int {
		if a.hash != b.hash {
			if a.hash < b.hash {
				return -1
			}
			return 1
		}
		ka, _, _ := s.record(a)
		kb, _, _ := s.record(b)
		if c := bytes.Compare(ka, kb); c != 0 {
			return c
		}
		if a.before(b) {
			return -1
		}
		return 1
	})
	return refs
}

func (r logRef) before(o logRef) bool {
	return r.chunk < o.chunk || r.chunk == o.chunk && r.off < o.off
}

// each calls f for the last record of each composite key, in order. Records that a clear marker of the
// same segment came after are left out.
func (s *segment) each(f func(comp, value []byte, kd kind) error) error {
	refs := s.sorted()
	var marker []byte
	var cleared logRef
	for i, r := range refs {
		comp, value, kd := s.record(r)
		if i+1 < len(refs) && refs[i+1].hash == r.hash {
			if next, _, _ := s.record(refs[i+1]); bytes.Equal(next, comp) {
				continue
			}
		}
		if kd == kindClear {
			marker, cleared = comp, r
		} else if marker != nil && behindMarker(marker, comp) && r.before(cleared) {
			continue
		}
		if err := f(comp, value, kd); err != nil {
			return err
		}
	}
	return nil
}

// behindMarker says whether comp is an entry of the key that the clear marker is for; both may be
// without their hashes.
func behindMarker(marker, comp []byte) bool {
	n := len(marker) - 1
	return len(comp) > n && comp[n] == 0x01 && bytes.Equal(comp[:n], marker[:n])
}

// isMarker says whether a run's tombstone with this key (a composite key without its hash) is a clear
// marker.
func isMarker(key, buf []byte) ([]byte, bool) {
	n := len(key)
	if n < 2 || key[n-1] != 0 || key[n-2] != 0 {
		return buf, false
	}
	buf = append(append(buf[:0], zeroHash[:]...), key...)
	return buf, state.IsClearMarker(buf)
}

var zeroHash [state.HashBytes]byte
