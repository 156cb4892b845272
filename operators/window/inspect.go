package window

import (
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/format"
	"github.com/millrace-io/millrace/state/schema"
)

// Inspector reads what the operator keeps in its state, for people. It serves one goroutine.
type Inspector struct {
	o    *Op // never opened: its layout and aggregates alone
	rows *format.RowEncoder
}

// StateSchemas describe the states of a node: of its windows, and of its contents.
func StateSchemas(w *operators.WindowNode) []abi.StateDescriptor {
	def, err := json.Marshal(w)
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	ds := []abi.StateDescriptor{{Name: "windows", Kind: abi.StateValue, Version: version(w), Schema: &abi.Schema{Type: abi.SchemaWindow, Definition: def}}}
	if KeepsRecords(w) {
		ds = append(ds, abi.StateDescriptor{Name: "contents", Kind: abi.StateMap, Version: version(w), Schema: &abi.Schema{Type: abi.SchemaContents, Definition: def}})
	}
	return ds
}

// NewInspector makes one for the definition of a StateSchemas.
func NewInspector(definition json.RawMessage) (*Inspector, error) {
	var w operators.WindowNode
	if err := json.Unmarshal(definition, &w); err != nil {
		return nil, fmt.Errorf("definition of windows: %w", err)
	}
	if err := Validate(&w); err != nil {
		return nil, fmt.Errorf("definition of windows: %w", err)
	}
	o := New(Config{Node: &operators.Node{Window: &w}})
	if err := o.shapeState(); err != nil {
		return nil, err
	}
	return &Inspector{o, format.NewRowEncoder(w.Input)}, nil
}

// AppendWindows appends the windows of a key as JSON:
//
//	{"windows":[{"start":"...","end":"...","aggregates":{"flights":3}}]}
//
// with "firings" where they are counted. Of windows that share slices those are shown: {"slices":...}.
// Aggregates over contents are left out: they are made when a window fires.
func (x *Inspector) AppendWindows(dst, block []byte) (out []byte, err error) {
	defer func() {
		if r := recover(); r != nil { // lengths inside that make no sense
			out, err = dst, fmt.Errorf("%w: a block of %d bytes is not what these windows keep", schema.ErrValue, len(block))
		}
	}()
	o := x.o
	o.blk = block
	if len(block) < o.l.header {
		return dst, fmt.Errorf("%w: a block of %d bytes, its header has %d", schema.ErrValue, len(block), o.l.header)
	}
	out = append(dst, `{"windows":[`...)
	if o.shape == sliced {
		out = append(dst, `{"slices":[`...)
	}
	off := o.l.header
	for ; off < len(block); off += o.l.size(block[off:]) {
		if off > o.l.header {
			out = append(out, ',')
		}
		out = x.window(out, off)
	}
	if off != len(block) {
		return dst, fmt.Errorf("%w: a window behind the end of a block of %d bytes", schema.ErrValue, len(block))
	}
	return append(out, "]}"...), nil
}

func (x *Inspector) window(dst []byte, off int) []byte {
	o := x.o
	sp := span{o.asg.at(word(o.blk, off)), 0}
	if o.shape != sliced {
		sp = o.spanAt(off)
	}
	dst = append(dst, '{')
	if !o.endless {
		dst = schema.AppendTime(append(dst, `"start":`...), sp.start)
		if o.shape != sliced {
			dst = schema.AppendTime(append(dst, `,"end":`...), sp.end)
		}
		dst = append(dst, ',')
	}
	if o.l.state > 0 {
		dst = fmt.Appendf(dst, `"firings":%d,`, le.Uint32(o.blk[off+o.l.state+4:]))
	}
	dst = append(dst, `"aggregates":{`...)
	for i, n := 0, 0; i < len(o.w.Aggregates); i++ {
		a := &o.l.aggs[i]
		if _, made := a.agg.(keeper); made || o.w.Evictor != nil {
			continue
		}
		if n++; n > 1 {
			dst = append(dst, ',')
		}
		var v []byte
		if a.v >= 0 {
			v = o.l.variable(o.blk[off:], a.v)
		}
		dst = append(schema.AppendText(dst, []byte(o.w.Aggregates[i].Name)), ':')
		dst = x.result(dst, &o.w.Aggregates[i], a, o.blk[off+a.at:off+a.end], v)
	}
	return append(dst, "}}"...)
}

// result appends what an aggregate would give now.
func (x *Inspector) result(dst []byte, c *operators.WindowAggregate, a *aggAt, w, v []byte) []byte {
	if g, ok := a.agg.(*guestAggregate); ok { // its bytes: the module alone knows what they say
		acc, there := g.stored(w, v)
		if !there {
			return append(dst, "null"...)
		}
		dst, _ = schema.Raw{}.AppendJSON(dst, acc) // never fails
		return dst
	}
	var b abi.RowBuilder
	b.Reset(1)
	a.agg.result(w, v, &b, 0)
	codec, err := schema.Compile(schema.RowSchema([]abi.Field{{Name: "x", Type: resultType(x.o.w, *c)}}))
	if err != nil {
		return append(dst, "null"...)
	}
	row, err := codec.AppendJSON(nil, b.Bytes())
	if err != nil {
		return append(dst, "null"...)
	}
	var one struct{ X json.RawMessage }
	if err := json.Unmarshal(row, &one); err != nil {
		return append(dst, "null"...)
	}
	return append(dst, one.X...)
}

// AppendContent appends an entry of the contents as JSON: a record with the number of its window (or the
// start of its slice), its time and value, or a value that an aggregate has met.
func (x *Inspector) AppendContent(dst, ukey, value []byte) ([]byte, error) {
	if len(ukey) < idBytes+1 {
		return dst, fmt.Errorf("%w: contents under %d bytes", schema.ErrValue, len(ukey))
	}
	e := entry{id: int64(binary.BigEndian.Uint64(ukey) ^ 1<<63), tag: ukey[idBytes], rest: ukey[idBytes+1:], val: value}
	if e.tag != tagRecord {
		i := int(e.tag) - tagSet
		if i >= len(x.o.w.Aggregates) {
			return dst, fmt.Errorf("%w: contents of aggregate %d of %d", schema.ErrValue, i, len(x.o.w.Aggregates))
		}
		dst = fmt.Appendf(dst, `{"window":%d,"aggregate":`, e.id)
		dst = append(schema.AppendText(dst, []byte(x.o.w.Aggregates[i].Name)), `,"value":`...)
		dst, _ = schema.Raw{}.AppendJSON(dst, e.rest) // never fails
		return append(dst, '}'), nil
	}
	if len(e.rest) != 8 || len(value) < 9 {
		return dst, fmt.Errorf("%w: a record of contents of %d bytes", schema.ErrValue, len(value))
	}
	seq, in := e.record(x.o.in.base)
	out := fmt.Appendf(dst, `{"window":%d,"sequence":%d,"time":`, e.id, seq)
	out = append(schema.AppendTime(out, in.time), `,"value":`...)
	var err error
	switch {
	case in.row != nil:
		if out, err = x.rows.Append(out, in.row); err != nil {
			return dst, fmt.Errorf("%w: %w", schema.ErrValue, err)
		}
	case in.raw != nil:
		out = appendRaw(out, in.raw)
	default:
		out = append(out, "null"...)
	}
	return append(out, '}'), nil
}
