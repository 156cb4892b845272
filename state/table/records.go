package table

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
)

// Records is a list of copied entries outside the Go heap: hash u64 | key length u16 | flags u16 | value
// length u32 | key | value. It grows in chunks, so an append never copies what is there.
type Records struct {
	chunks [][]byte
	n      int
	bytes  int64 // mapped
}

// Ref is the place of a record and its hash.
type Ref struct {
	Hash  uint64
	place uint64 // chunk << 32 | offset
}

const recordHeader = 16

// Append copies an entry.
func (r *Records) Append(hash uint64, key, value []byte, tombstone bool) (Ref, error) {
	size := recordHeader + len(key) + len(value)
	last := len(r.chunks) - 1
	if last < 0 || cap(r.chunks[last])-len(r.chunks[last]) < size {
		want := size
		if last > 2 {
			want = max(size, chunkSize)
		}
		c, err := getChunk(want)
		if err != nil {
			return Ref{}, err
		}
		r.bytes += int64(cap(c))
		r.chunks = append(r.chunks, c[:0])
		last++
	}
	c := r.chunks[last]
	off := len(c)
	c = c[:off+size]
	b := c[off:]
	binary.LittleEndian.PutUint64(b, hash)
	var flags uint16
	if tombstone {
		flags = fTomb
	}
	binary.LittleEndian.PutUint16(b[8:], uint16(len(key)))
	binary.LittleEndian.PutUint16(b[10:], flags)
	binary.LittleEndian.PutUint32(b[12:], uint32(len(value)))
	copy(b[recordHeader:], key)
	copy(b[recordHeader+len(key):], value)
	r.chunks[last] = c
	r.n++
	return Ref{hash, uint64(last)<<32 | uint64(off)}, nil
}

// Len is the number of records; Bytes is the memory they take.
func (r *Records) Len() int { return r.n }

// Bytes is the memory mapped for the records.
func (r *Records) Bytes() int64 { return r.bytes }

// Get is the record at a place. The slices are valid until Free.
func (r *Records) Get(x Ref) (key, value []byte, tombstone bool) {
	b := r.chunks[x.place>>32][uint32(x.place):]
	k := int(binary.LittleEndian.Uint16(b[8:]))
	v := int(binary.LittleEndian.Uint32(b[12:]))
	tombstone = binary.LittleEndian.Uint16(b[10:])&fTomb != 0
	b = b[recordHeader:]
	return b[:k:k], b[k : k+v : k+v], tombstone
}

// Refs lists all records in the order of their appending.
func (r *Records) Refs() []Ref {
	refs := make([]Ref, 0, r.n)
	for i, c := range r.chunks {
		for off := 0; off < len(c); {
			b := c[off:]
			refs = append(refs, Ref{binary.LittleEndian.Uint64(b), uint64(i)<<32 | uint64(off)})
			off += recordHeader + int(binary.LittleEndian.Uint16(b[8:])) + int(binary.LittleEndian.Uint32(b[12:]))
		}
	}
	return refs
}

// Sort orders refs by (hash, key bytes). Refs in table order are nearly sorted: an entry is out of place
// only within its cluster, so an insertion sort does it; others go to a general sort.
func (r *Records) Sort(refs []Ref) {
	budget := 16 * len(refs) // moves after which the order is not a table's
	for i := 1; i < len(refs); i++ {
		x := refs[i]
		j := i
		for j > 0 && r.compare(refs[j-1], x) > 0 {
			refs[j] = refs[j-1]
			j--
		}
		refs[j] = x
		if budget -= i - j; budget < 0 {
			slices.SortFunc(refs, r.compare)
			return
		}
	}
}

func (r *Records) compare(a, b Ref) int {
	if a.Hash != b.Hash {
		return cmp.Compare(a.Hash, b.Hash)
	}
	ka, _, _ := r.Get(a)
	kb, _, _ := r.Get(b)
	return bytes.Compare(ka, kb)
}

// Search finds a key among sorted refs.
func (r *Records) Search(refs []Ref, hash uint64, key []byte) (Ref, bool) {
	i, _ := slices.BinarySearchFunc(refs, hash, func(x Ref, h uint64) int { return cmp.Compare(x.Hash, h) })
	for ; i < len(refs) && refs[i].Hash == hash; i++ {
		if k, _, _ := r.Get(refs[i]); bytes.Equal(k, key) {
			return refs[i], true
		}
	}
	return Ref{}, false
}

// Free gives the memory back. Records may be used anew afterwards.
func (r *Records) Free() {
	for _, c := range r.chunks {
		putChunk(c)
	}
	*r = Records{}
}
