package format

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/millrace-io/millrace/abi"
)

// Parquet decodes rows of a Parquet file, reading only the columns in use, page by page. Nested and
// repeated columns can't be read.
type Parquet struct {
	a     assembler
	file  *parquet.File
	cols  []pqColumn
	group int   // row group being read
	left  int64 // rows left in it
	row   int64 // next row in the file
}

// pqColumn walks one column through the row groups.
type pqColumn struct {
	leaf  int
	conv  func(parquet.Value) (rowField, error)
	pages parquet.Pages
	page  parquet.Page
	vals  parquet.ValueReader
	buf   [128]parquet.Value
	i, n  int
}

// NewParquet opens a file of size bytes and goes on at row.
func NewParquet(src io.ReaderAt, size, row int64, p Plan) (d *Parquet, err error) {
	defer guard(&err)
	f, err := parquet.OpenFile(src, size, parquet.SkipBloomFilters(true), parquet.SkipPageIndex(true))
	if err != nil {
		return nil, fmt.Errorf("not a Parquet file: %w", err)
	}
	d = &Parquet{a: newAssembler(p), file: f, cols: nil, group: -1}
	d.cols = make([]pqColumn, len(d.a.cols))
	for i := range d.a.cols {
		name := d.a.cols[i].field.Name
		leaf, ok := f.Schema().Lookup(name)
		if !ok {
			return nil, fmt.Errorf("there is no column %q, the file has %s", name, columnNames(f.Schema()))
		}
		if leaf.MaxRepetitionLevel > 0 {
			return nil, fmt.Errorf("column %q is repeated; only flat columns can be read", name)
		}
		d.cols[i].leaf = leaf.ColumnIndex
		if d.cols[i].conv, err = parquetCell(leaf.Node.Type(), d.a.cellType(i), d.a.cols[i].unit); err != nil {
			return nil, fmt.Errorf("column %q: %w", name, err)
		}
	}
	return d, d.seek(row)
}

func columnNames(s *parquet.Schema) string {
	var names []string
	for _, f := range s.Fields() {
		names = append(names, f.Name())
	}
	return strings.Join(names, ", ")
}

// guard turns a panic of the library on a malformed file into an error.
func guard(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("malformed Parquet file: %v", p)
	}
}

func (d *Parquet) seek(row int64) error {
	d.row = 0
	for g, rg := range d.file.RowGroups() {
		if row < d.row+rg.NumRows() {
			return d.open(g, row-d.row)
		}
		d.row += rg.NumRows()
	}
	if row > d.row {
		return fmt.Errorf("the file has %d rows, it was read up to row %d", d.row, row)
	}
	d.group = len(d.file.RowGroups())
	return nil
}

// open starts row group g at its row `at`.
func (d *Parquet) open(g int, at int64) error {
	d.closePages()
	d.group = g
	rg := d.file.RowGroups()[g]
	d.left = rg.NumRows() - at
	d.row += at
	for i := range d.cols {
		c := &d.cols[i]
		c.pages = rg.ColumnChunks()[c.leaf].Pages()
		if at > 0 {
			if err := c.pages.SeekToRow(at); err != nil {
				return err
			}
		}
	}
	return nil
}

// Row is the number of the next row, from 0.
func (d *Parquet) Row() int64 { return d.row }

// ErrFile marks errors of Parquet.Next that are about the file, not about one row.
var ErrFile = errors.New("unreadable Parquet file")

// Next decodes the next row; key and value are borrowed until the next call. io.EOF at the end. Errors
// without ErrFile are about this row alone.
func (d *Parquet) Next(r *abi.Record) (err error) {
	for d.left == 0 {
		if d.group+1 >= len(d.file.RowGroups()) {
			return io.EOF
		}
		if err := d.next(); err != nil {
			return fmt.Errorf("%w: %w", ErrFile, err)
		}
	}
	var bad error
	for i := range d.cols {
		c := &d.cols[i]
		if c.i == c.n {
			if err := c.fill(); err != nil {
				return fmt.Errorf("%w: row %d, column %q: %w", ErrFile, d.row+1, d.a.cols[i].field.Name, err)
			}
		}
		v := c.buf[c.i]
		c.i++
		if v.IsNull() {
			d.a.cells[i] = rowField{null: true}
			continue
		}
		if d.a.cells[i], err = c.conv(v); err != nil && bad == nil {
			bad = &FieldError{d.a.cols[i].field.Name, err}
		}
	}
	d.row++
	d.left--
	if bad != nil {
		return bad
	}
	return d.a.build(r)
}

func (d *Parquet) next() (err error) {
	defer guard(&err)
	return d.open(d.group+1, 0)
}

// fill reads the next values of a column.
func (c *pqColumn) fill() (err error) {
	defer guard(&err)
	for {
		if c.vals != nil {
			n, err := c.vals.ReadValues(c.buf[:])
			if n > 0 {
				c.i, c.n = 0, n
				return nil
			}
			if err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			c.release()
		}
		page, err := c.pages.ReadPage()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		c.page, c.vals = page, page.Values()
	}
}

func (c *pqColumn) release() {
	if c.page != nil {
		parquet.Release(c.page)
	}
	c.page, c.vals, c.i, c.n = nil, nil, 0, 0
}

func (d *Parquet) closePages() {
	for i := range d.cols {
		c := &d.cols[i]
		c.release()
		if c.pages != nil {
			c.pages.Close()
			c.pages = nil
		}
	}
}

// Close frees the pages.
func (d *Parquet) Close() error {
	d.closePages()
	return nil
}
