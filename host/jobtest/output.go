package jobtest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
)

// Line is one line of an envelope sink.
type Line struct {
	Key   *Bytes `json:"key"`
	Value *Bytes `json:"value"`
	Time  *int64 `json:"time"`
}

// Bytes is a key or value: text, or {"base64": ...} where it is none.
type Bytes string

// UnmarshalJSON implements json.Unmarshaler.
func (b *Bytes) UnmarshalJSON(text []byte) error {
	if text[0] != '{' {
		return json.Unmarshal(text, (*string)(b))
	}
	var raw struct {
		Base64 []byte `json:"base64"`
	}
	err := json.Unmarshal(text, &raw)
	*b = Bytes(raw.Base64)
	return err
}

// Lines is what a sink has committed: the lines of a file, or of a folder's parts in the order in which they
// were cut (by sequence, then task), which keeps the order per key also when keys move between tasks.
func (w *World) Lines(path string) []string {
	w.T.Helper()
	full := filepath.Join(w.Dir, path)
	names := []string{full}
	if strings.HasSuffix(path, "/") {
		var err error
		if names, err = filepath.Glob(filepath.Join(full, "*.ndjson")); err != nil {
			w.T.Fatal(err)
		}
		slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(sequence(a), sequence(b)), cmp.Compare(a, b)) })
	}
	var lines []string
	for _, n := range names {
		b, err := os.ReadFile(n)
		if err != nil {
			w.T.Fatal(err)
		}
		for l := range bytes.Lines(b) {
			if !bytes.HasSuffix(l, []byte("\n")) {
				w.T.Fatalf("%s ends in the middle of a line: %q", n, l)
			}
			lines = append(lines, string(l[:len(l)-1]))
		}
	}
	return lines
}

// sequence is the part's number in its name, part-TASK-SEQUENCE.ndjson.
func sequence(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), ".ndjson")
	return name[strings.LastIndexByte(name, '-')+1:]
}

// Envelopes is the committed lines of a sink with envelope: true.
func (w *World) Envelopes(path string) []Line {
	w.T.Helper()
	var out []Line
	for _, l := range w.Lines(path) {
		var e Line
		if err := json.Unmarshal([]byte(l), &e); err != nil {
			w.T.Fatalf("line %q: %v", l, err)
		}
		out = append(out, e)
	}
	return out
}

// Values is the values of a sink's envelopes for one key ("<null>": without a key), in order.
func (w *World) Values(path, key string) []string {
	w.T.Helper()
	var out []string
	for _, e := range w.Envelopes(path) {
		if e.Key == nil && key == "<null>" || e.Key != nil && string(*e.Key) == key {
			if e.Value == nil {
				out = append(out, "<null>")
			} else {
				out = append(out, string(*e.Value))
			}
		}
	}
	return out
}

// ByKey is the committed lines sorted stably by their key: what must be the same however the job was run.
func (w *World) ByKey(path string) string {
	w.T.Helper()
	lines := w.Lines(path)
	slices.SortStableFunc(lines, func(a, b string) int { return cmp.Compare(keyOf(a), keyOf(b)) })
	return strings.Join(lines, "\n")
}

// keyOf is the text of a line's "key" field, as it is in an envelope or a dead letter.
func keyOf(line string) string {
	i := strings.Index(line, `"key":`)
	if i < 0 {
		return ""
	}
	rest := line[i+len(`"key":`):]
	for j := 1; j < len(rest); j++ {
		switch rest[j] {
		case '\\':
			j++
		case '"':
			return rest[:j]
		}
	}
	return rest
}

// Diff is where two outputs differ first, for people; "" if they don't.
func Diff(got, want string) string {
	if got == want {
		return ""
	}
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	i := 0
	for i < len(g) && i < len(w) && g[i] == w[i] {
		i++
	}
	at := func(s []string) string {
		if i < len(s) {
			return s[i]
		}
		return "<end>"
	}
	return "line " + strconv.Itoa(i+1) + " of " + strconv.Itoa(len(g)) + " (expected " + strconv.Itoa(len(w)) + "): got\n  " + at(g) + "\nexpected\n  " + at(w)
}

// latest is the newest complete checkpoint of the job, which may run.
func (w *World) latest() *checkpoint.Manifest {
	w.T.Helper()
	s, err := snapstore.Open(filepath.Join(w.StateDir(), "snapshots"), snapstore.Options{ReadOnly: true})
	if err != nil {
		w.T.Fatal(err)
	}
	defer s.Close()
	m, err := s.Latest(context.Background())
	if err != nil {
		w.T.Fatal(err)
	}
	return m
}
