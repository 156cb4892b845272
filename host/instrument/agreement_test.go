package instrument

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"

	wt "github.com/millrace-io/millrace/host/instrument/wasmtest"
)

var mutantsN = flag.Int("mutants.n", 4000, "damaged modules on which our validator is compared with wazero's")

// mutate damages a copy: bits flipped, bytes replaced, removed, doubled or moved.
func mutate(rng *rand.Rand, wasm []byte) []byte {
	b := bytes.Clone(wasm)
	for n := 1 + rng.IntN(3); n > 0; n-- {
		i := 8 + rng.IntN(len(b)-8)
		switch rng.IntN(6) {
		case 0, 1:
			b[i] ^= 1 << rng.IntN(8)
		case 2:
			b[i] = byte(rng.Uint32())
		case 3:
			b[i] = b[8+rng.IntN(len(b)-8)]
		case 4: // swap neighbours: instructions change places
			j := min(i+1, len(b)-1)
			b[i], b[j] = b[j], b[i]
		case 5:
			b[i]++
		}
	}
	return b
}

// compile also returns wazero's panics as errors: it has some for modules that we refuse.
func compile(rt wazero.Runtime, wasm []byte) (err error) {
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("panic: %v", x)
		}
	}()
	c, err := rt.CompileModule(context.Background(), wasm)
	if err == nil {
		err = c.Close(context.Background())
	}
	return err
}

// quirk says whether wazero refuses a valid module that the rewriter makes palatable: its interpreter does
// not know a padded opcode behind 0xfc, and no custom section may be empty.
func quirk(err error) bool {
	return strings.Contains(err.Error(), "misc_prefix") || strings.Contains(err.Error(), "failed to read custom section")
}

// What our validator accepts, wazero compiles, plain and rewritten: a module that only wazero refuses
// would be found out at deployment, one that only we accept might do what the rewriter does not foresee.
func TestAcceptedModulesCompile(t *testing.T) {
	ctx := context.Background()
	bases := [][]byte{everySection().Bytes(), batchGuest(3, 4).Bytes()}
	for seed := uint64(0); seed < 6; seed++ {
		bases = append(bases, wt.Generate(2*seed).Module.Bytes())
	}
	interpreter := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().WithMemoryLimitPages(1024))
	defer interpreter.Close(ctx)
	compiler := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler().WithMemoryLimitPages(1024))
	defer compiler.Close(ctx)
	accepted, refused := 0, 0
	for i := 0; i < *mutantsN; i++ {
		rng := rand.New(rand.NewPCG(uint64(i), 7))
		wasm := mutate(rng, bases[rng.IntN(len(bases))])
		m, err := Validate(wasm, DefaultLimits())
		if err != nil {
			refused++
			continue
		}
		accepted++
		r, err := Rewrite(wasm, m, DefaultOptions())
		if err != nil {
			continue // mr.next imported with another type
		}
		rt := interpreter
		if accepted%8 == 0 {
			rt = compiler
		}
		for form, b := range map[string][]byte{"plain": wasm, "rewritten": r.Wasm} {
			if err := compile(rt, b); err != nil && (form == "rewritten" || !quirk(err)) {
				t.Fatalf("mutant %d, %s: we accept it, wazero says %v", i, form, err)
			}
		}
	}
	t.Logf("%d accepted, %d refused", accepted, refused)
	if accepted < *mutantsN/20 || refused < *mutantsN/20 {
		t.Errorf("%d accepted, %d refused: the damage says little", accepted, refused)
	}
}

// What wazero compiles of damaged modules, we accept too, unless a limit or a rule of ours forbids it.
func TestRefusedModulesDoNotCompile(t *testing.T) {
	ctx := context.Background()
	rt := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().WithMemoryLimitPages(1024))
	defer rt.Close(ctx)
	ours := []string{CodeReserved, CodeImportKind, CodeFeature}
	differ := 0
	for i := 0; i < *mutantsN/4; i++ {
		rng := rand.New(rand.NewPCG(uint64(i), 8))
		wasm := mutate(rng, everySection().Bytes())
		_, err := Validate(wasm, DefaultLimits())
		v, isRefusal := err.(*ValidationError)
		if !isRefusal {
			continue
		}
		if bytes.Contains([]byte(err.Error()), []byte(CodeLimit)) || v.Has(ours[0]) || v.Has(ours[1]) || v.Has(ours[2]) {
			continue
		}
		if compile(rt, wasm) == nil {
			differ++
			t.Logf("mutant %d: wazero compiles it, we say %v", i, err)
		}
	}
	if differ > *mutantsN/400 {
		t.Errorf("%d damaged modules are refused by us alone", differ)
	}
}
