package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// tally counts what trials did and what was wrong with their output.
type tally struct {
	Swaps, Scales, Canaries, TakenBack, Refused, Migrated, RolledBack, Kills int
	Records                                                                  int
	Lost, Doubled, Reordered, Versions                                       int
	Failures                                                                 []string
}

func (t *tally) wrong() bool {
	return t.Lost+t.Doubled+t.Reordered+t.Versions+len(t.Failures) > 0
}

func (t *tally) add(o *tally) {
	t.Swaps += o.Swaps
	t.Scales += o.Scales
	t.Canaries += o.Canaries
	t.TakenBack += o.TakenBack
	t.Refused += o.Refused
	t.Migrated += o.Migrated
	t.RolledBack += o.RolledBack
	t.Kills += o.Kills
	t.Records += o.Records
	t.Lost += o.Lost
	t.Doubled += o.Doubled
	t.Reordered += o.Reordered
	t.Versions += o.Versions
	t.Failures = append(t.Failures, o.Failures...)
}

// parts are the published files in the order in which they were cut: by sequence, then task.
func parts(dir string) ([]string, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.ndjson"))
	sequence := func(p string) string {
		n := strings.TrimSuffix(filepath.Base(p), ".ndjson")
		return n[strings.LastIndexByte(n, '-')+1:]
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(sequence(a), sequence(b)), cmp.Compare(a, b)) })
	return names, err
}

// published counts the published lines.
func published(dir string) (n int, err error) {
	names, err := parts(dir)
	if err != nil {
		return 0, err
	}
	for _, p := range names {
		b, err := os.ReadFile(p)
		if err != nil {
			return 0, err
		}
		n += bytes.Count(b, []byte("\n"))
	}
	return n, nil
}

// line is one output.
type line struct {
	Key string
	N   uint64
	Xor uint64 // of all n of the key so far, by the pipeline's state
	Tag string // v and the version's number
}

// check holds the output against the records sent: record i of key k has number i*keys+k. order makes, for a key,
// what says whether a version may come next.
func (t *tally) check(dir string, sent, keys int, order func(key string) func(tag string) bool) error {
	names, err := parts(dir)
	if err != nil {
		return err
	}
	byKey := map[string][]line{}
	for _, p := range names {
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		for s := range bytes.Lines(b) {
			var l line
			if err := json.Unmarshal(s, &l); err != nil {
				return fmt.Errorf("%s: line %q: %w", p, s, err)
			}
			byKey[l.Key] = append(byKey[l.Key], l)
			t.Records++
		}
	}
	for k := range keys {
		key := fmt.Sprintf("k%d", k)
		t.checkKey(byKey[key], k, sent, keys, order(key))
	}
	return nil
}

// rising lets good versions follow each other by their numbers.
func rising(good map[string]bool) func(string) func(string) bool {
	return func(string) func(string) bool {
		version := 0
		return func(tag string) bool {
			v, err := strconv.Atoi(strings.TrimPrefix(tag, "v"))
			ok := err == nil && v >= version && good[tag]
			version = v
			return ok
		}
	}
}

// checkKey holds one key's outputs against its records.
func (t *tally) checkKey(ls []line, k, sent, keys int, follows func(tag string) bool) {
	want := 0
	if sent > k {
		want = (sent - k + keys - 1) / keys
	}
	seen := map[uint64]int{}
	xor, at := uint64(0), -1
	for _, l := range ls {
		if seen[l.N]++; seen[l.N] > 1 {
			t.Doubled++
			continue
		}
		if int(l.N) < at {
			t.Reordered++
		}
		at = int(l.N)
		if xor ^= l.N; xor != l.Xor {
			t.Reordered++ // the state had seen others before, or in another order
			xor = l.Xor
		}
		if !follows(l.Tag) {
			t.Versions++
		}
	}
	t.Lost += max(0, want-len(seen))
}
