package format

import "github.com/millrace-io/millrace/abi"

// assembler makes records of input whose fields come one by one, already typed: CSV, Parquet.
type assembler struct {
	plan   Plan
	cols   []column
	keyAt  []int
	timeAt int
	cells  []rowField // one per column, of the column's type
	row    rowBuilder
	keyBuf []byte
	part   []byte
}

func newAssembler(p Plan) assembler {
	a := assembler{plan: p, row: newRowBuilder(len(p.Row)), keyBuf: make([]byte, 0, 64)}
	a.cols, a.keyAt, a.timeAt = p.columns()
	a.cells = make([]rowField, len(a.cols))
	return a
}

// cellType is the type of column i's cells: the event time is always a timestamp here.
func (a *assembler) cellType(i int) abi.FieldType {
	if i == a.timeAt {
		return abi.TypeTime
	}
	return a.cols[i].field.Type
}

// build sets time, key and value of r from the cells; both are borrowed until the next call.
// ErrNullKey comes with time and value set.
func (a *assembler) build(r *abi.Record) error {
	r.Time, r.Key = abi.NoTime, nil
	if a.timeAt >= 0 {
		c := &a.cells[a.timeAt]
		if c.null {
			return &FieldError{a.cols[a.timeAt].field.Name, ErrNoTime}
		}
		r.Time = int64(c.bits)
	}
	a.row.reset()
	for i := range a.cols {
		c, at := &a.cells[i], a.cols[i].row
		switch {
		case at < 0 || c.null:
		case a.cols[i].field.Type == abi.TypeString || a.cols[i].field.Type == abi.TypeBytes:
			a.row.setBytes(at, c.b)
		default:
			a.row.setBits(at, c.bits)
		}
	}
	r.Value = a.row.buf
	if a.plan.Whole {
		r.Key = r.Value
	}
	return a.key(r)
}

func (a *assembler) key(r *abi.Record) error {
	if len(a.keyAt) == 0 {
		return nil
	}
	a.keyBuf = a.keyBuf[:0]
	for i, at := range a.keyAt {
		if a.cells[at].null {
			return ErrNullKey
		}
		if len(a.keyAt) == 1 {
			a.keyBuf = appendKeyField(a.keyBuf, a.cols[at].field.Type, a.cells[at])
			continue
		}
		a.part = appendKeyField(a.part[:0], a.cols[at].field.Type, a.cells[at])
		a.keyBuf = appendKeyPart(a.keyBuf, a.part, i == 0)
	}
	r.Key = a.keyBuf
	return nil
}
