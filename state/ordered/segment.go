package ordered

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/millrace-io/millrace/state"
)

// segment is a sealed log.
type segment struct {
	chunks [][]byte
	bytes  int64
	n      int // records that are not void
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

// walk calls f for each record that is not void, in order of time.
func (s *segment) walk(f func(r logRef)) {
	for c, b := range s.chunks {
		for off := 0; off < len(b); {
			k := int(binary.LittleEndian.Uint16(b[off:]))
			v := int(binary.LittleEndian.Uint32(b[off+4:]))
			if kind(b[off+2]) != kindVoid {
				f(logRef{binary.BigEndian.Uint64(b[off+logHeader:]), uint32(c), uint32(off)})
			}
			off += logHeader + k + v
		}
	}
}

// sorted is the records by (composite key, time): dealt out by their hashes, which are spread evenly, and then
// sorted within a few.
func (s *segment) sorted() []logRef {
	lo, hi := ^uint64(0), uint64(0)
	s.walk(func(r logRef) { lo, hi = min(lo, r.hash), max(hi, r.hash) })
	most := bits.Len64(uint64(min(s.n/4, 1<<16))) // log2 of the heaps, about
	shift := max(0, bits.Len64(hi-lo)-most)
	ends := make([]uint32, (hi-lo)>>shift+1)
	s.walk(func(r logRef) { ends[(r.hash-lo)>>shift]++ })
	sum := uint32(0)
	for i, n := range ends {
		ends[i] = sum
		sum += n
	}
	refs := make([]logRef, s.n)
	s.walk(func(r logRef) {
		e := &ends[(r.hash-lo)>>shift]
		refs[*e] = r
		*e++
	})
	start := uint32(0)
	for _, end := range ends {
		s.sortHeap(refs[start:end])
		start = end
	}
	return refs
}

// sortHeap sorts a few records, which are in order of time.
func (s *segment) sortHeap(refs []logRef) {
	if len(refs) > 24 {
		slices.SortStableFunc(refs, s.compare)
		return
	}
	for i := 1; i < len(refs); i++ {
		for j := i; j > 0 && s.compare(refs[j-1], refs[j]) > 0; j-- {
			refs[j-1], refs[j] = refs[j], refs[j-1]
		}
	}
}

func (s *segment) compare(a, b logRef) int {
	if a.hash != b.hash {
		if a.hash < b.hash {
			return -1
		}
		return 1
	}
	ka, _, _ := s.record(a)
	kb, _, _ := s.record(b)
	return bytes.Compare(ka, kb)
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
