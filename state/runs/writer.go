package runs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/millrace-io/millrace/state"
)

const writeBuffer = 64 * blockSize

// buffers are shared by the writers: a task that spills makes many short-lived ones.
var buffers = sync.Pool{New: func() any { return new([writeBuffer]byte) }}

// release gives the buffer back.
func (w *Writer) release() {
	if w.buf != nil {
		buffers.Put((*[writeBuffer]byte)(w.buf[:writeBuffer]))
		w.buf = nil
	}
}

// Info says what a finished run file holds.
type Info struct {
	Path       string
	Size       int64
	Lo, Hi     uint64 // hashes of the first and last entry
	Count      uint64 // entries, tombstones included
	Tombstones uint64
}

// Writer streams one run file. Its memory is a buffer of 256 KiB and 8 bytes per distinct hash.
type Writer struct {
	fs    state.FS
	path  string
	f     state.File
	buf   []byte // written in one go when full; whole blocks but for the current one
	block int    // start of the current block in buf; -1: none
	offs  []uint16
	foot  footer
	first []uint64
	place []uint32
	hash  []uint64 // for the filter
	last  []byte   // key of the last entry
	err   error
}

// NewWriter creates the file. Either Finish or Abort must follow.
func NewWriter(fs state.FS, path string) (*Writer, error) {
	f, err := fs.Create(path)
	if err != nil {
		return nil, state.StorageError("create", path, err)
	}
	return &Writer{fs: fs, path: path, f: f, buf: (*buffers.Get().(*[writeBuffer]byte))[:0], block: -1}, nil
}

// Add appends an entry, copying key and value. Entries must come in strictly ascending (hash, key bytes)
// order; hash 0 is a hash like any other here. The value of a tombstone is not kept.
//
// Errors: ErrTooLarge over MaxEntryBytes; wrong order; the disk's, ErrStorageFull among them.
func (w *Writer) Add(hash uint64, key, value []byte, tombstone bool) error {
	if w.err != nil {
		return w.err
	}
	if tombstone {
		value = nil
	}
	if len(key)+len(value) > MaxEntryBytes {
		return fmt.Errorf("%w: entry of %d bytes in run file %s, limit %d", state.ErrTooLarge, len(key)+len(value), w.path, MaxEntryBytes)
	}
	if w.foot.count > 0 && (hash < w.foot.hi || hash == w.foot.hi && bytes.Compare(key, w.last) <= 0) {
		return w.fail(fmt.Errorf("run file %s: entry %d (hash %016x) is not above the one before it", w.path, w.foot.count, hash))
	}
	size := recordHeader + len(key) + len(value)
	if size+2 > blockSize-blockHeader {
		w.addBig(hash, key, value, tombstone)
	} else {
		w.addSmall(hash, key, value, tombstone, size)
	}
	if w.foot.count == 0 {
		w.foot.lo = hash
	}
	if n := len(w.hash); n == 0 || w.hash[n-1] != hash {
		w.hash = append(w.hash, hash)
	}
	w.foot.count++
	if tombstone {
		w.foot.tombstones++
	}
	w.foot.hi = hash
	w.last = append(w.last[:0], key...)
	return w.err
}

func (w *Writer) addSmall(hash uint64, key, value []byte, tombstone bool, size int) {
	if w.block < 0 || len(w.buf)-w.block+size+2*len(w.offs)+2 > blockSize {
		w.endBlock()
		if len(w.buf)+blockSize > writeBuffer {
			w.flush()
		}
		w.startExtent(hash, 1)
		w.block = len(w.buf)
		w.buf = append(w.buf, make([]byte, blockHeader)...)
	}
	w.offs = append(w.offs, uint16(len(w.buf)-w.block))
	vlen := uint16(len(value))
	if tombstone {
		vlen |= tomb16
	}
	le := binary.LittleEndian
	w.buf = le.AppendUint64(w.buf, hash)
	w.buf = le.AppendUint16(w.buf, uint16(len(key)))
	w.buf = le.AppendUint16(w.buf, vlen)
	w.buf = append(w.buf, key...)
	w.buf = append(w.buf, value...)
}

func (w *Writer) startExtent(hash uint64, blocks int) {
	w.first = append(w.first, hash)
	w.place = append(w.place, uint32(w.foot.blocks))
	w.foot.extents++
	w.foot.blocks += uint64(blocks)
	if blocks > 1 {
		w.foot.big = true
	}
}

// endBlock pads the current block, puts the offsets behind its records and the checksum before them.
func (w *Writer) endBlock() {
	if w.block < 0 {
		return
	}
	used := len(w.buf)
	w.buf = w.buf[:w.block+blockSize]
	b := w.buf[w.block:]
	clear(b[used-w.block:])
	le := binary.LittleEndian
	for i, o := range w.offs {
		le.PutUint16(b[blockSize-2-2*i:], o)
	}
	le.PutUint16(b[4:], uint16(len(w.offs)))
	le.PutUint16(b[6:], kindRecords)
	le.PutUint32(b, checksum(b[4:]))
	w.offs = w.offs[:0]
	w.block = -1
}

func (w *Writer) addBig(hash uint64, key, value []byte, tombstone bool) {
	w.endBlock()
	w.flush()
	size := bigHeader + len(key) + len(value)
	blocks := (size + blockSize - 1) / blockSize
	w.startExtent(hash, blocks)
	vlen := uint32(len(value))
	if tombstone {
		vlen |= tomb32
	}
	le := binary.LittleEndian
	b := make([]byte, 4, blocks*blockSize)
	b = le.AppendUint16(b, 1)
	b = le.AppendUint16(b, kindBig)
	b = le.AppendUint64(b, hash)
	b = le.AppendUint32(b, uint32(len(key)))
	b = le.AppendUint32(b, vlen)
	b = append(b, key...)
	b = append(b, value...)
	b = b[:blocks*blockSize]
	le.PutUint32(b, checksum(b[4:]))
	w.write(b)
}

func (w *Writer) flush() {
	w.write(w.buf)
	w.buf = w.buf[:0]
}

func (w *Writer) write(b []byte) {
	if w.err != nil || len(b) == 0 {
		return
	}
	if _, err := w.f.Write(b); err != nil {
		_ = w.fail(state.StorageError("write", w.path, err))
	}
}

func (w *Writer) fail(err error) error {
	if w.err == nil {
		w.err = err
	}
	return w.err
}

// Count is the number of entries so far.
func (w *Writer) Count() uint64 { return w.foot.count }

// Finish writes index and footer, syncs and closes the file. After an error the file is removed.
func (w *Writer) Finish() (Info, error) { return w.finish(true) }

// FinishUnsynced is Finish without the sync, for a file that may be merged away before a snapshot needs
// it; see state.FS.SyncFile.
func (w *Writer) FinishUnsynced() (Info, error) { return w.finish(false) }

func (w *Writer) finish(sync bool) (Info, error) {
	w.endBlock()
	w.flush()
	w.release()
	w.foot.directory()
	w.foot.lines = 0
	if len(w.hash) > 0 {
		w.foot.lines = uint64(len(w.hash))*bitsPerHash/(lineSize*8) + 1
	}
	index := w.index()
	w.foot.indexSum = checksum(index)
	w.write(index)
	w.write(w.foot.encode())
	if w.err == nil && sync {
		if err := w.f.Sync(); err != nil {
			_ = w.fail(state.StorageError("sync", w.path, err))
		}
	}
	if w.err != nil {
		err := w.err
		w.Abort()
		return Info{}, err
	}
	if err := w.f.Close(); err != nil {
		w.f = nil
		w.Abort()
		return Info{}, state.StorageError("close", w.path, err)
	}
	w.f = nil
	return Info{Path: w.path, Size: w.foot.size(), Lo: w.foot.lo, Hi: w.foot.hi, Count: w.foot.count, Tombstones: w.foot.tombstones}, nil
}

// Abort closes and removes the file. After Finish it does nothing but after Finish's error.
func (w *Writer) Abort() {
	w.release()
	if w.f != nil {
		_ = w.f.Close() // the file goes anyway
		w.f = nil
	}
	_ = w.fs.Remove(w.path) // left over at worst: folders of a task are emptied at its start
	_ = w.fail(fmt.Errorf("run file %s: aborted", w.path))
}

// index is everything between the blocks and the footer.
func (w *Writer) index() []byte {
	f := &w.foot
	le := binary.LittleEndian
	base := int64(f.blocks) * blockSize
	out := make([]byte, 0, f.size()-footerSize-base)
	for _, h := range w.first {
		out = le.AppendUint64(out, h)
	}
	if f.big {
		for _, p := range w.place {
			out = le.AppendUint32(out, p)
		}
		out = le.AppendUint32(out, uint32(f.blocks))
	}
	j := 0
	for d := uint64(0); d < uint64(f.buckets); d++ {
		start := f.lo + d<<f.shift
		for j+1 < len(w.first) && w.first[j+1] <= start {
			j++
		}
		out = le.AppendUint32(out, uint32(j))
	}
	out = out[:cap(out)]
	filter := out[f.filterOff()-base:]
	for _, h := range w.hash {
		line, p := filterPlace(h, f.lines)
		l := filter[line*lineSize : line*lineSize+lineSize]
		for range probes {
			b := p & 511
			l[b>>3] |= 1 << (b & 7)
			p >>= 9
		}
	}
	return out
}
