package modcheck

import (
	"context"
	"strings"
	"testing"

	w "github.com/millrace-io/millrace/host/instrument/wasmtest"

	"github.com/millrace-io/millrace/host/engine"
)

// TestEnginesAreHeldAgainstEachOther: what another engine does otherwise is found: outputs, state, and fuel alone. Another
// module stands for the engine that is wrong.
func TestEnginesAreHeldAgainstEachOther(t *testing.T) {
	good := planted{fn: keyed(), record: w.Code(w.I32Const(0), w.I32Const(cell), w.I32Const(1), w.I32Const(cell), w.I32Const(1), w.Call(impPut), w.Drop, innocent)}
	state, out, fuel := good, good, good
	state.record = w.Code(w.I32Const(0), w.I32Const(cell), w.I32Const(1), w.I32Const(cell), w.I32Const(2), w.Call(impPut), w.Drop, innocent)
	out.record = w.Code(good.record, w.I64Const(1), w.I64Add)
	fuel.record = w.Code(good.record, w.I64Const(0), w.I64Add)
	for name, c := range map[string]struct {
		other planted
		want  string // "": no difference
	}{
		"the same":        {good, ""},
		"state":           {state, `state seen of key "k2", entry {"hex":"00"} = {"hex":"0000"} on a kept instance of other, 7 in a call, but state seen`},
		"outputs":         {out, "is not the same on two engines: at record 1 of"},
		"fuel, all of it": {fuel, "costs something else on other: at the end of 512 records it gave"},
	} {
		t.Run(name, func(t *testing.T) {
			o := whole
			o.Other, o.OtherName = compile(t, c.other.wasm(t), engine.Options{}), "other"
			r, err := Module(context.Background(), compile(t, good.wasm(t), engine.Options{}), o)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(r.Problems(), "\n")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("found %q, expected %q", got, c.want)
			}
		})
	}
}
