package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestReadmeIsUpToDate(t *testing.T) {
	want, got, err := run("../..")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		t.Error("sdk/README.md is out of date: go run ./sdk/gen")
	}
}

// Every name of the table exists in its SDK.
func TestNamesExist(t *testing.T) {
	groups, err := parity("../..")
	if err != nil {
		t.Fatal(err)
	}
	rust, golang := rustNames(t), goNames(t)
	span := regexp.MustCompile("`([^`]+)`")
	words := map[string]bool{"bool": true, "Result<bool>": true, "Err": true, "error": true, "input": true, "output": true}
	n := 0
	for _, g := range groups {
		for _, r := range g.Rows {
			for _, m := range span.FindAllStringSubmatch(r[1], -1) {
				if name := m[1]; !words[name] && !rust[name] {
					t.Errorf("%s: Rust has no %s", r[0], name)
				}
				n++
			}
			for _, m := range span.FindAllStringSubmatch(r[2], -1) {
				if name := m[1]; !words[name] && !golang[name] {
					t.Errorf("%s: Go has no %s", r[0], name)
				}
			}
		}
	}
	if n < 50 {
		t.Errorf("%d names in the table, is it read?", n)
	}
}

// rustNames are public items: types, traits, macros, and Type::method of inherent impls.
func rustNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	item := regexp.MustCompile(`^(?:pub (?:struct|enum|trait)|macro_rules!) (\w+)`)
	impl := regexp.MustCompile(`^impl(?:<.*?>)? (\w+)`)
	method := regexp.MustCompile(`^    pub (?:const )?fn (\w+)`)
	err := filepath.WalkDir("../rust/src", func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(p, ".rs") {
			return err
		}
		b, err := os.ReadFile(p)
		of := ""
		for _, line := range strings.Split(string(b), "\n") {
			if m := item.FindStringSubmatch(line); m != nil {
				names[m[1]] = true
			}
			if m := impl.FindStringSubmatch(line); m != nil {
				of = m[1]
			}
			if m := method.FindStringSubmatch(line); m != nil {
				names[of+"::"+m[1]] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// goNames are exported names: Name, Type.Method and Type.Field.
func goNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	paths, err := filepath.Glob("../go/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		f, err := parser.ParseFile(token.NewFileSet(), p, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				name := d.Name.Name
				if d.Recv != nil {
					name = receiver(d.Recv.List[0].Type) + "." + name
				}
				names[name] = true
			case *ast.GenDecl:
				for _, s := range d.Specs {
					addSpec(names, s)
				}
			}
		}
	}
	return names
}

func addSpec(names map[string]bool, s ast.Spec) {
	switch s := s.(type) {
	case *ast.ValueSpec:
		for _, n := range s.Names {
			names[n.Name] = true
		}
	case *ast.TypeSpec:
		names[s.Name.Name] = true
		if st, ok := s.Type.(*ast.StructType); ok {
			for _, f := range st.Fields.List {
				for _, n := range f.Names {
					names[s.Name.Name+"."+n.Name] = true
				}
			}
		}
	}
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
