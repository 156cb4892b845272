package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"
)

// envelope is what every command prints with --json: exactly one object, on stdout.
type envelope struct {
	OK    bool     `json:"ok"`
	Data  any      `json:"data,omitempty"`
	Error *problem `json:"error,omitempty"`
}

// problem is an error in the envelope.
type problem struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Exit    int    `json:"exit"`
}

func problemOf(x *exitError) *problem {
	return &problem{Kind: x.kind, Message: x.err.Error(), Exit: x.code}
}

func writeEnvelope(w io.Writer, e envelope) {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(e)
}

// show prints data as JSON if asked for, else text.
func show(c *cli.Context, s streams, data any, text func(w io.Writer)) error {
	if c.Bool("json") {
		writeEnvelope(s.out, envelope{OK: true, Data: data})
		return nil
	}
	text(s.out)
	return nil
}

// didYouMean is a hint at the nearest name, or nothing.
func didYouMean(got string, names []string) string {
	best, at := 3, -1
	for i, n := range names {
		if d := distance(got, n); d < best {
			best, at = d, i
		}
	}
	if at < 0 {
		return ""
	}
	return fmt.Sprintf(", did you mean %q?", names[at])
}

// distance is Levenshtein's.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diag := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			diag, row[j] = row[j], min(row[j]+1, row[j-1]+1, diag+cost)
		}
	}
	return row[len(b)]
}
