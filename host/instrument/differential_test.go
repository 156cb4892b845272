package instrument

import (
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	wt "github.com/millrace-io/millrace/host/instrument/wasmtest"
)

var rewriterN = flag.Int("rewriter.n", 300, "generated modules that rewritten must behave as plain")

// outcome is all a host can see of a run.
type outcome struct {
	results string
	memory  uint64
	pages   uint32
	globals string
	calls   string
}

// observe runs every function of a program twice, with plenty of fuel, and returns what it used of it.
func observe(t testing.TB, e *engine, wasm []byte, p *wt.Program) (o outcome, fuel int64) {
	ctx := context.Background()
	e.calls = nil
	m, err := e.rt.InstantiateWithConfig(ctx, wasm, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		t.Fatalf("instantiate: %v", err)
	}
	defer m.Close(ctx)
	for i, name := range append(p.Runs, p.Runs...) {
		m.ExportedGlobal("g0").(api.MutableGlobal).Set(wt.StepsPerRun)
		if g := m.ExportedGlobal(GlobalFuel); g != nil {
			g.(api.MutableGlobal).Set(plenty)
		}
		r, err := m.ExportedFunction(name).Call(ctx, uint64(uint32(i*7)), uint64(uint32(i-3)))
		trap := ""
		if err != nil {
			trap, _, _ = strings.Cut(err.Error(), "\n")
		}
		o.results += fmt.Sprintln(name, r, trap)
		if g := m.ExportedGlobal(GlobalFuel); g != nil {
			fuel += plenty - int64(g.Get())
		}
	}
	h := fnv.New64a()
	mem := m.Memory()
	b, _ := mem.Read(0, mem.Size())
	h.Write(b)
	o.memory, o.pages = h.Sum64(), mem.Size()>>16
	for i := range p.Module.Globals {
		o.globals += fmt.Sprintln(m.ExportedGlobal(fmt.Sprint("g", i)).Get())
	}
	o.calls = fmt.Sprint(e.calls)
	return o, fuel
}

// A rewritten program behaves as the plain one: results, traps, memory, globals, host calls.
func TestRewrittenProgramsBehaveAsPlain(t *testing.T) {
	traps, busy := 0, 0
	for i := 0; i < *rewriterN; i++ {
		if !differential(t, uint64(i), &traps, &busy) {
			t.Fatalf("seed %d", i)
		}
	}
	t.Logf("%d programs: %d trapped somewhere, %d used more than 8,000 units", *rewriterN, traps, busy)
	if traps < *rewriterN/20 || traps > 19**rewriterN/20 || busy < *rewriterN/4 {
		t.Errorf("the generator says little: %d of %d trap, %d are busy", traps, *rewriterN, busy)
	}
}

func differential(t *testing.T, seed uint64, traps, busy *int) bool {
	p := wt.Generate(seed)
	plain := p.Module.Bytes()
	e := newEngineOnce(t, seed%10 == 9)
	defer e.rt.Close(context.Background())
	want, _ := observe(t, e, plain, p)
	if strings.Contains(want.results, "wasm error") {
		*traps++
	}
	forms := []Options{{Fuel: true}}
	if seed%4 == 0 {
		forms = append(forms, Options{}, Options{Fuel: true, exact: true})
	}
	folded := int64(0)
	for _, o := range forms {
		have, fuel := observe(t, e, rewrite(t, plain, o).Wasm, p)
		if have != want {
			t.Errorf("seed %d, %+v:\nhave %+v\nwant %+v", seed, o, have, want)
			return false
		}
		if o.Fuel && fuel < int64(2*len(p.Runs)) || !o.Fuel && fuel != 0 {
			t.Errorf("seed %d, %+v: used %d units", seed, o, fuel)
			return false
		}
		switch {
		case o.exact && (fuel > folded || folded > 6*fuel):
			t.Errorf("seed %d: folded charges take %d units, exact ones %d", seed, folded, fuel)
			return false
		case o.Fuel && !o.exact:
			folded = fuel
			if fuel > 8_000 {
				*busy++
			}
		}
	}
	return true
}

// newEngineOnce is an engine that its caller closes, so that hundreds do not pile up.
func newEngineOnce(t testing.TB, interpreter bool) *engine {
	cfg := wazero.NewRuntimeConfigCompiler()
	if interpreter {
		cfg = wazero.NewRuntimeConfigInterpreter()
	}
	return startEngine(t, cfg)
}
