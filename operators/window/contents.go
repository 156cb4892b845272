package window

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/zeebo/xxh3"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/format"
	"github.com/millrace-io/millrace/state"
)

// contents keeps records of windows, and sets of values, in map state. User keys are
//
//	id (8, big endian, order preserving) | 0         | sequence (8)   -> event time (8) | kind (1) | value
//	id                                   | 1 + index | value          -> empty: aggregate index has met the value
//
// where id is a window's, or a slice's start.
type contents struct {
	m    state.Ordered
	ukey []byte
	val  []byte
	from []byte

	journal bool // changes can be undone
	undos   []contentUndo
}

// contentUndo is how to take a change back.
type contentUndo struct {
	key       state.Key
	ukey, old []byte
	had       bool
}

// put and delete change the map, and remember what was there.
func (c *contents) put(k state.Key, ukey, v []byte) error {
	if err := c.remember(k, ukey); err != nil {
		return err
	}
	return c.m.Put(k, ukey, v)
}

func (c *contents) delete(k state.Key, ukey []byte) error {
	if err := c.remember(k, ukey); err != nil {
		return err
	}
	return c.m.Delete(k, ukey)
}

func (c *contents) remember(k state.Key, ukey []byte) error {
	if !c.journal {
		return nil
	}
	old, had, err := c.m.Get(k, ukey)
	if err != nil {
		return err
	}
	c.undos = append(c.undos, contentUndo{state.Key{Hash: k.Hash, Bytes: bytes.Clone(k.Bytes)}, bytes.Clone(ukey), bytes.Clone(old), had})
	return nil
}

// undo takes back all changes since settled.
func (c *contents) undo() error {
	for i := len(c.undos) - 1; i >= 0; i-- {
		u := &c.undos[i]
		var err error
		if u.had {
			err = c.m.Put(u.key, u.ukey, u.old)
		} else {
			err = c.m.Delete(u.key, u.ukey)
		}
		if err != nil {
			return err
		}
	}
	c.settled()
	return nil
}

func (c *contents) settled() { c.undos = c.undos[:0] }

const (
	tagRecord = 0
	tagSet    = 1
	idBytes   = 8
)

// Kinds of values.
const (
	valueNull = iota
	valueRow
	valueRaw
)

func (c *contents) at(id int64, tag byte) {
	c.ukey = binary.BigEndian.AppendUint64(c.ukey[:0], uint64(id)^1<<63)
	c.ukey = append(c.ukey, tag)
}

func (c *contents) addRecord(k state.Key, id, seq int64, in *input) error {
	c.at(id, tagRecord)
	c.ukey = binary.BigEndian.AppendUint64(c.ukey, uint64(seq))
	c.val = le.AppendUint64(c.val[:0], uint64(in.time))
	switch {
	case in.row != nil:
		c.val = append(append(c.val, valueRow), in.row...)
	case in.raw != nil:
		c.val = append(append(c.val, valueRaw), in.raw...)
	default:
		c.val = append(c.val, valueNull)
	}
	return c.put(k, c.ukey, c.val)
}

func (c *contents) addValue(k state.Key, id int64, index int, v []byte) error {
	c.at(id, byte(tagSet+index))
	c.ukey = append(c.ukey, v...)
	return c.put(k, c.ukey, nil)
}

// entry is one of the map's.
type entry struct {
	id   int64
	tag  byte
	rest []byte // sequence or value
	val  []byte
}

// record is the record of an entry with tagRecord.
func (e *entry) record(base int) (seq int64, in input) {
	in = input{time: word(e.val, 0), base: base}
	switch e.val[8] {
	case valueRow:
		in.row = e.val[9:]
	case valueRaw:
		in.raw = e.val[9:]
	}
	return int64(binary.BigEndian.Uint64(e.rest)), in
}

// scan calls f for the entries of ids in [lo, hi], then `then` (or nil); what f gets is good until that
// returns.
func (c *contents) scan(k state.Key, lo, hi int64, f func(ukey []byte, e *entry) error, then func() error) error {
	c.from = binary.BigEndian.AppendUint64(c.from[:0], uint64(lo)^1<<63)
	it, err := c.m.Scan(k, c.from)
	if err != nil {
		return err
	}
	for it.Next() && err == nil {
		u, v := it.Entry()
		e := entry{id: int64(binary.BigEndian.Uint64(u) ^ 1<<63), tag: u[idBytes], rest: u[idBytes+1:], val: v}
		if e.id > hi {
			break
		}
		err = f(u, &e)
	}
	if err == nil && then != nil {
		err = then()
	}
	return errors.Join(err, it.Close())
}

// clear removes an id's entries.
func (c *contents) clear(k state.Key, id int64) error {
	return c.scan(k, id, id, func(u []byte, _ *entry) error { return c.delete(k, u) }, nil)
}

// move gives an id's entries to another one.
func (c *contents) move(k state.Key, from, to int64) error {
	return c.scan(k, from, from, func(u []byte, e *entry) error {
		c.at(to, e.tag)
		c.ukey = append(c.ukey, e.rest...)
		if err := c.put(k, c.ukey, e.val); err != nil {
			return err
		}
		return c.delete(k, u)
	}, nil)
}

// keeper is an aggregate over contents.
type keeper interface {
	aggregate
	// begin starts a new result.
	begin()
	// fold adds a record, in order of arrival.
	fold(in *input)
}

// collect lists a field's values, or whole records, in order of arrival, as JSON.
type collect struct {
	f    field
	rows *format.RowEncoder
	json []byte
}

func newCollect(w *operators.WindowNode, f field) *collect {
	return &collect{f: f, rows: format.NewRowEncoder(w.Input)}
}

func (*collect) words() int                       { return 0 }
func (*collect) variable() bool                   { return false }
func (*collect) add(_, v []byte, _ *input) []byte { return v }
func (*collect) merge(_, v, _, _ []byte) []byte   { return v }
func (c *collect) begin()                         { c.json = append(c.json[:0], '[') }
func (c *collect) comma() {
	if len(c.json) > 1 {
		c.json = append(c.json, ',')
	}
}

func (c *collect) fold(in *input) {
	if c.f.at < 0 {
		c.comma()
		switch {
		case in.row != nil:
			c.json, _ = c.rows.Append(c.json, in.row) // checked when it came in
		case in.raw != nil:
			c.json = appendRaw(c.json, in.raw)
		default:
			c.json = append(c.json, "null"...)
		}
		return
	}
	x, ok := c.f.bits(in)
	if !ok {
		return
	}
	c.comma()
	switch c.f.t {
	case abi.TypeString:
		b, _ := c.f.bytes(in)
		c.json = format.AppendString(c.json, b)
	case abi.TypeJSON:
		b, _ := c.f.bytes(in)
		c.json = append(c.json, b...)
	case abi.TypeBytes:
		b, _ := c.f.bytes(in)
		c.json = append(base64.StdEncoding.AppendEncode(append(c.json, '"'), b), '"')
	case abi.TypeFloat64:
		c.json = format.AppendFloat(c.json, math.Float64frombits(x))
	case abi.TypeBool:
		c.json = fmt.Appendf(c.json, "%t", x != 0)
	default:
		c.json = fmt.Appendf(c.json, "%d", int64(x))
	}
}

// appendRaw appends raw bytes: JSON on one line as it is, else as a JSON string.
func appendRaw(dst, b []byte) []byte {
	if bytes.IndexByte(b, '\n') < 0 && json.Valid(b) {
		return append(dst, b...)
	}
	return format.AppendBytes(dst, b)
}

func (c *collect) result(_, _ []byte, b *abi.RowBuilder, col int) {
	c.json = append(c.json, ']')
	b.SetBytes(col, c.json)
}

// distinct counts the values of a field exactly. Texts over 32 bytes count by their 128-bit hash.
type distinct struct {
	f    field
	buf  []byte
	n    int64
	seen map[string]struct{} // nil: what comes is distinct
}

func (*distinct) words() int                       { return 0 }
func (*distinct) variable() bool                   { return false }
func (*distinct) add(_, v []byte, _ *input) []byte { return v }
func (*distinct) merge(_, v, _, _ []byte) []byte   { return v }

// value is a record's value as it stands in the set.
func (d *distinct) value(in *input) ([]byte, bool) {
	x, ok := d.f.bits(in)
	if !ok {
		return nil, false
	}
	if !d.f.text() {
		if d.f.t == abi.TypeFloat64 {
			x = math.Float64bits(math.Float64frombits(x) + 0)
		}
		d.buf = le.AppendUint64(d.buf[:0], x)
		return d.buf, true
	}
	b, _ := d.f.bytes(in)
	if len(b) <= 32 {
		d.buf = append(append(d.buf[:0], 0), b...)
		return d.buf, true
	}
	h := xxh3.Hash128(b).Bytes()
	d.buf = append(append(d.buf[:0], 1), h[:]...)
	return d.buf, true
}

func (d *distinct) begin() {
	d.n = 0
	d.seen = map[string]struct{}{}
}

// beginOne starts a result over one set.
func (d *distinct) beginOne() { d.n, d.seen = 0, nil }

func (d *distinct) fold(in *input) {
	if v, ok := d.value(in); ok {
		d.put(v)
	}
}

func (d *distinct) put(v []byte) {
	if d.seen == nil {
		d.n++
		return
	}
	if _, ok := d.seen[string(v)]; !ok {
		d.seen[string(v)] = struct{}{}
		d.n++
	}
}

func (d *distinct) result(_, _ []byte, b *abi.RowBuilder, col int) { b.SetInt64(col, d.n) }
