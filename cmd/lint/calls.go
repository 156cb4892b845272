package lint

import (
	"fmt"
	"go/ast"
	"strconv"
	"strings"
)

// ban is a set of functions of a package that only some places may use, and what to use elsewhere.
// Test files and packages of test support are free: there time, chance and disk are made.
type ban struct {
	pkg     string
	names   string // separated by blanks
	instead string
	except  []place
}

var programs = []place{
	{"cmd", "a command is where the outside world is bound to seams"},
	{"bench", "measures"},
	{"abi/gen", "a generator is a program"},
	{"guests", "build programs and guests"},
	{"examples", "guests and their input makers"},
}

var bans = []ban{
	{"time", "Now Since Until", "the injected clock (host/clock)", append([]place{
		{"host/clock", "the one place that reads the wall clock"},
	}, programs...)},
	{"math/rand", randGlobals, "a generator seeded by the caller", nil},
	{"math/rand/v2", randGlobals, "a generator seeded by the caller", nil},
	{"os", "Open Create OpenFile ReadFile WriteFile Rename Remove RemoveAll Mkdir MkdirAll MkdirTemp CreateTemp ReadDir Truncate Link Symlink Stat Lstat",
		"the injected disk, or one of the folders that own files", append([]place{
			{"state", "owns run files through state/disk.go"},
			{"checkpoint", "owns the snapshot store"},
			{"operators", "file connectors and the modules' paths"},
			{"host/engine", "compiled code is cached on disk"},
			{"host/modcheck", "notes beside compiled code what was checked, and has folders for the state of trials"},
			{"host/job", "owns the state folder and its lock"},
			{"host/replay", "owns the folders of replays, and reads what a job has published"},
			{"host/record", "reads recorded inputs by offset, and beside sources"},
			{"host/control", "owns the control socket in it"},
			{"host/worker", "owns a worker's folders"},
		}, programs...)},
	{"os", "Exit", "an error: only a program decides to end", append([]place{
		{"checkpoint/crashpoint", "a run that can't crash as asked must not look like a pass"},
	}, programs...)},
	{"os", "Getenv LookupEnv Environ", "configuration passed by the caller", append([]place{
		{"checkpoint/crashpoint", "crash builds are driven by the environment"},
	}, programs...)},
	{"log", "Print Printf Println Fatal Fatalf Fatalln Panic Panicf Panicln", "the slog.Logger of the context", programs},
	{"fmt", "Print Printf Println", "a writer passed by the caller: standard output is data", programs},
}

const randGlobals = "Int Intn IntN Int31 Int31n Int32 Int32N Int63 Int63n Int64 Int64N Uint32 Uint32N Uint64 Uint64N UintN Float32 Float64 ExpFloat64 NormFloat64 Perm Shuffle N Read Seed"

// CallFindings checks the bans.
func CallFindings(t *Tree) []Finding {
	var out []Finding
	for _, f := range t.Files {
		if f.Syntax == nil || f.Test() || support(f) || underAny(f, "sdk") {
			continue
		}
		for _, b := range bans {
			name := importName(f.Syntax, b.pkg)
			if name == "" || allowed(b.except, f) {
				continue
			}
			out = append(out, banned(t, f, b, name)...)
		}
	}
	return sorted(out)
}

// support says whether the file is of a package that only tests use, by its name: statetest, enginetest.
func support(f *File) bool { return strings.HasSuffix(f.Dir(), "test") }

func underAny(f *File, folders ...string) bool { return inAny(f.Dir(), folders) }

func banned(t *Tree, f *File, b ban, name string) []Finding {
	var out []Finding
	names := " " + b.names + " "
	ast.Inspect(f.Syntax, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := s.X.(*ast.Ident); ok && x.Name == name && strings.Contains(names, " "+s.Sel.Name+" ") {
			out = append(out, Finding{File: f.Path, Line: t.Fset.Position(s.Pos()).Line,
				Text: fmt.Sprintf("uses %s.%s, expected %s", b.pkg, s.Sel.Name, b.instead)})
		}
		return true
	})
	return out
}

// importName is the name under which a file knows a package; empty if it does not import it.
func importName(f *ast.File, pkg string) string {
	for _, spec := range f.Imports {
		p, _ := strconv.Unquote(spec.Path.Value)
		if p != pkg {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		if pkg == "math/rand/v2" {
			return "rand"
		}
		return pkg[strings.LastIndex(pkg, "/")+1:]
	}
	return ""
}
