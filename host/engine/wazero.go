package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/host/hostcall"
)

// features are what our validator accepts.
const features = api.CoreFeaturesV1 | api.CoreFeatureSignExtensionOps | api.CoreFeatureNonTrappingFloatToIntConversion |
	api.CoreFeatureMultiValue | api.CoreFeatureBulkMemoryOperations | api.CoreFeatureReferenceTypes

// wazeroProgram is a module with a runtime of its own.
type wazeroProgram struct {
	runtime  wazero.Runtime
	cache    wazero.CompilationCache // nil: none
	compiled wazero.CompiledModule
}

// buildWazero makes the runtime with the host functions that the module imports, and compiles.
func buildWazero(ctx context.Context, c *code, o Options) (program, error) {
	config := wazero.NewRuntimeConfigCompiler()
	if o.Interpreter {
		config = wazero.NewRuntimeConfigInterpreter()
	}
	config = config.WithCoreFeatures(features).WithMemoryLimitPages(abi.MaxMemoryBytes / pageBytes)
	if o.CacheDir == "" || o.Interpreter {
		return buildWith(ctx, c, config, nil)
	}
	entry, err := openCacheEntry(o.CacheDir, c.digest, c.rewritten.Wasm)
	if err != nil {
		return nil, err
	}
	cache, err := wazero.NewCompilationCacheWithDir(entry.dir)
	if err != nil {
		return nil, fmt.Errorf("engine: cache of compiled code in %s: %w", entry.dir, err)
	}
	p, err := buildWith(ctx, c, config.WithCompilationCache(cache), cache)
	if err == nil {
		if err = entry.seal(); err != nil {
			return nil, errors.Join(err, p.close())
		}
		return p, nil
	}
	// Another process may have cleared the entry under our hands: what matters is the code.
	return buildWith(ctx, c, config.WithCompilationCache(nil), nil)
}

func buildWith(ctx context.Context, c *code, config wazero.RuntimeConfig, cache wazero.CompilationCache) (program, error) {
	p := &wazeroProgram{runtime: wazero.NewRuntimeWithConfig(ctx, config), cache: cache}
	if err := p.compile(ctx, c); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (p *wazeroProgram) compile(ctx context.Context, c *code) error {
	modules := map[string]wazero.HostModuleBuilder{}
	for _, imp := range c.wasm.Imports {
		f, _ := hostcall.Lookup(imp.Module, imp.Name)
		b := modules[imp.Module]
		if b == nil {
			b = p.runtime.NewHostModuleBuilder(imp.Module)
			modules[imp.Module] = b
		}
		b.NewFunctionBuilder().WithGoFunction(f.Go(), f.Params, f.Results).Export(imp.Name)
	}
	for name, b := range modules {
		if _, err := b.Instantiate(ctx); err != nil {
			return fmt.Errorf("engine: host functions of %q: %w", name, err)
		}
	}
	compiled, err := p.runtime.CompileModule(ctx, c.rewritten.Wasm)
	if err != nil {
		return &Refused{Problems: []string{fmt.Sprintf("the compiler refuses the rewritten module: %v", err)}}
	}
	p.compiled = compiled
	return nil
}

func (p *wazeroProgram) close() error {
	ctx := context.Background()
	err := p.runtime.Close(ctx)
	if p.cache != nil {
		err = errors.Join(err, p.cache.Close(ctx))
	}
	return err
}

// instantiate makes an anonymous instance. The engine panics if the allocator fails, which is an error here.
func (p *wazeroProgram) instantiate(g *Guest) (in instance, err error) {
	defer func() {
		if x := recover(); x != nil {
			err = errors.Join(fmt.Errorf("engine: instantiate module %.12s: %v", g.code.digest, x), g.memory.err)
		}
	}()
	ctx := experimental.WithMemoryAllocator(context.Background(), g.memory)
	mod, err := p.runtime.InstantiateModule(ctx, p.compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("engine: instantiate module %.12s: %w", g.code.digest, err), g.memory.err)
	}
	return &wazeroInstance{mod, g.memory}, nil
}

type wazeroInstance struct {
	module api.Module
	memory *linear
}

func (w *wazeroInstance) function(name string) function {
	if f := w.module.ExportedFunction(name); f != nil {
		return f
	}
	return nil
}

func (w *wazeroInstance) global(name string) hostcall.Word {
	if m, ok := w.module.ExportedGlobal(name).(api.MutableGlobal); ok {
		return m
	}
	return nil
}

func (w *wazeroInstance) grow(pages uint32) bool {
	_, ok := w.module.Memory().Grow(pages)
	return ok
}

func (w *wazeroInstance) zero() error { return zero(w.memory.all[:w.memory.used]) }

func (w *wazeroInstance) close() error { return w.module.Close(context.Background()) }
