// Package corpus reads conformance cases: what an operator is, what goes in step by step, and what must
// come out. The format is described in docs/conformance.md.
package corpus

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Case is one case. Only the header is read of a family that nothing here drives.
type Case struct {
	ID       string `json:"id"`
	About    string `json:"about"`
	Family   string `json:"family"`
	BasedOn  string `json:"based_on"` // restore: the case it repeats
	Arguable bool   `json:"arguable"`
	Why      string `json:"why"`

	Operator   json.RawMessage `json:"operator"`
	Input      []Step          `json:"input"`
	Expected   Expected        `json:"expected"`
	SnapshotAt *int            `json:"snapshot_at"` // restore: after the first so many steps

	path string
	text []byte
	full bool
}

// Step is one step of the input: exactly one of Record, Watermark, Clock and End is set.
type Step struct {
	Input     int     `json:"input"`
	Record    *Record `json:"record"`
	Watermark *int64  `json:"watermark"`
	Clock     *int64  `json:"processing_time"` // ms; the clock starts at 0
	End       bool    `json:"end"`
	Kind      string  `json:"kind"` // of a changelog record: +I (also if empty), -U, +U, -D
}

// Record is a record of the input. TS is ms.
type Record struct {
	TS    int64           `json:"ts"`
	Key   *string         `json:"key"` // nil: none
	Value json.RawMessage `json:"value"`
}

// Orders of results.
const (
	PerStep = "per-step" // any order inside a step
	PerKey  = "per-key"  // besides, one key's results of one step in the order given
)

// Expected is what must come out.
type Expected struct {
	Order       string   `json:"order"`
	Main        []Result `json:"main"`
	Late        []Result `json:"late"`
	Timeout     []Result `json:"timeout"`
	LateDropped *int64   `json:"late_dropped"` // nil: not said
	Rejected    bool     `json:"rejected"`     // the operator's description must be refused
	FailsAfter  *int     `json:"fails_after"`  // the operator fails at that step
}

// Result is one record that came out. TS nil: it has no event time.
type Result struct {
	TS    *int64          `json:"ts"`
	Key   *string         `json:"key"`
	Value json.RawMessage `json:"value"`
	After int             `json:"after"` // number of the step during which it came out, from 0
}

// Kind is the operator's kind as the description has it; for flights and nexmark "query".
func (c *Case) Kind() string {
	var o struct {
		Kind string `json:"kind"`
	}
	_ = json.Unmarshal(c.Operator, &o) // an operator of another shape has no kind
	return o.Kind
}

// Path is the file the case was read from.
func (c *Case) Path() string { return c.path }

// As reads the case's text into a struct of another shape: cases whose input is no list of steps.
func (c *Case) As(into any) error {
	if err := json.Unmarshal(c.text, into); err != nil {
		return fmt.Errorf("%s: %w", c.path, err)
	}
	return nil
}

// header reads what every case of every family has.
func header(path string, text []byte) (*Case, error) {
	var h struct {
		ID       string          `json:"id"`
		About    string          `json:"about"`
		Family   string          `json:"family"`
		BasedOn  string          `json:"based_on"`
		Arguable bool            `json:"arguable"`
		Why      string          `json:"why"`
		Operator json.RawMessage `json:"operator"`
	}
	if err := json.Unmarshal(text, &h); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if h.ID == "" || h.Family == "" {
		return nil, fmt.Errorf("%s: a case needs an id and a family", path)
	}
	return &Case{ID: h.ID, About: h.About, Family: h.Family, BasedOn: h.BasedOn, Arguable: h.Arguable, Why: h.Why,
		Operator: h.Operator, path: path, text: text}, nil
}

// Read reads all of the case. It checks that every step is one of the kinds the format has.
func (c *Case) Read() error {
	if c.full {
		return nil
	}
	path, text := c.path, c.text
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(c); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for i, s := range c.Input {
		n := 0
		for _, is := range []bool{s.Record != nil, s.Watermark != nil, s.Clock != nil, s.End} {
			if is {
				n++
			}
		}
		if n != 1 {
			return fmt.Errorf("%s: step %d has %d of record, watermark, processing_time and end, expected one", path, i, n)
		}
	}
	if k := c.SnapshotAt; k != nil && (*k < 0 || *k > len(c.Input)) {
		return fmt.Errorf("%s: snapshot_at %d, there are %d steps", path, *k, len(c.Input))
	}
	if o := c.Expected.Order; o != "" && o != PerStep && o != PerKey {
		return fmt.Errorf("%s: order %q, expected %s or %s", path, o, PerStep, PerKey)
	}
	c.full = true
	return nil
}
