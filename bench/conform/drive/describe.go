package drive

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/millrace-io/millrace/bench/conform/corpus"
)

// refusal says that an operator's description is refused, by the operator's own checks.
type refusal struct{ err error }

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// Built says whether cases of this kind can be run.
func Built(c *corpus.Case) bool {
	switch c.Kind() {
	case "timers", "window":
		return true
	}
	return false
}

// describe makes the case's operator from its description. ErrNotBuilt: there is no such operator yet.
func (w *World) describe(c *corpus.Case) (*driven, error) {
	switch c.Kind() {
	case "timers":
		return timers(c.Operator)
	case "window":
		return windows(c)
	}
	return nil, ErrNotBuilt
}

// strict reads a description in which every member must be known: one that is not would change what the
// case means.
func strict(text json.RawMessage, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("operator: %w", err)
	}
	return nil
}
