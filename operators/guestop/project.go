package guestop

import (
	"fmt"
	"slices"

	"github.com/millrace-io/millrace/abi"
)

// projection turns rows of the upstream schema into rows of the fields a function declares, in its order.
// A row: null bitmap, ceil(n/8) bytes rounded up to 8; an 8-byte slot per field; then strings and bytes, each
// found by u32 offset from the row's start and u32 length in its slot.
type projection struct {
	from, to []abi.Field
	pick     []int // field of from, by field of to
	row      []byte
	out      abi.Batch
}

// newProjection returns nil where rows fit as they are, or the function takes raw bytes.
func newProjection(from, to []abi.Field) (*projection, error) {
	if len(to) == 0 || slices.Equal(from, to) {
		return nil, nil
	}
	p := &projection{from: from, to: to, pick: make([]int, len(to))}
	for i, f := range to {
		j := slices.IndexFunc(from, func(x abi.Field) bool {
			return x.Name == f.Name && (x.Type == f.Type || x.Type == abi.TypeJSON && f.Type == abi.TypeString)
		})
		if j < 0 {
			return nil, fmt.Errorf("the function wants field %s %s, the input has %v", f.Name, f.Type, from)
		}
		p.pick[i] = j
	}
	return p, nil
}

func bitmapBytes(fields int) int { return align8((fields + 7) / 8) }

// apply returns b with projected values, marks and hashes kept. It is valid until the next call.
func (p *projection) apply(b *abi.Batch) (*abi.Batch, error) {
	o := &p.out
	o.Reset()
	for i := range b.Off {
		r := b.Frame(i).Record()
		if r.Value != nil {
			row, err := p.project(r.Value)
			if err != nil {
				return nil, fmt.Errorf("record %d of split %d: %w", r.Pos.Offset, r.Pos.Split, err)
			}
			r.Value = row
		}
		o.Append(&r)
	}
	o.Hash = append(o.Hash, b.Hash...)
	o.Marks = append(o.Marks, b.Marks...)
	return o, nil
}

func (p *projection) project(v []byte) ([]byte, error) {
	src := bitmapBytes(len(p.from))
	if len(v) < src+8*len(p.from) {
		return nil, fmt.Errorf("a row of %d fields has at least %d bytes, got %d", len(p.from), src+8*len(p.from), len(v))
	}
	dst := bitmapBytes(len(p.to))
	row := slices.Grow(p.row[:0], dst+8*len(p.to))[:dst+8*len(p.to)]
	clear(row)
	for i, j := range p.pick {
		if v[j/8]&(1<<(j%8)) != 0 {
			row[i/8] |= 1 << (i % 8)
			continue
		}
		slot := le.Uint64(v[src+8*j:])
		if t := p.to[i].Type; t == abi.TypeString || t == abi.TypeBytes || t == abi.TypeJSON {
			off, n := slot&0xffffffff, slot>>32
			if off+n > uint64(len(v)) {
				return nil, fmt.Errorf("field %s lies at %d..%d of a row of %d bytes", p.to[i].Name, off, off+n, len(v))
			}
			slot = uint64(len(row)) | n<<32
			row = append(row, v[off:off+n]...)
		}
		le.PutUint64(row[dst+8*i:], slot)
	}
	p.row = row
	return row, nil
}
