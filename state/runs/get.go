package runs

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"sort"
)

// entry is a decoded record; its slices point into the file.
type entry struct {
	hash  uint64
	key   []byte
	value []byte
	tomb  bool
}

func blockKind(b []byte) int    { return int(binary.LittleEndian.Uint16(b[6:])) }
func blockEntries(b []byte) int { return int(binary.LittleEndian.Uint16(b[4:])) }

// recordOff is where record i of a block of records starts.
func recordOff(b []byte, i int) int {
	return int(binary.LittleEndian.Uint16(b[blockSize-2-2*i:]))
}

func recordHash(b []byte, i int) uint64 {
	if blockKind(b) == kindBig {
		return binary.LittleEndian.Uint64(b[blockHeader:])
	}
	return binary.LittleEndian.Uint64(b[recordOff(b, i):])
}

// record decodes record i of a block.
func record(b []byte, i int) entry {
	le := binary.LittleEndian
	var e entry
	var klen, vlen int
	if blockKind(b) == kindBig {
		v := le.Uint32(b[20:])
		e.hash, e.tomb = le.Uint64(b[blockHeader:]), v&tomb32 != 0
		klen, vlen = int(le.Uint32(b[16:])), int(v&^tomb32)
		b = b[bigHeader:]
	} else {
		b = b[recordOff(b, i):]
		v := le.Uint16(b[10:])
		e.hash, e.tomb = le.Uint64(b), v&tomb16 != 0
		klen, vlen = int(le.Uint16(b[8:])), int(v&^tomb16)
		b = b[recordHeader:]
	}
	e.key = b[:klen:klen]
	e.value = b[klen : klen+vlen : klen+vlen]
	return e
}

// May says whether the filter lets a hash through: false means that no entry has it.
func (r *Run) May(h uint64) bool {
	if r.foot.lines == 0 {
		return false
	}
	line, p := filterPlace(h, r.foot.lines)
	l := (*[lineSize]byte)(r.filter[line*lineSize:])
	for range probes {
		b := p & 511
		if l[b>>3]&(1<<(b&7)) == 0 {
			return false
		}
		p >>= 9
	}
	return true
}

// bucket is the directory bucket of a hash between lo and hi.
func (r *Run) bucket(h uint64) int { return int((h - r.foot.lo) >> r.foot.shift) }

// below is the last block whose first hash is < h, or 0: entries of h start in it or at the next one.
func (r *Run) below(h uint64) int {
	if len(r.first) == 0 || h <= r.foot.lo {
		return 0
	}
	if h > r.foot.hi {
		return len(r.first) - 1
	}
	d := r.bucket(h)
	b := int(r.dir[d])
	end := len(r.first)
	if d+1 < len(r.dir) {
		end = int(r.dir[d+1]) + 1
	}
	if end-b > 16 { // a bucket full of other hashes' blocks
		return max(b+sort.Search(end-b, func(i int) bool { return r.first[b+i] >= h })-1, 0)
	}
	for b > 0 && r.first[b] >= h {
		b--
	}
	for b+1 < len(r.first) && r.first[b+1] < h {
		b++
	}
	return b
}

// seek is the place of the first entry >= (h, key): block and record; the record may be one past the
// block's last.
func (r *Run) seek(h uint64, key []byte) (block, rec int, err error) {
	b := r.below(h)
	end := b + 1
	for end < len(r.first) && r.first[end] == h && end-b <= 8 {
		end++
	}
	if end-b > 8 { // one hash over many blocks
		end += sort.Search(len(r.first)-end, func(i int) bool { return r.first[end+i] > h })
	}
	// of the blocks that start with h take the last whose first key is <= key
	lo, hi := b, end-1
	for lo < hi {
		mid := (lo + hi + 1) / 2
		x, err := r.block(mid)
		if err != nil {
			return 0, 0, err
		}
		if e := record(x, 0); e.hash < h || e.hash == h && bytes.Compare(e.key, key) <= 0 {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	x, err := r.block(lo)
	if err != nil {
		return 0, 0, err
	}
	n := blockEntries(x)
	i := sort.Search(n, func(i int) bool {
		e := record(x, i)
		return e.hash > h || e.hash == h && bytes.Compare(e.key, key) >= 0
	})
	return lo, i, nil
}

// Get returns the entry of a key. The value points into the file: valid while the caller's reference is.
// A found tombstone says that the key is removed, whatever older runs hold.
func (r *Run) Get(h uint64, key []byte) (value []byte, tombstone, found bool, err error) {
	if len(r.first) == 0 || h < r.foot.lo || h > r.foot.hi || !r.May(h) {
		return nil, false, false, nil
	}
	return r.find(r.below(h), h, key)
}

// find looks for a key from block b on, the one below its hash.
func (r *Run) find(b int, h uint64, key []byte) (value []byte, tombstone, found bool, err error) {
	if b+2 < len(r.first) && r.first[b+2] == h {
		return r.findSeek(h, key)
	}
	for {
		x, err := r.block(b)
		if err != nil {
			return nil, false, false, err
		}
		n := blockEntries(x)
		i := r.guess(b, n, h)
		for i > 0 && recordHash(x, i) >= h {
			i--
		}
		for ; i < n; i++ {
			y := recordHash(x, i)
			if y > h {
				return nil, false, false, nil
			}
			if y == h {
				if e := record(x, i); bytes.Equal(e.key, key) {
					return e.value, e.tomb, true, nil
				}
			}
		}
		if b++; b == len(r.first) || r.first[b] > h {
			return nil, false, false, nil
		}
	}
}

// findSeek is find where one hash fills several blocks.
func (r *Run) findSeek(h uint64, key []byte) (value []byte, tombstone, found bool, err error) {
	it := r.Iter(h, h)
	it.Seek(h, key)
	if !it.Next() || !bytes.Equal(it.e.key, key) {
		return nil, false, false, it.err
	}
	return it.e.value, it.e.tomb, true, nil
}

// guess is where in block b of n records a hash should be, by interpolation.
func (r *Run) guess(b, n int, h uint64) int {
	lo, hi := r.first[b], r.foot.hi
	if b+1 < len(r.first) {
		hi = r.first[b+1]
	}
	if h <= lo || hi <= lo {
		return 0
	}
	s := uint(max(0, bits.Len64(hi-lo)-32))
	return min(int((h-lo)>>s*uint64(n)/((hi-lo)>>s+1)), n-1)
}
