package lint

import (
	"go/ast"
	"go/token"
	"strings"
)

// obvious are methods whose meaning an interface everybody knows fixes.
var obvious = map[string]bool{
	"Error": true, "String": true, "Unwrap": true, "Is": true, "Close": true, "Read": true, "Write": true, "Len": true, "Less": true, "Swap": true,
	"Push": true, "Pop": true, "MarshalJSON": true, "UnmarshalJSON": true, "MarshalYAML": true, "UnmarshalYAML": true, "ServeHTTP": true,
}

// DocFindings checks that every public identifier says what it is and every package what it is for.
// Programs, tests and generated files are exempt.
//
// A method needs no comment of its own where an interface of the tree has a method of that name: what
// it promises is said there.
func DocFindings(t *Tree) []Finding {
	var out []Finding
	promised := interfaceMethods(t)
	documented, first := map[string]bool{}, map[string]*File{}
	for _, f := range t.Files {
		if f.Syntax == nil || f.Test() || f.Generated || underAny(f, "guests", "examples") {
			continue
		}
		if f.Syntax.Doc != nil {
			documented[f.Dir()] = true
		} else if first[f.Dir()] == nil {
			first[f.Dir()] = f
		}
		if f.Syntax.Name.Name == "main" {
			continue
		}
		for _, d := range f.Syntax.Decls {
			out = append(out, undocumented(t, f, d, promised)...)
		}
	}
	for _, dir := range sortedKeys(first) {
		if !documented[dir] {
			out = append(out, Finding{File: first[dir].Path, Text: "the package has no comment"})
		}
	}
	return sorted(out)
}

func undocumented(t *Tree, f *File, d ast.Decl, promised map[string]bool) []Finding {
	var out []Finding
	miss := func(id *ast.Ident) {
		out = append(out, Finding{File: f.Path, Line: t.Fset.Position(id.Pos()).Line, Text: id.Name + " has no comment"})
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Doc == nil && d.Name.IsExported() && publicReceiver(d) && !(d.Recv != nil && (obvious[d.Name.Name] || promised[d.Name.Name])) {
			miss(d.Name)
		}
	case *ast.GenDecl:
		if d.Tok == token.IMPORT || d.Doc != nil {
			return nil
		}
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				if s.Doc == nil && s.Comment == nil && s.Name.IsExported() {
					miss(s.Name)
				}
			case *ast.ValueSpec:
				if s.Doc == nil && s.Comment == nil && s.Names[0].IsExported() {
					miss(s.Names[0])
				}
			}
		}
	}
	return out
}

func publicReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return true
	}
	e := d.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.IsExported() && !strings.HasPrefix(x.Name, "_")
		default:
			return false
		}
	}
}

func interfaceMethods(t *Tree) map[string]bool {
	names := map[string]bool{}
	for _, f := range t.Files {
		if f.Syntax == nil || f.Test() {
			continue
		}
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			if i, ok := n.(*ast.InterfaceType); ok {
				for _, m := range i.Methods.List {
					for _, id := range m.Names {
						names[id.Name] = true
					}
				}
			}
			return true
		})
	}
	return names
}
