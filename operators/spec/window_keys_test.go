package spec

import (
	"slices"
	"testing"
)

// Windows over the results of windows have the bounds in their key, and each column once.
func TestBoundsInTheKeyAreThereOnce(t *testing.T) {
	for key, want := range map[string][]string{
		"[window_start, window_end]": {"window_start", "window_end", "busiest"},
		"window_end":                 {"window_end", "busiest"},
		"origin":                     {"origin", "window_start", "window_end", "busiest"},
	} {
		g, err := Parse("w.yaml", []byte(`name: w
operators:
  - {id: in, source: file, path: in.ndjson, format: ndjson, fields: {origin: string, at: timestamp}, time: {field: at}}
  - {id: by-origin, key_by: origin}
  - {id: daily, window: {type: tumbling, size: 24h}, aggregates: {flights: count}}
  - {id: again, key_by: `+key+`}
  - {id: top, window: {type: tumbling, size: 24h}, aggregates: {busiest: {top: {by: flights, n: 3}}}}
  - {id: out, sink: blackhole}
`), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := fieldNames(find(g, "top").Schema); !slices.Equal(got, want) {
			t.Errorf("key %s: %q, want %q", key, got, want)
		}
	}
}
