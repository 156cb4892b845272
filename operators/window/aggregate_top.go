package window

import (
	"bytes"
	"cmp"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/format"
)

// top keeps the n records with the greatest field: of equals those with the earlier time, then the bytewise
// lesser row, so that the order of arrival does not matter. Its variable part is the records, best first,
// each as time (8), length of the row (8), row, padded to 8.
type top struct {
	f    field
	n    int
	base int
	rows *format.RowEncoder
	buf  []byte
	one  []byte
	json []byte
}

func newTop(w *operators.WindowNode, f field, n int) *top {
	return &top{f: f, n: n, base: abi.RowBitmap(len(w.Input)), rows: format.NewRowEncoder(w.Input)}
}

func (*top) words() int     { return 0 }
func (*top) variable() bool { return true }

// better says whether a comes before b.
func (t *top) better(a, b *input) bool {
	c := 0
	if t.f.text() {
		x, _ := t.f.bytes(a)
		y, _ := t.f.bytes(b)
		c = bytes.Compare(y, x)
	} else {
		x, _ := t.f.bits(a)
		y, _ := t.f.bits(b)
		c = compareBits(t.f.t, y, x)
	}
	if c == 0 {
		if c = cmp.Compare(a.time, b.time); c == 0 {
			c = bytes.Compare(a.row, b.row)
		}
	}
	return c < 0
}

// next is the record at the front of v and the length of its entry.
func (t *top) next(v []byte) (input, int) {
	n := int(le.Uint64(v[8:]))
	return input{time: word(v, 0), row: v[16 : 16+n : 16+n], base: t.base}, 16 + align8(n)
}

func (t *top) add(_, v []byte, in *input) []byte {
	if _, ok := t.f.bits(in); !ok {
		return v
	}
	t.one = le.AppendUint64(t.one[:0], uint64(in.time))
	t.one = le.AppendUint64(t.one, uint64(len(in.row)))
	t.one = append(t.one, in.row...)
	for len(t.one)%8 != 0 {
		t.one = append(t.one, 0)
	}
	return t.merge(nil, v, nil, t.one)
}

// merge merges two lists in order and keeps the first n.
func (t *top) merge(_, v, _, v2 []byte) []byte {
	out := t.buf[:0]
	for n := 0; n < t.n && len(v)+len(v2) > 0; n++ {
		from := &v
		if len(v2) > 0 {
			if len(v) == 0 {
				from = &v2
			} else {
				a, _ := t.next(v)
				if b, _ := t.next(v2); t.better(&b, &a) {
					from = &v2
				}
			}
		}
		_, size := t.next(*from)
		out = append(out, (*from)[:size]...)
		*from = (*from)[size:]
	}
	t.buf = out
	return out
}

func (t *top) result(_, v []byte, b *abi.RowBuilder, col int) {
	j := append(t.json[:0], '[')
	for first := true; len(v) > 0; first = false {
		in, size := t.next(v)
		if !first {
			j = append(j, ',')
		}
		j, _ = t.rows.Append(j, in.row) // checked when it came in
		v = v[size:]
	}
	t.json = append(j, ']')
	b.SetBytes(col, t.json)
}
