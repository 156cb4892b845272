//go:build wasmtime

package modcheck

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/host/engine"
	"github.com/millrace-io/millrace/operators/guestop"
)

// tried checks the first function of a module over a sample of texts.
func tried(t *testing.T, o Options, m guestop.Module, texts ...string) {
	t.Helper()
	f, err := One(context.Background(), m, nodeOf(m.Descriptor(), 0), given(texts...), o)
	if err != nil || f.Difference != nil || f.NotChecked != "" {
		t.Errorf("%v %v", err, &f)
	}
}

// TestWasmtimeGivesTheSameOverSamples: every guest of the repository has the same outputs, timers, state and fuel on
// both engines, and the planted ones are found as on the first.
func TestWasmtimeGivesTheSameOverSamples(t *testing.T) {
	for _, path := range committed(t) {
		t.Run(strings.TrimPrefix(path, "../../"), func(t *testing.T) {
			wasm, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			o := whole
			o.Other, o.OtherName = compile(t, wasm, engine.Options{Wasmtime: true}), "wasmtime"
			m := compile(t, wasm, engine.Options{CacheDir: "../../.build/engine"})
			if strings.Contains(path, "/kitchen/") {
				tried(t, o, m, "e1", "x\x0e", "f", "t")
				return
			}
			r, err := Module(context.Background(), m, o)
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Err(path); err != nil {
				t.Error(err)
			}
			for name, texts := range commands {
				if strings.HasSuffix(path, name+".wasm") {
					tried(t, o, m, texts...)
				}
			}
		})
	}
	for _, p := range plants {
		wasm := p.p.wasm(t)
		f := check(t, wasm, whole).Functions[0]
		r, err := Module(context.Background(), compile(t, wasm, engine.Options{Wasmtime: true}), whole)
		if err != nil || r.Functions[0].Difference == nil || r.Functions[0].Difference.String() != f.Difference.String() {
			t.Errorf("%s: %v\non wasmtime %v\non wazero %v", p.name, err, &r.Functions[0], &f)
		}
	}
}
