// Package runs has immutable run files: entries of one state in (hash, key bytes) order. One file is a
// checkpoint's delta, an object of the snapshot store and the cold store of the state beyond the memory
// budget, served by mmap as it is.
//
// A file is blocks | index | footer, little endian:
//
//	block   4096 bytes: crc32c u32 of the rest | entries u16 | kind u16 (0) | records ... offsets u16,
//	        the i-th at 4096-2-2i
//	record  hash u64 | key length u16 | value length u16, top bit: tombstone | key | value
//	big     an entry that fills more than a block has an extent of whole blocks: crc32c u32 of the rest
//	        of the extent | 1 u16 | kind u16 (1) | hash u64 | key length u32 | value length u32, top bit:
//	        tombstone | key | value | zeros
//	index   first hash u64 of each block or extent | with extents: place u32 of each in blocks, and the
//	        end | directory u32 over the hash range by the top bits above the lowest hash: the last block
//	        whose first hash is <= the bucket's start | zeros to 64 | bloom filter, lines of 64 bytes
//	footer  see footer.encode; ends with the crc32c of the index and of the footer itself
//
// Everything a reader trusts is under a checksum: index and footer when the file is opened, blocks when
// they are first read.
package runs

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/bits"

	"github.com/millrace-io/millrace/state"
)

// Version is the format version this package writes; it reads no newer one.
const Version = 1

// MaxEntryBytes is the most that key and value of an entry have together.
const MaxEntryBytes = 1 << 26

const (
	blockSize    = 4096
	blockHeader  = 8
	recordHeader = 12
	bigHeader    = blockHeader + 16
	footerSize   = 128
	lineSize     = 64 // of the bloom filter
	bitsPerHash  = 10
	probes       = 6

	kindRecords = 0
	kindBig     = 1

	tomb16 = 1 << 15
	tomb32 = 1 << 31
)

var magic = [8]byte{'m', 'i', 'l', 'l', 'r', 'u', 'n', '\n'}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// footer is what a reader must know to find everything else.
type footer struct {
	lo, hi     uint64 // lowest and highest hash
	count      uint64 // entries, tombstones included
	tombstones uint64
	blocks     uint64 // physical blocks of 4 KiB
	extents    uint64 // logical blocks: entries of the first-hash array
	lines      uint64 // of the bloom filter
	big        bool   // some extent has more than one physical block
	shift      uint32 // directory bucket of h: (h-lo) >> shift
	buckets    uint32
	indexSum   uint32
}

func (f footer) encode() []byte {
	le := binary.LittleEndian
	b := make([]byte, footerSize)
	copy(b, magic[:])
	le.PutUint32(b[8:], Version)
	if f.big {
		b[12] = 1
	}
	for i, x := range []uint64{f.lo, f.hi, f.count, f.tombstones, f.blocks, f.extents, f.lines, uint64(f.size())} {
		le.PutUint64(b[16+8*i:], x)
	}
	le.PutUint32(b[80:], f.shift)
	le.PutUint32(b[84:], f.buckets)
	le.PutUint32(b[120:], f.indexSum)
	le.PutUint32(b[124:], checksum(b[:124]))
	return b
}

// decodeFooter checks everything that can be checked without the index.
func decodeFooter(file []byte, path string) (f footer, err error) {
	bad := func(what string, args ...any) (footer, error) {
		return f, fmt.Errorf("%w: run file %s: %s", state.ErrCorrupt, path, fmt.Sprintf(what, args...))
	}
	if len(file) < footerSize {
		return bad("%d bytes are less than a footer of %d", len(file), footerSize)
	}
	le := binary.LittleEndian
	b := file[len(file)-footerSize:]
	if [8]byte(b[:8]) != magic {
		return bad("no footer at the end: not a run file, or cut off")
	}
	if le.Uint32(b[124:]) != checksum(b[:124]) { // every version has it here
		return bad("checksum of the footer")
	}
	if v := le.Uint32(b[8:]); v != Version {
		return f, fmt.Errorf("run file %s: format version %d, this build reads %d", path, v, Version)
	}
	u := func(i int) uint64 { return le.Uint64(b[16+8*i:]) }
	f = footer{lo: u(0), hi: u(1), count: u(2), tombstones: u(3), blocks: u(4), extents: u(5), lines: u(6),
		big: b[12]&1 != 0, shift: le.Uint32(b[80:]), buckets: le.Uint32(b[84:]), indexSum: le.Uint32(b[120:])}
	const most = 1 << 40
	if f.blocks > most || f.extents > f.blocks || f.lines > most || f.shift > 63 || f.hi < f.lo {
		return bad("footer out of range")
	}
	if int64(len(file)) != f.size() || u(7) != uint64(f.size()) {
		return bad("%d bytes, expected %d", len(file), f.size())
	}
	return f, nil
}

func (f footer) placesOff() int64 { return int64(f.blocks)*blockSize + 8*int64(f.extents) }

func (f footer) dirOff() int64 {
	if f.big {
		return f.placesOff() + 4*(int64(f.extents)+1)
	}
	return f.placesOff()
}

func (f footer) filterOff() int64 {
	return (f.dirOff() + 4*int64(f.buckets) + lineSize - 1) &^ (lineSize - 1)
}

func (f footer) size() int64 { return f.filterOff() + int64(f.lines)*lineSize + footerSize }

// directory fills in shift and buckets for a run of so many extents: about one bucket per extent.
func (f *footer) directory() {
	if f.extents == 0 {
		return
	}
	width := f.hi - f.lo
	f.shift = uint32(max(0, bits.Len64(width)-bits.Len64(f.extents)))
	f.buckets = uint32(width>>f.shift) + 1
}

// filterPlace spreads a hash: the line, and the probes within it.
func filterPlace(h, lines uint64) (line, probe uint64) {
	x := h * 0x9e3779b97f4a7c15
	line, _ = bits.Mul64(x^x>>32, lines)
	return line, (h ^ h>>29) * 0xbf58476d1ce4e5b9
}
