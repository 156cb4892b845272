package format

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"

	"github.com/millrace-io/millrace/abi"
)

// Plan says what a decoder takes from each record of its input.
type Plan struct {
	Fields []abi.Field // declared fields with their types; empty: untyped
	Row    []abi.Field // fields of the value, a subset of Fields; empty: the value is the input's bytes
	Key    []string    // fields of the key; empty: no key
	Whole  bool        // the value's bytes are the key
	Time   string      // field of the event time, "": none
	Unit   Unit        // of Time; the other timestamps are ms or RFC 3339 text
}

// FieldError says which field does not fit.
type FieldError struct {
	Field string
	Err   error
}

func (e *FieldError) Error() string { return fmt.Sprintf("field %q: %v", e.Field, e.Err) }
func (e *FieldError) Unwrap() error { return e.Err }

// ErrNoTime says that a record lacks its event time.
var ErrNoTime = errors.New("no event time")

// column is a wanted input field and where it goes.
type column struct {
	field abi.Field
	row   int  // place in the row, -1: none
	time  bool // the event time
	unit  Unit
	typed bool
}

// columns lists the distinct input fields of p, in the order row, key, time, and the column of each
// part of the key.
func (p *Plan) columns() (cols []column, key []int, timeAt int) {
	index := map[string]int{}
	add := func(name string) int {
		if i, ok := index[name]; ok {
			return i
		}
		c := column{field: abi.Field{Name: name}, row: -1, unit: Millis}
		if i := FieldIndex(p.Fields, name); i >= 0 {
			c.field, c.typed = p.Fields[i], true
		}
		index[name] = len(cols)
		cols = append(cols, c)
		return len(cols) - 1
	}
	for i, f := range p.Row {
		cols[add(f.Name)].row = i
	}
	for _, n := range p.Key {
		key = append(key, add(n))
	}
	timeAt = -1
	if p.Time != "" {
		timeAt = add(p.Time)
		cols[timeAt].time = true
		if p.Unit != "" {
			cols[timeAt].unit = p.Unit
		}
	}
	return cols, key, timeAt
}

// JSON decodes JSON lines.
type JSON struct {
	plan   Plan
	cols   []column
	keyAt  []int
	timeAt int
	scan   *Scanner
	vals   []Value
	row    rowBuilder
	keyBuf []byte
	part   []byte
	text   []byte
}

// NewJSON makes a decoder for p.
func NewJSON(p Plan) *JSON {
	// an empty key is a key: the buffer must not be nil
	d := &JSON{plan: p, row: newRowBuilder(len(p.Row)), keyBuf: make([]byte, 0, 64)}
	d.cols, d.keyAt, d.timeAt = p.columns()
	var names []string
	for _, c := range d.cols {
		names = append(names, c.field.Name)
	}
	if len(names) > 0 {
		d.scan, d.vals = NewScanner(names), make([]Value, len(names))
	}
	return d
}

// Decode sets the time, key and value of r from a line; key and value are borrowed until the next
// call, or alias line. ErrNullKey comes with time and value set. Other errors: *SyntaxError,
// *FieldError, ErrNoTime.
func (d *JSON) Decode(line []byte, r *abi.Record) error {
	r.Time, r.Key, r.Value = abi.NoTime, nil, line
	if d.plan.Whole {
		r.Key = line
	}
	if d.scan == nil {
		return nil
	}
	if err := d.scan.Scan(line, d.vals); err != nil {
		return err
	}
	if d.timeAt >= 0 {
		ms, err := d.timeOf(&d.vals[d.timeAt], d.cols[d.timeAt].unit)
		if err != nil {
			return &FieldError{d.cols[d.timeAt].field.Name, err}
		}
		r.Time = ms
	}
	if len(d.plan.Row) > 0 {
		d.row.reset()
		for i := range d.cols {
			if err := d.set(i, r.Time); err != nil {
				return &FieldError{d.cols[i].field.Name, err}
			}
		}
		r.Value = d.row.buf
	}
	if len(d.keyAt) > 0 {
		return d.key(r)
	}
	return nil
}

func (d *JSON) timeOf(v *Value, u Unit) (int64, error) {
	switch v.Kind {
	case Absent, Null:
		return 0, ErrNoTime
	case Number:
		return ParseTime(v.Raw, false, u)
	case String:
		return ParseTime(v.Raw, true, u)
	}
	return 0, errKind("a time", v)
}

func errKind(want string, v *Value) error {
	return fmt.Errorf("expected %s, got %q", want, clip(v.Raw))
}

// set puts column i into its place in the row.
func (d *JSON) set(i int, ms int64) error {
	c, v := &d.cols[i], &d.vals[i]
	if c.row < 0 || v.Kind == Absent || v.Kind == Null {
		return nil
	}
	switch c.field.Type {
	case abi.TypeTime:
		if !c.time {
			var err error
			if ms, err = d.timeOf(v, c.unit); err != nil {
				return err
			}
		}
		d.row.setBits(c.row, uint64(ms))
		return nil
	case abi.TypeString:
		return d.setString(c.row, v)
	case abi.TypeBytes:
		return d.setBase64(c.row, v)
	}
	bits, err := scalarBits(c.field.Type, v)
	if err != nil {
		return err
	}
	d.row.setBits(c.row, bits)
	return nil
}

func (d *JSON) setString(at int, v *Value) error {
	if v.Kind != String {
		return errKind("a string", v)
	}
	if !validText(v.Raw) {
		return errors.New("not UTF-8")
	}
	if v.Escaped {
		d.row.setText(at, v.Raw)
	} else {
		d.row.setBytes(at, v.Raw)
	}
	return nil
}

func (d *JSON) setBase64(at int, v *Value) error {
	if v.Kind != String {
		return errKind("base64 in a string", v)
	}
	d.text = AppendUnescaped(d.text[:0], v.Raw)
	b, err := base64.StdEncoding.AppendDecode(nil, d.text)
	if err != nil {
		return errKind("base64 in a string", v)
	}
	d.row.setBytes(at, b)
	return nil
}

// scalarBits converts a number or bool to its slot.
func scalarBits(t abi.FieldType, v *Value) (uint64, error) {
	switch t {
	case abi.TypeInt64:
		if v.Kind != Number {
			return 0, errKind("an integer", v)
		}
		n, err := parseInt(v.Raw)
		return uint64(n), err
	case abi.TypeFloat64:
		if v.Kind != Number {
			return 0, errKind("a number", v)
		}
		f, err := parseFloat(v.Raw)
		return math.Float64bits(f), err
	}
	switch v.Kind {
	case True:
		return 1, nil
	case False:
		return 0, nil
	}
	return 0, errKind("true or false", v)
}

// key builds the key. A part with a declared type is written as Keyer writes it of a row, so it does
// not matter whether the key is taken here or by a later key_by.
func (d *JSON) key(r *abi.Record) error {
	d.keyBuf = d.keyBuf[:0]
	for i, at := range d.keyAt {
		p, err := d.keyPart(at, r)
		if errors.Is(err, ErrNullKey) {
			return ErrNullKey
		}
		if err != nil {
			return &FieldError{d.cols[at].field.Name, err}
		}
		if len(d.keyAt) == 1 {
			d.keyBuf = append(d.keyBuf, p...)
		} else {
			d.keyBuf = appendKeyPart(d.keyBuf, p, i == 0)
		}
	}
	r.Key = d.keyBuf
	return nil
}

func (d *JSON) keyPart(at int, r *abi.Record) ([]byte, error) {
	c, v := &d.cols[at], &d.vals[at]
	if !c.typed {
		return keyText(&d.part, *v)
	}
	if v.Kind == Absent || v.Kind == Null {
		return nil, ErrNullKey
	}
	f := rowField{}
	var err error
	switch c.field.Type {
	case abi.TypeString:
		if v.Kind != String {
			return nil, errKind("a string", v)
		}
		return keyText(&d.part, *v)
	case abi.TypeBytes:
		if v.Kind != String {
			return nil, errKind("base64 in a string", v)
		}
		d.text = AppendUnescaped(d.text[:0], v.Raw)
		if f.b, err = base64.StdEncoding.AppendDecode(nil, d.text); err != nil {
			return nil, errKind("base64 in a string", v)
		}
	case abi.TypeTime:
		ms := r.Time
		if !c.time {
			ms, err = d.timeOf(v, c.unit)
		}
		f.bits = uint64(ms)
	default:
		f.bits, err = scalarBits(c.field.Type, v)
	}
	if err != nil {
		return nil, err
	}
	d.part = appendKeyField(d.part[:0], c.field.Type, f)
	return d.part, nil
}
