package lint

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

var (
	mdLink  = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)
	pointer = regexp.MustCompile("`([A-Za-z][\\w./-]*\\.go)(?::([A-Za-z_][\\w.]*))?`")
)

// LinkFindings checks what documents point to: relative links name files of the tree, and `folder/file.go`
// or `folder/file.go:Name` in code quotes name a file, and a name that is in it.
func LinkFindings(t *Tree) []Finding {
	files, dirs := map[string]*File{}, map[string]bool{".": true}
	for _, f := range t.Files {
		files[f.Path] = f
		for d := f.Dir(); d != "." && !dirs[d]; d = path.Dir(d) {
			dirs[d] = true
		}
	}
	var out []Finding
	for _, f := range t.Files {
		if !strings.HasSuffix(f.Path, ".md") {
			continue
		}
		for i, line := range strings.Split(string(f.Data), "\n") {
			for _, m := range mdLink.FindAllStringSubmatch(line, -1) {
				to := path.Join(f.Dir(), m[1])
				if !strings.Contains(m[1], ":") && files[to] == nil && !dirs[to] {
					out = append(out, Finding{File: f.Path, Line: i + 1, Text: fmt.Sprintf("link to %s, which is not there", m[1])})
				}
			}
			for _, m := range pointer.FindAllStringSubmatch(line, -1) {
				if text := badPointer(files, m[1], m[2]); text != "" {
					out = append(out, Finding{File: f.Path, Line: i + 1, Text: text})
				}
			}
		}
	}
	return sorted(out)
}

func badPointer(files map[string]*File, file, name string) string {
	if !strings.Contains(file, "/") {
		return "" // a name in general
	}
	to := files[file]
	if to == nil {
		return fmt.Sprintf("points to %s, which is not there", file)
	}
	last := name[strings.LastIndex(name, ".")+1:]
	if name != "" && !regexp.MustCompile(`\b`+last+`\b`).Match(to.Data) {
		return fmt.Sprintf("points to %s:%s, which does not know it", file, name)
	}
	return ""
}
