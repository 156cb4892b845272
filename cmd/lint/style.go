package lint

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"strings"
)

// Lengths in lines: above the first a note, above the second a failure.
const (
	noteFile, maxFile         = 500, 800
	noteFunction, maxFunction = 70, 120
)

// vague are file names that say nothing of what is inside.
var vague = map[string]bool{"util": true, "utils": true, "helper": true, "helpers": true, "common": true, "misc": true}

// unfinished is split so that this file does not find itself.
var unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b`)

// foreign are strings that belong to some machine or service, not to the project.
var foreign = regexp.MustCompile(`(^|[\s"'(=` + "`" + `])/wo` + `rk/|proxy\.go` + `lang\.org|sum\.go` + `lang\.org|registry\.npm` + `js\.org|py` +
	`pi\.org|pythonh` + `osted\.org|static\.cra` + `tes\.io|index\.cra` + `tes\.io|deb\.deb` + `ian\.org|repo1?\.mav` + `en\.org`)

// LengthFindings checks files and functions. Test files get notes only; generated ones nothing.
func LengthFindings(t *Tree) []Finding {
	var out []Finding
	for _, f := range t.Files {
		if f.Generated || f.Syntax == nil {
			continue
		}
		if n := f.Lines(); n > noteFile {
			out = append(out, Finding{File: f.Path, Text: fmt.Sprintf("%d lines, at most %d", n, maxFile), Note: n <= maxFile || f.Test()})
		}
		for _, d := range f.Syntax.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			start := t.Fset.Position(fn.Pos()).Line
			if n := t.Fset.Position(fn.End()).Line - start + 1; n > noteFunction {
				out = append(out, Finding{File: f.Path, Line: start, Text: fmt.Sprintf("%s has %d lines, at most %d", fn.Name.Name, n, maxFunction),
					Note: n <= maxFunction || f.Test()})
			}
		}
	}
	return sorted(out)
}

// TextFindings checks names, marks of unfinished work, foreign strings and the alphabet of comments.
func TextFindings(t *Tree) []Finding {
	var out []Finding
	for _, f := range t.Files {
		base := path.Base(f.Path)
		if stem, _, _ := strings.Cut(strings.TrimSuffix(base, "_test.go"), "."); vague[stem] {
			out = append(out, Finding{File: f.Path, Text: "name the concept in it"})
		}
		if !f.Text() || base == "go.sum" || base == "Cargo.lock" {
			continue
		}
		for i, line := range strings.Split(string(f.Data), "\n") {
			if m := unfinished.FindString(line); m != "" {
				out = append(out, Finding{File: f.Path, Line: i + 1, Text: m + ": do it or open an issue"})
			}
			if m := foreign.FindString(line); m != "" {
				out = append(out, Finding{File: f.Path, Line: i + 1, Text: fmt.Sprintf("%q belongs to a machine or a service, not to the project", strings.TrimSpace(m))})
			}
			if strings.HasSuffix(base, ".rs") && strings.HasPrefix(strings.TrimSpace(line), "//") && !ascii(line) {
				out = append(out, Finding{File: f.Path, Line: i + 1, Text: "comment is not ASCII"})
			}
		}
		out = append(out, commentFindings(t, f)...)
	}
	return sorted(out)
}

func commentFindings(t *Tree, f *File) []Finding {
	var out []Finding
	if f.Syntax == nil {
		return nil
	}
	for _, group := range f.Syntax.Comments {
		for _, c := range group.List {
			if !ascii(c.Text) {
				out = append(out, Finding{File: f.Path, Line: t.Fset.Position(c.Pos()).Line, Text: "comment is not ASCII"})
			}
		}
	}
	return out
}

func ascii(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// ExampleFindings checks that each example can be read, run and compared.
func ExampleFindings(t *Tree) []Finding {
	has := map[string]map[string]bool{}
	for _, f := range t.Files {
		parts := strings.SplitN(f.Path, "/", 3)
		if parts[0] != "examples" || len(parts) < 3 {
			continue
		}
		if has[parts[1]] == nil {
			has[parts[1]] = map[string]bool{}
		}
		rest := parts[2]
		switch {
		case rest == "README.md":
			has[parts[1]]["README.md"] = true
		case !strings.Contains(rest, "/") && strings.HasPrefix(rest, "pipeline") && strings.HasSuffix(rest, ".yaml"):
			has[parts[1]]["pipeline.yaml"] = true
		case strings.HasPrefix(rest, "golden/") || strings.HasPrefix(rest, "golden."):
			has[parts[1]]["golden output"] = true
		}
	}
	var out []Finding
	for _, name := range sortedKeys(has) {
		for _, want := range []string{"README.md", "pipeline.yaml", "golden output"} {
			if !has[name][want] {
				out = append(out, Finding{File: "examples/" + name, Text: "has no " + want})
			}
		}
	}
	return out
}
