package worker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/host/engine"
)

// Modules tells what modules offer, by compiling them. It implements spec.Modules. What it compiles is in
// the cache folder when the pipeline is deployed.
type Modules struct {
	ctx    context.Context
	engine *engine.Engine
}

// NewModules makes a resolver; cacheDir as in Deploy.
func NewModules(ctx context.Context, cacheDir string) (*Modules, error) {
	e, err := engine.New(ctx, engine.Options{CacheDir: cacheDir})
	if err != nil {
		return nil, err
	}
	return &Modules{ctx, e}, nil
}

// ModuleInfo implements spec.Modules.
func (m *Modules) ModuleInfo(path string) (*abi.Descriptor, string, error) {
	wasm, err := os.ReadFile(path)
	if err != nil {
		return nil, "", missing(path, err)
	}
	sum := sha256.Sum256(wasm)
	digest := hex.EncodeToString(sum[:])
	mod, err := m.engine.Compile(m.ctx, wasm, undescribed)
	if err != nil {
		return nil, digest, err
	}
	d := mod.Descriptor()
	if d == undescribed {
		d = nil
	}
	if c, ok := mod.(interface{ Close() error }); ok {
		err = c.Close()
	}
	return d, digest, err
}

// undescribed stands for the description of a module that has none: the pipeline file has to give one.
var undescribed = &abi.Descriptor{ABI: abi.Version, Functions: []abi.Function{{Name: "undescribed", Kind: abi.FunctionMap}}}

// missing adds how the module is built, where its source lies beside it.
func missing(path string, err error) error {
	if !os.IsNotExist(err) {
		return err
	}
	if hint := buildHint(path); hint != "" {
		return fmt.Errorf("module %s is not there; build it with: %s", path, hint)
	}
	return fmt.Errorf("module %s is not there", path)
}

// Close frees the engine.
func (m *Modules) Close() error { return m.engine.Close(m.ctx) }
