// Package lint holds the rules of the tree: which folder may import what and which calls it may make,
// each with its reason, and the rules of style. They run as Go tests.
package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"sort"
	"strings"
)

// Module is the path of the root module.
const Module = "github.com/millrace-io/millrace"

// Finding is one place that breaks a rule. A note does not fail the test.
type Finding struct {
	File string // slash-separated, relative to the root
	Line int    // 0: the whole file
	Text string
	Note bool
}

// String is the finding as file:line: text.
func (f Finding) String() string {
	if f.Line == 0 {
		return fmt.Sprintf("%s: %s", f.File, f.Text)
	}
	return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Text)
}

// File is one file of the tree; Syntax is nil unless it is Go.
type File struct {
	Path      string
	Data      []byte
	Syntax    *ast.File
	Generated bool
}

// Dir is the folder of the file.
func (f *File) Dir() string { return path.Dir(f.Path) }

// Test says whether it is a Go test file.
func (f *File) Test() bool { return strings.HasSuffix(f.Path, "_test.go") }

// Tree is the files that belong to the project.
type Tree struct {
	Files []*File
	Fset  *token.FileSet
}

// skipped are folders that hold build output or another program's data.
var skipped = map[string]bool{
	".git": true, ".millrace": true, ".build": true, ".task": true, "bin": true, "target": true, "node_modules": true,
	"tmp": true, "testdata": true, "fuzz": true,
}

var generated = regexp.MustCompile(`(?m)^(//|#|<!--) ?Code generated .* DO NOT EDIT\.`)

// Load reads a tree. A Go file that does not parse is an error: no rule could see it.
func Load(root fs.FS) (*Tree, error) {
	t := &Tree{Fset: token.NewFileSet()}
	err := fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && p != "." && skipped[d.Name()]:
			return fs.SkipDir
		case d.IsDir() || !d.Type().IsRegular():
			return nil
		}
		f, err := t.read(root, p)
		if err != nil {
			return err
		}
		t.Files = append(t.Files, f)
		return nil
	})
	return t, err
}

func (t *Tree) read(root fs.FS, p string) (*File, error) {
	data, err := fs.ReadFile(root, p)
	if err != nil {
		return nil, err
	}
	f := &File{Path: p, Data: data, Generated: generated.Match(data)}
	if strings.HasSuffix(p, ".go") {
		f.Syntax, err = parser.ParseFile(t.Fset, p, data, parser.ParseComments|parser.SkipObjectResolution)
	}
	return f, err
}

// Text says whether the file is text: no NUL in its first 8 KiB.
func (f *File) Text() bool {
	return bytes.IndexByte(f.Data[:min(len(f.Data), 8<<10)], 0) < 0
}

// Lines is the number of lines.
func (f *File) Lines() int { return bytes.Count(f.Data, []byte("\n")) }

// under says whether dir is folder or inside it.
func under(dir, folder string) bool {
	return dir == folder || strings.HasPrefix(dir, folder+"/")
}

// place is a folder (or, with a dot in its last part, a file) where a rule does not hold, and why.
type place struct{ where, reason string }

func allowed(places []place, f *File) bool {
	for _, p := range places {
		if f.Path == p.where || under(f.Dir(), p.where) {
			return true
		}
	}
	return false
}

func sorted(fs []Finding) []Finding {
	sort.SliceStable(fs, func(i, j int) bool { return fs[i].File < fs[j].File })
	return fs
}
