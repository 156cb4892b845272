package lint

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
)

// layer is a folder, what of this module it may import besides itself, and why. The longest matching
// folder counts. Tests names what only its test files may import besides.
type layer struct {
	folder string
	may    []string
	tests  []string
	reason string
}

// layers is the import direction: abi <- state <- checkpoint <- operators <- host <- cmd.
var layers = []layer{
	{"abi", nil, nil, "SDKs and host share it; it must build anywhere"},
	{"state", []string{"abi", "checkpoint/crashpoint"}, nil, "state knows keys, not dataflow"},
	{"checkpoint", []string{"abi", "state"}, nil, "it talks to tasks through its own small interface"},
	{"checkpoint/crashpoint", nil, nil, "a leaf, so that every layer may name its crash points"},
	{"operators", []string{"abi", "state", "checkpoint"}, nil, "an operator runs in the harness without a runtime"},
	{"host", []string{"abi", "state", "checkpoint", "operators"}, []string{"guests"}, "everything that runs; commands are above it"},
	{"host/web", []string{"abi"}, nil, "the dashboard uses the public HTTP API only"},
	{"sdk", nil, nil, "guest builds must not resolve host dependencies"},
	{"guests", []string{"sdk"}, []string{"abi", "state", "checkpoint", "operators", "host"}, "they are users"},
	{"guests/hostile", []string{"abi", "host/instrument/wasmtest"}, []string{"state", "checkpoint", "operators", "host"}, "broken modules are encoded byte by byte, no SDK would make them"},
	{"examples", []string{"sdk"}, []string{"abi", "state", "checkpoint", "operators", "host"}, "they are users"},
	{"cmd", []string{"abi", "checkpoint", "operators", "host", "examples", "guests"}, []string{"state", "bench"}, "commands translate flags, nothing else"},
	{"bench", []string{"abi", "state", "checkpoint", "operators", "host", "guests", "examples"}, nil, "it measures every layer"},
}

// dependency is a library that only some folders may use, and why.
type dependency struct {
	prefix string
	only   []string // folders
	tests  []string // folders whose test files may, besides
	reason string
}

var dependencies = []dependency{
	{"github.com/tetratelabs/wazero", []string{"host/engine", "host/hostcall"}, []string{"host/instrument", "guests", "sdk"}, "one place touches guest memory"},
	{"github.com/cockroachdb/pebble", []string{"state/coldpebble"}, nil, "Pebble is one implementation behind a small interface"},
	{"github.com/twmb/franz-go", []string{"operators/kafka", "host/substrate"}, nil, "only a connector and the substrate talk to Kafka"},
	{"github.com/minio/minio-go", []string{"checkpoint/objectstore"}, []string{"checkpoint/mirror"}, "one place talks to object stores"},
	{"github.com/johannesboyne/gofakes3", nil, []string{"checkpoint/objectstore", "checkpoint/mirror", "cmd/millrace"}, "a server for tests"},
	{"github.com/urfave/cli", []string{"cmd"}, nil, "only commands know flags"},
	{"github.com/bytecodealliance/wasmtime-go", []string{"host/engine"}, nil, "the second engine is behind the same interface"},
}

// barred says that no chain of imports may lead from one folder to another, and why.
type barred struct{ from, to, reason string }

var bars = []barred{
	{"host/control", "host/engine", "the control plane never compiles or runs guest code"},
	{"host/control", "host/instrument", "the control plane never compiles or runs guest code"},
	{"host/web", "host/engine", "the control plane never compiles or runs guest code"},
	{"host/web", "host/instrument", "the control plane never compiles or runs guest code"},
}

// pure are folders that use only the standard library, and this module as layers says.
var pure = []place{
	{"abi", "must build anywhere, as part of every SDK"},
	{"sdk", "guest builds must not resolve host dependencies"},
	{"checkpoint/crashpoint", "a leaf"},
}

// impure are exceptions from pure.
var impure = []place{
	{"abi/gen", "the generator is a program of its own: it may read YAML"},
	{"sdk/gen", "as abi/gen"},
}

// ImportFindings checks the import tables.
func ImportFindings(t *Tree) []Finding {
	var out []Finding
	for _, f := range t.Files {
		if f.Syntax == nil {
			continue
		}
		for _, spec := range f.Syntax.Imports {
			p, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				continue
			}
			if why := badImport(f, p); why != "" {
				out = append(out, Finding{File: f.Path, Line: t.Fset.Position(spec.Pos()).Line,
					Text: fmt.Sprintf("imports %s: %s", p, why)})
			}
		}
	}
	return sorted(append(out, barFindings(t)...))
}

func badImport(f *File, p string) string {
	for _, d := range dependencies {
		if under(p, d.prefix) || strings.HasPrefix(p, d.prefix+"/") {
			if inAny(f.Dir(), d.only) || f.Test() && inAny(f.Dir(), d.tests) {
				return ""
			}
			return fmt.Sprintf("only in %s (%s)", strings.Join(d.only, ", "), d.reason)
		}
	}
	inside, ours := strings.CutPrefix(p, Module+"/")
	if !ours {
		first, _, _ := strings.Cut(p, "/")
		for _, q := range pure {
			if strings.Contains(first, ".") && under(f.Dir(), q.where) && !allowed(impure, f) {
				return "standard library only (" + q.reason + ")"
			}
		}
		return ""
	}
	l := layerOf(f.Dir())
	if l == nil || under(inside, l.folder) || inAny(inside, l.may) || f.Test() && inAny(inside, l.tests) {
		return ""
	}
	return fmt.Sprintf("%s may import %s (%s)", l.folder, orNothing(l.may), l.reason)
}

func layerOf(dir string) *layer {
	var best *layer
	for i := range layers {
		if under(dir, layers[i].folder) && (best == nil || len(layers[i].folder) > len(best.folder)) {
			best = &layers[i]
		}
	}
	return best
}

func inAny(dir string, folders []string) bool {
	for _, f := range folders {
		if under(dir, f) {
			return true
		}
	}
	return false
}

func orNothing(may []string) string {
	if len(may) == 0 {
		return "nothing of this module"
	}
	return strings.Join(may, ", ")
}

// barFindings follows imports between folders of this module; test files do not count, since they are
// not part of what is linked.
func barFindings(t *Tree) []Finding {
	edges := map[string]map[string]bool{}
	for _, f := range t.Files {
		if f.Syntax == nil || f.Test() {
			continue
		}
		for _, spec := range f.Syntax.Imports {
			p, _ := strconv.Unquote(spec.Path.Value)
			if inside, ok := strings.CutPrefix(p, Module+"/"); ok {
				if edges[f.Dir()] == nil {
					edges[f.Dir()] = map[string]bool{}
				}
				edges[f.Dir()][inside] = true
			}
		}
	}
	var out []Finding
	for _, b := range bars {
		for _, dir := range sortedKeys(edges) {
			if !under(dir, b.from) {
				continue
			}
			if chain := reach(edges, dir, b.to, map[string]bool{}); chain != nil {
				out = append(out, Finding{File: dir, Text: fmt.Sprintf("reaches %s through %s: %s", b.to, strings.Join(chain, " -> "), b.reason)})
			}
		}
	}
	return out
}

func reach(edges map[string]map[string]bool, dir, to string, seen map[string]bool) []string {
	if under(dir, to) {
		return []string{dir}
	}
	if seen[dir] {
		return nil
	}
	seen[dir] = true
	for _, next := range sortedKeys(edges[dir]) {
		if chain := reach(edges, next, to, seen); chain != nil {
			return append([]string{dir}, chain...)
		}
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
