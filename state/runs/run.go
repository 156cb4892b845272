package runs

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/millrace-io/millrace/state"
)

// Run is an open run file. Any number of goroutines may read it.
type Run struct {
	path    string
	m       state.Mapping
	data    []byte
	foot    footer
	first   []uint64
	place   []uint32 // nil without big entries: extent i is block i
	dir     []uint32
	filter  []byte
	checked []atomic.Uint64 // one bit per extent whose checksum was right
	refs    atomic.Int64
}

// Open maps a run file and checks its footer and index; verify checks every block too, else they are
// checked when first read. The caller has the first reference.
//
// Errors: ErrCorrupt with the file's name; a newer format version; the disk's.
func Open(fs state.FS, path string, verify bool) (*Run, error) {
	m, err := fs.Map(path)
	if err != nil {
		return nil, state.StorageError("open", path, err)
	}
	r := &Run{path: path, m: m, data: m.Bytes()}
	r.refs.Store(1)
	if err := r.layout(); err != nil {
		_ = m.Close() // the first error says more
		return nil, err
	}
	if verify {
		for b := range r.first {
			if _, err := r.block(b); err != nil {
				_ = m.Close()
				return nil, err
			}
		}
	}
	return r, nil
}

// layout finds and checks the parts of the file.
func (r *Run) layout() error {
	f, err := decodeFooter(r.data, r.path)
	if err != nil {
		return err
	}
	r.foot = f
	base := int64(f.blocks) * blockSize
	index := r.data[base : int64(len(r.data))-footerSize]
	if checksum(index) != f.indexSum {
		return fmt.Errorf("%w: run file %s: checksum of the index", state.ErrCorrupt, r.path)
	}
	n := int(f.extents)
	// mmap and Go's allocator align the start to 8 bytes; so do all offsets below
	r.first = words[uint64](r.data[base:], n)
	if f.big {
		r.place = words[uint32](r.data[f.placesOff():], n+1)
	} else if f.extents != f.blocks {
		return fmt.Errorf("%w: run file %s: %d extents in %d blocks", state.ErrCorrupt, r.path, f.extents, f.blocks)
	}
	r.dir = words[uint32](r.data[f.dirOff():], int(f.buckets))
	r.filter = r.data[f.filterOff() : f.filterOff()+int64(f.lines)*lineSize]
	r.checked = make([]atomic.Uint64, (n+63)/64)
	return nil
}

// words reads n integers in place.
func words[T uint32 | uint64](b []byte, n int) []T {
	var x T
	b = b[:n*int(unsafe.Sizeof(x))]
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

// extent is the bytes of logical block b, unchecked.
func (r *Run) extent(b int) []byte {
	if r.place == nil {
		return r.data[b*blockSize : b*blockSize+blockSize]
	}
	return r.data[int(r.place[b])*blockSize : int(r.place[b+1])*blockSize]
}

// offset is where logical block b begins in the file.
func (r *Run) offset(b int) int {
	if r.place == nil {
		return b * blockSize
	}
	return int(r.place[b]) * blockSize
}

// block is logical block b, its checksum compared the first time.
func (r *Run) block(b int) ([]byte, error) {
	x := r.extent(b)
	if r.checked[b>>6].Load()&(1<<(b&63)) != 0 {
		return x, nil
	}
	if binary.LittleEndian.Uint32(x) != checksum(x[4:]) {
		return nil, fmt.Errorf("%w: run file %s: checksum of block %d of %d, %d bytes at %d", state.ErrCorrupt, r.path, b, len(r.first), len(x), r.offset(b))
	}
	r.checked[b>>6].Or(1 << (b & 63))
	return x, nil
}

// Path is the file's path when it was opened.
func (r *Run) Path() string { return r.path }

// Info says what the file holds.
func (r *Run) Info() Info {
	f := r.foot
	return Info{Path: r.path, Size: int64(len(r.data)), Lo: f.lo, Hi: f.hi, Count: f.count, Tombstones: f.tombstones}
}

// Ref adds a reference.
func (r *Run) Ref() *Run {
	if r.refs.Add(1) < 2 {
		panic("runs: reference to the closed run " + r.path)
	}
	return r
}

// Close drops a reference; the last one unmaps the file. Slices from it are invalid then.
func (r *Run) Close() error {
	switch n := r.refs.Add(-1); {
	case n > 0:
		return nil
	case n < 0:
		panic("runs: closed too often: " + r.path)
	}
	r.data, r.first, r.place, r.dir, r.filter = nil, nil, nil, nil, nil
	return r.m.Close()
}
