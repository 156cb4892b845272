package memimage

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A table file, little endian:
//
//	"MRIMAGE1" | seed u64 | in u32 | out u32 | in bytes u32 | globals u32 | packs u32 | pages u32 |
//	64 bytes: digest of the module | globals: index u32, bits u64 | pages: hash 2 u64, pack u32, place u32
//
// pack is a number in the snapshot's list of packs, place the number of the page in it; a page of zeros has
// noPack.
const (
	tableMagic  = "MRIMAGE1"
	tableHeader = 8 + 8 + 6*4 + 64
	globalBytes = 12
	pageBytes   = 24
	noPack      = ^uint32(0)
)

// ref is where a page is: pack noPack is nowhere.
type ref struct{ pack, place uint32 }

type table struct {
	seed  uint64
	img   *Image
	refs  []ref
	packs int
}

var errTable = errors.New("the table of a memory image is malformed")

func (t *table) encode() []byte {
	le := binary.LittleEndian
	b := make([]byte, 0, tableHeader+globalBytes*len(t.img.Globals)+pageBytes*len(t.refs))
	b = append(b, tableMagic...)
	b = le.AppendUint64(b, t.seed)
	for _, v := range []int{int(t.img.In), int(t.img.Out), t.img.InBytes, len(t.img.Globals), t.packs, len(t.refs)} {
		b = le.AppendUint32(b, uint32(v))
	}
	var digest [64]byte
	copy(digest[:], t.img.Module)
	b = append(b, digest[:]...)
	for _, g := range t.img.Globals {
		b = le.AppendUint64(le.AppendUint32(b, uint32(g.Index)), g.Bits)
	}
	for i, r := range t.refs {
		b = le.AppendUint64(le.AppendUint64(b, t.img.Pages[i].Lo), t.img.Pages[i].Hi)
		b = le.AppendUint32(le.AppendUint32(b, r.pack), r.place)
	}
	return b
}

func decodeTable(b []byte) (*table, error) {
	le := binary.LittleEndian
	if len(b) < tableHeader || string(b[:len(tableMagic)]) != tableMagic {
		return nil, fmt.Errorf("%w: %d bytes, no %q at its start", errTable, len(b), tableMagic)
	}
	var n [6]int
	for i := range n {
		n[i] = int(le.Uint32(b[16+4*i:]))
	}
	globals, packs, pages := n[3], n[4], n[5]
	if want := tableHeader + globalBytes*globals + pageBytes*pages; len(b) != want {
		return nil, fmt.Errorf("%w: %d bytes, expected %d for %d globals and %d pages", errTable, len(b), want, globals, pages)
	}
	t := &table{seed: le.Uint64(b[8:]), packs: packs, img: &Image{Module: string(b[tableHeader-64 : tableHeader]),
		In: uint32(n[0]), Out: uint32(n[1]), InBytes: n[2]}}
	b = b[tableHeader:]
	for range globals {
		t.img.Globals = append(t.img.Globals, Global{int(le.Uint32(b)), le.Uint64(b[4:])})
		b = b[globalBytes:]
	}
	for i := range pages {
		t.img.Pages = append(t.img.Pages, Hash{Lo: le.Uint64(b), Hi: le.Uint64(b[8:])})
		r := ref{le.Uint32(b[16:]), le.Uint32(b[20:])}
		if r.pack != noPack && int(r.pack) >= packs {
			return nil, fmt.Errorf("%w: page %d is in pack %d of %d", errTable, i, r.pack, packs)
		}
		t.refs = append(t.refs, r)
		b = b[pageBytes:]
	}
	return t, nil
}
