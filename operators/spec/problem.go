// Package spec reads pipeline files: YAML in, a checked job graph or all problems at once out. One table
// (table.go) says what may stand where; the reader and the JSON Schema both come from it.
package spec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing wrong in a pipeline file.
type Problem struct {
	File    string `json:"file"`
	Line    int    `json:"line"`           // from 1; 0: the file as a whole
	Path    string `json:"path,omitempty"` // where in the tree: operators[2].key_by
	Message string `json:"message"`        // what is wrong and what was expected
	Hint    string `json:"hint,omitempty"` // what may have been meant, or what to do
}

func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
	}
	b.WriteString(": ")
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Message)
	if p.Hint != "" {
		b.WriteString(" (" + p.Hint + ")")
	}
	return b.String()
}

// Problems is every problem of a pipeline file, in the order of lines. It is the error of Parse.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

func (ps Problems) sorted() Problems {
	slices.SortStableFunc(ps, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	return slices.Compact(ps)
}

// nearest is a hint that names the known names closest to name: at most a third of it differs.
func nearest(name string, known []string) string {
	best, found := max(1, len(name)/3), ""
	for _, k := range known {
		if d := distance(strings.ToLower(name), strings.ToLower(k)); d <= best && (found == "" || d < best) {
			best, found = d, k
		}
	}
	if found == "" {
		return ""
	}
	return fmt.Sprintf("did you mean %q?", found)
}

// distance is the Levenshtein distance, a swap of neighbours counting as one.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	var rows [3][65]int
	for j := 0; j <= len(b); j++ {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur, prev, older := &rows[i%3], &rows[(i+2)%3], &rows[(i+1)%3]
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], older[j-2]+1)
			}
		}
	}
	return rows[len(a)%3][len(b)]
}

// oneOf lists names for a message, cut off where there are many.
func oneOf(names []string) string {
	if len(names) > 12 {
		return strings.Join(names[:12], ", ") + ", ..."
	}
	return strings.Join(names, ", ")
}
