package instrument

import (
	"bytes"
	"errors"
	"testing"

	"github.com/millrace-io/millrace/guests/hostile"

	wt "github.com/millrace-io/millrace/host/instrument/wasmtest"
)

func addSeeds(f *testing.F) {
	f.Add(everySection().Bytes())
	f.Add(batchGuest(3, 4).Bytes())
	for seed := uint64(0); seed < 4; seed++ {
		f.Add(wt.Generate(2 * seed).Module.Bytes())
	}
	for _, g := range hostile.All() {
		if len(g.Wasm) < 8<<10 {
			f.Add(g.Wasm)
		}
	}
	for _, r := range refusals() {
		if len(r.wasm) < 8<<10 {
			f.Add(r.wasm)
		}
	}
}

// FuzzValidate: no panic, no accepted module that the rewriter spoils, problems with a place and a code.
func FuzzValidate(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, wasm []byte) {
		m, err := Validate(wasm, DefaultLimits())
		if err != nil {
			var v *ValidationError
			if !errors.As(err, &v) || len(v.Problems) == 0 {
				t.Fatalf("refused without a problem: %v", err)
			}
			for _, p := range v.Problems {
				if p.Code == "" || p.Message == "" || p.Offset < 0 || p.Offset > len(wasm) {
					t.Fatalf("problem %+v", p)
				}
			}
			return
		}
		checkRewritten(t, wasm, m)
	})
}

// checkRewritten rewrites in every form and validates the results.
func checkRewritten(t *testing.T, wasm []byte, m *Module) {
	before := bytes.Clone(wasm)
	for _, o := range []Options{{}, {Fuel: true}, {Fuel: true, InlineNext: true}} {
		r, err := Rewrite(wasm, m, o)
		if err != nil {
			return
		}
		l := DefaultLimits()
		l.ModuleBytes *= 4
		l.BodyBytes *= 16
		l.Locals += 2
		l.Globals += 7
		l.Exports += l.Globals + 8
		l.Functions++
		l.Nesting += 2
		l.OperandStack += 4
		l.reservedNames = true
		if _, err = Validate(r.Wasm, l); err != nil {
			t.Fatalf("%+v: rewritten module: %v", o, err)
		}
	}
	if !bytes.Equal(before, wasm) {
		t.Fatal("the module was changed in place")
	}
}

// FuzzProgram: a generated program stays valid when it is rewritten, for any seed.
func FuzzProgram(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		wasm := wt.Generate(seed).Module.Bytes()
		m, err := Validate(wasm, DefaultLimits())
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		checkRewritten(t, wasm, m)
	})
}
