package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// count reads the published files and finds what was lost or doubled: of each card the numbers 1, 2, 3 ...
// must be there once each, and all of them together must be as many as payments were made.
func (q *quickstart) count(dir string) error {
	parts, err := filepath.Glob(filepath.Join(dir, "*.ndjson"))
	if err != nil {
		return err
	}
	seen := map[string]map[int64]int64{}
	for _, p := range parts {
		if err := countPart(p, seen); err != nil {
			return err
		}
	}
	r := &q.result
	distinct := int64(0)
	for _, numbers := range seen {
		for _, times := range numbers {
			r.Counted += times
			r.Doubled += times - 1
			distinct++
		}
	}
	r.Lost = r.Payments - distinct
	return nil
}

func countPart(path string, seen map[string]map[int64]int64) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		var x struct {
			Word  string `json:"word"`
			Count int64  `json:"count"`
		}
		if err := json.Unmarshal(lines.Bytes(), &x); err != nil || x.Count < 1 {
			return fmt.Errorf("%s:%d: not a count: %q", path, n, lines.Text())
		}
		if seen[x.Word] == nil {
			seen[x.Word] = map[int64]int64{}
		}
		seen[x.Word][x.Count]++
	}
	return lines.Err()
}
