package format

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"unsafe"

	"github.com/millrace-io/millrace/abi"
)

// CSV decodes comma-separated values with a header line. An empty cell is null for every type but
// string and bytes, where it is empty. Times are numbers of the plan's unit or RFC 3339.
type CSV struct {
	a     assembler
	r     *csv.Reader
	index []int // of each column in the line
	base  int64 // offset of the reader's first byte
}

// NewCSV reads the header from src and goes on at offset (0: behind the header). size is where the
// input ends.
func NewCSV(src io.ReaderAt, size, offset int64, p Plan) (*CSV, error) {
	d := &CSV{a: newAssembler(p)}
	d.r = csv.NewReader(io.NewSectionReader(src, 0, size))
	header, err := d.r.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the header line is missing")
	}
	if err != nil {
		return nil, fmt.Errorf("header line: %w", err)
	}
	names := append([]string(nil), header...)
	names[0] = strings.TrimPrefix(names[0], "\ufeff")
	for _, c := range d.a.cols {
		at := -1
		for i, n := range names {
			if n == c.field.Name {
				at = i
			}
		}
		if at < 0 {
			return nil, fmt.Errorf("there is no column %q, the header has %s", c.field.Name, strings.Join(names, ", "))
		}
		d.index = append(d.index, at)
	}
	if offset > 0 {
		d.r = csv.NewReader(io.NewSectionReader(src, offset, size-offset))
		d.base = offset
	}
	d.r.FieldsPerRecord = len(names)
	d.r.ReuseRecord = true
	return d, nil
}

// Offset is where the next record starts.
func (d *CSV) Offset() int64 { return d.base + d.r.InputOffset() }

// Next decodes the next record; key and value are borrowed until the next call. io.EOF at the end.
// Any other error is about this record alone.
func (d *CSV) Next(r *abi.Record) error {
	rec, err := d.r.Read()
	if err != nil {
		return err
	}
	for i := range d.a.cols {
		s := rec[d.index[i]]
		cell := unsafe.Slice(unsafe.StringData(s), len(s))
		if d.a.cells[i], err = textCell(cell, d.a.cellType(i), d.a.cols[i].unit); err != nil {
			return &FieldError{d.a.cols[i].field.Name, err}
		}
	}
	return d.a.build(r)
}

// textCell reads a cell of text as a type.
func textCell(b []byte, t abi.FieldType, u Unit) (c rowField, err error) {
	switch t {
	case abi.TypeString:
		if !validText(b) {
			return c, errors.New("not UTF-8")
		}
		c.b = b
		return c, nil
	case abi.TypeBytes:
		c.b = b
		return c, nil
	}
	if len(b) == 0 {
		return rowField{null: true}, nil
	}
	switch t {
	case abi.TypeInt64:
		var n int64
		n, err = parseInt(b)
		c.bits = uint64(n)
	case abi.TypeFloat64:
		var f float64
		f, err = parseFloat(b)
		c.bits = math.Float64bits(f)
	case abi.TypeTime:
		var ms int64
		ms, err = ParseTime(b, true, u)
		c.bits = uint64(ms)
	case abi.TypeBool:
		switch string(b) {
		case "true", "True", "TRUE", "1":
			c.bits = 1
		case "false", "False", "FALSE", "0":
		default:
			err = fmt.Errorf("expected true or false, got %q", clip(b))
		}
	}
	return c, err
}
