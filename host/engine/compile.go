package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/host/hostcall"
	"github.com/millrace-io/millrace/host/instrument"
)

// features are what our validator accepts.
const features = api.CoreFeaturesV1 | api.CoreFeatureSignExtensionOps | api.CoreFeatureNonTrappingFloatToIntConversion |
	api.CoreFeatureMultiValue | api.CoreFeatureBulkMemoryOperations | api.CoreFeatureReferenceTypes

// compile takes wasm through all stages. On an error nothing is left behind.
func (c *code) compile(ctx context.Context, o Options, wasm []byte) (err error) {
	if c.wasm, err = instrument.Validate(wasm, o.Limits); err != nil {
		return refusedBy(err)
	}
	if problems := checkContract(c.wasm); len(problems) > 0 {
		return &Refused{Problems: problems}
	}
	if err = c.rewrite(wasm); err != nil {
		return err
	}
	if err = c.build(ctx, o); err != nil {
		return errors.Join(err, c.free())
	}
	if c.descriptor, err = c.describe(o); err != nil {
		return errors.Join(err, c.free())
	}
	return nil
}

// rewrite makes what is compiled. The data segments are left out where the module's code can't tell, and
// copied by each instance: the engine takes 2 to 4 ms for those of a Go guest, a copy 0.3.
func (c *code) rewrite(wasm []byte) (err error) {
	o := instrument.DefaultOptions()
	if !c.wasm.PassiveSegments && !c.wasm.DropsSegments {
		o.DropData = true
		if c.data, err = activeData(wasm, int64(c.wasm.Memories[0].Min)*pageBytes); err != nil {
			return &Refused{Problems: []string{err.Error()}}
		}
	}
	if c.rewritten, err = instrument.Rewrite(wasm, c.wasm, o); err != nil {
		return refusedBy(err)
	}
	return nil
}

// refusedBy turns what the validator or rewriter says into a Refused.
func refusedBy(err error) error {
	var v *instrument.ValidationError
	if !errors.As(err, &v) {
		return &Refused{Problems: []string{err.Error()}}
	}
	r := &Refused{}
	for _, p := range v.Problems {
		r.Problems = append(r.Problems, p.String())
	}
	return r
}

// build makes the runtime with the host functions that the module imports, and compiles.
func (c *code) build(ctx context.Context, o Options) error {
	config := wazero.NewRuntimeConfigCompiler()
	if o.Interpreter {
		config = wazero.NewRuntimeConfigInterpreter()
	}
	config = config.WithCoreFeatures(features).WithMemoryLimitPages(abi.MaxMemoryBytes / pageBytes)
	if o.CacheDir == "" || o.Interpreter {
		return c.buildWith(ctx, config, nil)
	}
	entry, err := openCacheEntry(o.CacheDir, c.digest, c.rewritten.Wasm)
	if err != nil {
		return err
	}
	cache, err := wazero.NewCompilationCacheWithDir(entry.dir)
	if err != nil {
		return fmt.Errorf("engine: cache of compiled code in %s: %w", entry.dir, err)
	}
	if err = c.buildWith(ctx, config.WithCompilationCache(cache), cache); err == nil {
		return entry.seal()
	}
	// Another process may have cleared the entry under our hands: what matters is the code.
	if freed := c.free(); freed != nil {
		return errors.Join(err, freed)
	}
	return c.buildWith(ctx, config.WithCompilationCache(nil), nil)
}

func (c *code) buildWith(ctx context.Context, config wazero.RuntimeConfig, cache wazero.CompilationCache) error {
	c.cache = cache
	c.runtime = wazero.NewRuntimeWithConfig(ctx, config)
	modules := map[string]wazero.HostModuleBuilder{}
	for _, imp := range c.wasm.Imports {
		f, _ := hostcall.Lookup(imp.Module, imp.Name)
		b := modules[imp.Module]
		if b == nil {
			b = c.runtime.NewHostModuleBuilder(imp.Module)
			modules[imp.Module] = b
		}
		b.NewFunctionBuilder().WithGoFunction(f.Go(), f.Params, f.Results).Export(imp.Name)
	}
	for name, b := range modules {
		if _, err := b.Instantiate(ctx); err != nil {
			return fmt.Errorf("engine: host functions of %q: %w", name, err)
		}
	}
	compiled, err := c.runtime.CompileModule(ctx, c.rewritten.Wasm)
	if err != nil {
		return &Refused{Problems: []string{fmt.Sprintf("the compiler refuses the rewritten module: %v", err)}}
	}
	c.compiled = compiled
	return nil
}

// describe finds out what the module says of itself; nil if it says nothing.
func (c *code) describe(o Options) (*abi.Descriptor, error) {
	if b, ok := c.wasm.Customs[abi.DescriptorSection]; ok {
		return parseDescriptor(b, fmt.Sprintf("the custom section %q", abi.DescriptorSection))
	}
	if _, ok := c.wasm.Export(abi.ExportDescribe, instrument.KindFunc); !ok {
		return nil, nil
	}
	b, err := c.callDescribe(o)
	if err != nil {
		return nil, err
	}
	return parseDescriptor(b, "the answer of "+abi.ExportDescribe)
}
