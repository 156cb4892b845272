package instrument

import (
	"context"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

const features = api.CoreFeaturesV2

// engine is a wazero runtime with the imports that test modules use.
type engine struct {
	rt    wazero.Runtime
	calls []uint32 // arguments of env.log
}

func newEngine(t testing.TB, interpreter bool) *engine {
	t.Helper()
	cfg := wazero.NewRuntimeConfigCompiler()
	if interpreter {
		cfg = wazero.NewRuntimeConfigInterpreter()
	}
	e := startEngine(t, cfg)
	t.Cleanup(func() { e.rt.Close(context.Background()) })
	return e
}

// startEngine starts a runtime and its host modules; the caller closes it.
func startEngine(t testing.TB, cfg wazero.RuntimeConfig) *engine {
	t.Helper()
	ctx := context.Background()
	e := &engine{rt: wazero.NewRuntimeWithConfig(ctx, cfg.WithCoreFeatures(features).WithMemoryLimitPages(1024))}
	i32 := []api.ValueType{api.ValueTypeI32}
	next := api.GoModuleFunc(func(context.Context, api.Module, []uint64) { panic("mr.next left the guest") })
	log := api.GoModuleFunc(func(_ context.Context, _ api.Module, s []uint64) { e.calls = append(e.calls, uint32(s[0])) })
	for _, h := range []struct {
		module, name string
		fn           api.GoModuleFunc
		results      []api.ValueType
	}{{"mr", "next", next, i32}, {"env", "log", log, nil}} {
		_, err := e.rt.NewHostModuleBuilder(h.module).NewFunctionBuilder().
			WithGoModuleFunction(h.fn, i32, h.results).Export(h.name).Instantiate(ctx)
		if err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// instance is a running module with the rewriter's globals at hand.
type instance struct {
	t testing.TB
	api.Module
}

func (e *engine) instance(t testing.TB, wasm []byte) *instance {
	t.Helper()
	m, err := e.rt.InstantiateWithConfig(context.Background(), wasm,
		wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		t.Fatalf("instantiate: %v", err)
	}
	t.Cleanup(func() { m.Close(context.Background()) })
	return &instance{t, m}
}

func (i *instance) get(name string) int64 {
	g := i.ExportedGlobal(name)
	if g == nil {
		i.t.Fatalf("no global %s", name)
	}
	if g.Type() == api.ValueTypeI32 {
		return int64(int32(g.Get()))
	}
	return int64(g.Get())
}

func (i *instance) set(name string, v int64) {
	i.ExportedGlobal(name).(api.MutableGlobal).Set(uint64(v))
}

// begin prepares a call on records from first on.
func (i *instance) begin(fuel, limit, quantum int64, first int) {
	i.set(GlobalFuel, fuel)
	i.set(GlobalLimit, limit)
	i.set(GlobalQuantum, quantum)
	i.set(GlobalCursor, int64(first-1))
	i.set(GlobalPrologue, -1)
	i.set(GlobalMisuse, 0)
	i.set(GlobalStop, 0)
}

func (i *instance) call(name string, args ...uint64) ([]uint64, error) {
	f := i.ExportedFunction(name)
	if f == nil {
		i.t.Fatalf("no function %s", name)
	}
	return f.Call(context.Background(), args...)
}

// rewrite validates, rewrites and validates what wazero is to compile.
func rewrite(t testing.TB, wasm []byte, o Options) *Rewritten {
	t.Helper()
	m, err := Validate(wasm, DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	r, err := Rewrite(wasm, m, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
