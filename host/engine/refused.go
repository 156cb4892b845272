package engine

import (
	"fmt"
	"sort"
	"strings"

	"github.com/tetratelabs/wazero/api"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/host/hostcall"
	"github.com/millrace-io/millrace/host/instrument"
)

// Refused says everything that is wrong with a module.
type Refused struct {
	Problems []string // one sentence each
}

// Error lists the problems, one a line.
func (r *Refused) Error() string {
	if len(r.Problems) == 1 {
		return "module refused: " + r.Problems[0]
	}
	return fmt.Sprintf("module refused, %d problems:\n  - %s", len(r.Problems), strings.Join(r.Problems, "\n  - "))
}

// wanted are the exports of the contract, with their signatures.
var wanted = []struct {
	name            string
	params, results int // i32 each
	required        bool
}{
	{abi.ExportVersion, 0, 0, true},
	{abi.ExportAlloc, 1, 1, true},
	{abi.ExportProcess, 5, 1, true},
	{abi.ExportDescribe, 0, 0, false}, // -> i64
	{abi.ExportSave, 2, 1, false},
	{abi.ExportLoad, 2, 1, false},
	{abi.ExportInitialize, 0, 0, false},
}

// checkContract finds everything in which m departs from the ABI.
func checkContract(m *instrument.Module) []string {
	problems := checkImports(m)
	if commandModule(m) {
		return append(problems, "the module is a command (it exports _start and no "+abi.ExportProcess+
			"): a pipeline needs a reactor. Build it as a library: Go -buildmode=c-shared; clang and rustc "+
			"-mexec-model=reactor or a cdylib; TinyGo -buildmode=c-shared")
	}
	exported := functionExports(m)
	for _, w := range wanted {
		want := wantedType(w.name, w.params, w.results)
		e, ok := m.Export(w.name, instrument.KindFunc)
		switch {
		case ok && !e.Type.Equal(want):
			problems = append(problems, fmt.Sprintf("export %s has type %s, expected %s", w.name, e.Type, want))
		case !ok && w.required:
			problems = append(problems, fmt.Sprintf("export %s %s is missing%s", w.name, want, nearest(w.name, exported)))
		}
	}
	if _, ok := m.Export(abi.ExportMemory, instrument.KindMemory); !ok {
		problems = append(problems, fmt.Sprintf("export %q of the linear memory is missing", abi.ExportMemory))
	}
	return append(problems, otherVersions(exported)...)
}

func wantedType(name string, params, results int) instrument.FuncType {
	i32s := func(n int) []instrument.ValType {
		ts := make([]instrument.ValType, n)
		for i := range ts {
			ts[i] = instrument.I32
		}
		return ts
	}
	if name == abi.ExportDescribe {
		return instrument.FuncType{Results: []instrument.ValType{instrument.I64}}
	}
	return instrument.FuncType{Params: i32s(params), Results: i32s(results)}
}

func commandModule(m *instrument.Module) bool {
	_, start := m.Export("_start", instrument.KindFunc)
	_, process := m.Export(abi.ExportProcess, instrument.KindFunc)
	return start && !process
}

func functionExports(m *instrument.Module) []string {
	var names []string
	for _, e := range m.Exports {
		if e.Kind == instrument.KindFunc {
			names = append(names, e.Name)
		}
	}
	return names
}

// otherVersions names ABI versions that the module was made for and this host doesn't run.
func otherVersions(exported []string) []string {
	var problems []string
	for _, n := range exported {
		if strings.HasPrefix(n, "mr_abi_v") && n != abi.ExportVersion {
			problems = append(problems, fmt.Sprintf("the module was built for ABI %s, this host runs v%d", strings.TrimPrefix(n, "mr_abi_"), abi.Version))
		}
	}
	return problems
}

func checkImports(m *instrument.Module) []string {
	var problems []string
	for _, imp := range m.Imports {
		full := imp.Module + "." + imp.Name
		if imp.Kind != instrument.KindFunc {
			problems = append(problems, fmt.Sprintf("import %s is a %s, only functions can be imported", full, imp.Kind))
			continue
		}
		f, ok := hostcall.Lookup(imp.Module, imp.Name)
		if !ok {
			problems = append(problems, fmt.Sprintf("import %s is not offered%s", full, nearest(full, hostcall.Names())))
			continue
		}
		if want := typeOf(f); !imp.Type.Equal(want) {
			problems = append(problems, fmt.Sprintf("import %s has type %s, expected %s", full, imp.Type, want))
		}
	}
	return problems
}

func typeOf(f *hostcall.Func) instrument.FuncType {
	convert := func(ts []api.ValueType) []instrument.ValType {
		out := make([]instrument.ValType, len(ts))
		for i, t := range ts {
			out[i] = instrument.ValType(t)
		}
		return out
	}
	return instrument.FuncType{Params: convert(f.Params), Results: convert(f.Results)}
}

// nearest is ", did you mean a or b?" with the names most like name, or "".
func nearest(name string, among []string) string {
	type scored struct {
		name string
		d    int
	}
	var best []scored
	for _, n := range among {
		if d := distance(name, n); d <= max(2, len(name)/4) {
			best = append(best, scored{n, d})
		}
	}
	sort.Slice(best, func(i, j int) bool {
		return best[i].d < best[j].d || best[i].d == best[j].d && best[i].name < best[j].name
	})
	if len(best) == 0 {
		return ""
	}
	names := []string{best[0].name}
	for _, b := range best[1:min(len(best), 3)] {
		names = append(names, b.name)
	}
	return ", did you mean " + strings.Join(names, " or ") + "?"
}

// distance is the number of letters to insert, delete or change to get from a to b.
func distance(a, b string) int {
	const longest = 64
	a, b = a[:min(len(a), longest)], b[:min(len(b), longest)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
