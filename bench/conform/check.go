package main

import (
	"errors"

	"github.com/millrace-io/millrace/bench/conform/corpus"
	"github.com/millrace-io/millrace/bench/conform/drive"
)

// errNoInput says that a case's input is not at hand.
var errNoInput = errors.New("no input")

// differences are the cases that are answered differently on purpose, with the reason. Each is in
// docs/conformance.md; a test says so.
var differences = map[string]string{}

// check runs one case in the way of its kind.
func check(w *drive.World, c *corpus.Case, full bool, seed int64) (wrong []string, runs int, err error) {
	if c.Family == "flights" {
		return question(c)
	}
	if !drive.Built(c) {
		return nil, 0, drive.ErrNotBuilt
	}
	if err := c.Read(); err != nil {
		return nil, 0, err
	}
	return w.Check(c, full, seed)
}
