package stateview

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"

	"github.com/millrace-io/millrace/checkpoint/snapread"
)

// Formats of Export.
const (
	FormatNDJSON  = "ndjson"
	FormatParquet = "parquet"
)

// Exported says what an export wrote.
type Exported struct {
	Rows int64 `json:"rows"`
}

// Export writes the rows of a query to w, as they are read. The same snapshot gives the same bytes.
func (v *View) Export(ctx context.Context, q Query, format string, w io.Writer) (Exported, error) {
	switch format {
	case FormatNDJSON:
		return v.exportLines(ctx, q, w)
	case FormatParquet:
		return v.exportParquet(ctx, q, w)
	}
	return Exported{}, fmt.Errorf("%w: format %q, expected %s or %s", ErrQuery, format, FormatNDJSON, FormatParquet)
}

func (v *View) exportLines(ctx context.Context, q Query, w io.Writer) (x Exported, err error) {
	out := bufio.NewWriterSize(w, 256<<10)
	if _, err = v.Scan(ctx, q, func(row []byte) error {
		x.Rows++
		if _, err := out.Write(row); err != nil {
			return err
		}
		return out.WriteByte('\n')
	}); err != nil {
		return x, err
	}
	return x, out.Flush()
}

// ParquetRow is the schema of a Parquet export. Key, Entry and Value are JSON text, as in rows; the raw columns
// are the bytes.
type ParquetRow struct {
	Operator string  `parquet:"operator,dict"`
	State    string  `parquet:"state,dict"`
	Slot     int32   `parquet:"slot"`
	Key      string  `parquet:"key"`
	RawKey   []byte  `parquet:"raw_key"`
	Entry    *string `parquet:"entry,optional"` // of maps; of lists the index
	RawEntry []byte  `parquet:"raw_entry,optional"`
	Value    *string `parquet:"value,optional"`
	RawValue []byte  `parquet:"raw_value,optional"`
	Domain   *string `parquet:"timer_domain,optional"`
	Timer    []byte  `parquet:"timer_name,optional"`
	At       *int64  `parquet:"timer_at,optional,timestamp(millisecond)"`
	Expires  *int64  `parquet:"expires,optional,timestamp(millisecond)"`
	Problem  *string `parquet:"problem,optional"`
}

const (
	parquetBuffer = 1024
	parquetGroup  = 1 << 17 // rows
)

func (v *View) exportParquet(ctx context.Context, q Query, w io.Writer) (x Exported, err error) {
	out := parquet.NewGenericWriter[ParquetRow](w, parquet.Compression(&parquet.Zstd), parquet.CreatedBy("millrace", "1", "state export"),
		parquet.MaxRowsPerRowGroup(parquetGroup))
	states, err := v.match(q)
	if err != nil {
		return x, err
	}
	buf := make([]ParquetRow, 0, parquetBuffer)
	flush := func() error {
		_, err := out.Write(buf)
		buf = buf[:0]
		return err
	}
	walk := walk{v: v, q: q, left: q.Limit}
	for _, s := range states {
		next, err := walk.state(ctx, s, nil, func(d *decoder, e *snapread.Entry) error {
			x.Rows++
			r, err := d.parquetRow(e)
			if buf = append(buf, r); err == nil && len(buf) == cap(buf) {
				err = flush()
			}
			return err
		})
		if err != nil {
			return x, err
		}
		if next != "" {
			break
		}
	}
	if err := flush(); err != nil {
		return x, err
	}
	return x, out.Close()
}

func (d *decoder) parquetRow(e *snapread.Entry) (ParquetRow, error) {
	r := ParquetRow{Operator: d.state.Operator, State: d.state.Name, Slot: int32(e.Slot()), RawKey: keep(e.Key)}
	var f struct {
		Key, Entry, Value json.RawMessage
		Index             *uint64
		Problem           *string
	}
	if err := json.Unmarshal(d.appendRow(nil, e, false), &f); err != nil {
		return r, fmt.Errorf("state %s.%s: %w", d.state.Operator, d.state.Name, err)
	}
	text := func(j json.RawMessage) *string {
		if j == nil {
			return nil
		}
		s := string(j)
		return &s
	}
	r.Key, r.Entry, r.Value, r.Problem = string(f.Key), text(f.Entry), text(f.Value), f.Problem
	if f.Index != nil {
		s := fmt.Sprint(*f.Index)
		r.Entry = &s
	}
	if at, ok := d.expiry(e); ok {
		r.Expires = &at
	}
	if t := e.Timer; t != nil {
		domain, at := domains[t.Domain], t.At
		r.Domain, r.Timer, r.At = &domain, keep(t.Name), &at
		return r, nil
	}
	r.RawValue = keep(e.Value)
	if d.state.Kind != "value" {
		r.RawEntry = keep(e.UserKey)
	}
	return r, nil
}

// keep copies what is good for a call only; never nil, so that what is empty is not taken for absent.
func keep(b []byte) []byte { return append(make([]byte, 0, len(b)), b...) }
