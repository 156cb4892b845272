package format

import (
	"fmt"

	"github.com/millrace-io/millrace/abi"
)

// Projector makes rows of one schema out of rows of another that has all its fields, in any order.
type Projector struct {
	from []abi.Field
	at   []int // in from, of each field wanted
	to   []abi.Field
	row  rowBuilder
	same bool
}

// NewProjector matches fields by name. Errors: a field is missing or of another type.
func NewProjector(from, to []abi.Field) (*Projector, error) {
	p := &Projector{from: from, to: to, row: newRowBuilder(len(to)), same: len(from) == len(to)}
	for i, f := range to {
		at := FieldIndex(from, f.Name)
		if at < 0 {
			return nil, fmt.Errorf("there is no field %q", f.Name)
		}
		if from[at].Type != f.Type {
			return nil, fmt.Errorf("field %q is a %s, expected a %s", f.Name, from[at].Type, f.Type)
		}
		p.at = append(p.at, at)
		p.same = p.same && at == i
	}
	return p, nil
}

// Same says that both schemas are one, so that rows need no projection.
func (p *Projector) Same() bool { return p.same }

// Row is the projection of a row, borrowed until the next call. The error is about a malformed row.
func (p *Projector) Row(row []byte) ([]byte, error) {
	if p.same {
		return row, nil
	}
	p.row.reset()
	for i, at := range p.at {
		f, err := readField(row, p.to[i].Type, at, len(p.from))
		switch {
		case err != nil:
			return nil, err
		case f.null:
		case p.to[i].Type == abi.TypeString || p.to[i].Type == abi.TypeBytes:
			p.row.setBytes(i, f.b)
		default:
			p.row.setBits(i, f.bits)
		}
	}
	return p.row.buf, nil
}
