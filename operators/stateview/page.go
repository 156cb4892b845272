package stateview

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/millrace-io/millrace/checkpoint"
)

// Request asks a running pipeline for rows. It is serialisable.
type Request struct {
	Query
	// Live asks the running tasks, each between two of its batches, instead of the newest snapshot: what they
	// have come to, uncommitted, not at one barrier. It needs a key and a state.
	Live bool `json:"live,omitempty"`
}

// Page is what a running pipeline answers. It is serialisable.
type Page struct {
	// Snapshot whose state this is; live: the newest one there was.
	Snapshot checkpoint.ID `json:"snapshot"`
	// Consistent: the rows are those of the snapshot's barrier. Else they may be undone by a crash.
	Consistent bool              `json:"consistent"`
	Rows       []json.RawMessage `json:"rows"`
	Next       string            `json:"next,omitempty"` // After of the next page; empty: this was the last
}

// Limits of a page.
const (
	DefaultRows  = 100
	MostRows     = 1000
	mostPageSize = 4 << 20 // bytes of rows; the one that passes it is the last
)

// errFull ends a page.
var errFull = errors.New("page is full")

// Page reads one page of a query.
func (v *View) Page(ctx context.Context, q Query) (Page, error) {
	if q.Limit <= 0 {
		q.Limit = DefaultRows
	}
	q.Limit = min(q.Limit, MostRows)
	p := Page{Snapshot: v.ID(), Consistent: true, Rows: []json.RawMessage{}}
	size := 0
	next, err := v.scan(ctx, q, func(row []byte) error {
		p.Rows = append(p.Rows, append(json.RawMessage(nil), row...))
		if size += len(row); size > mostPageSize {
			return errFull
		}
		return nil
	})
	if errors.Is(err, errFull) {
		err = nil
	}
	p.Next = next
	return p, err
}
