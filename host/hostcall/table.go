package hostcall

import (
	"context"
	"fmt"
	"sort"

	"github.com/tetratelabs/wazero/api"

	"github.com/millrace-io/millrace/operators/guestop"
)

// Func is one importable function.
type Func struct {
	Module, Name    string
	Params, Results []api.ValueType
	// Call reads its parameters from stack and writes its result to stack[0].
	Call func(s *Scope, stack []uint64)
}

// Go is the function as the engine takes it.
func (f *Func) Go() api.GoFunction {
	call := f.Call
	return api.GoFunc(func(ctx context.Context, stack []uint64) {
		defer hostPanic()
		call(ctx.(*Scope), stack)
	})
}

// hostPanic keeps the host's own panics apart from traps: whatever their value, the call ends with
// FaultTimeout, which fails the task and is never laid to a record.
func hostPanic() {
	r := recover()
	if r == nil {
		return
	}
	if a, ok := r.(*Abort); ok {
		panic(a)
	}
	panic(&Abort{Kind: guestop.FaultTimeout, Message: fmt.Sprintf("a host call panicked: %v", r)})
}

// Signature is "(i32, i64) -> i32".
func (f *Func) Signature() string { return Signature(f.Params, f.Results) }

// Signature writes a function type for people.
func Signature(params, results []api.ValueType) string {
	return "(" + typeNames(params) + ") -> (" + typeNames(results) + ")"
}

func typeNames(ts []api.ValueType) string {
	s := ""
	for i, t := range ts {
		if i > 0 {
			s += ", "
		}
		s += api.ValueTypeName(t)
	}
	return s
}

var table = map[[2]string]*Func{}

// Lookup finds an importable function.
func Lookup(module, name string) (*Func, bool) {
	f, ok := table[[2]string{module, name}]
	return f, ok
}

// Names are all importable functions as "module.name", sorted.
func Names() []string {
	names := make([]string, 0, len(table))
	for k := range table {
		names = append(names, k[0]+"."+k[1])
	}
	sort.Strings(names)
	return names
}

// define enters a function. Types are one letter per parameter: i = i32, l = i64.
func define(module, name, params, results string, call func(s *Scope, stack []uint64)) {
	table[[2]string{module, name}] = &Func{module, name, valueTypes(params), valueTypes(results), call}
}

func valueTypes(letters string) []api.ValueType {
	ts := make([]api.ValueType, len(letters))
	for i, c := range letters {
		ts[i] = api.ValueTypeI32
		if c == 'l' {
			ts[i] = api.ValueTypeI64
		}
	}
	return ts
}
