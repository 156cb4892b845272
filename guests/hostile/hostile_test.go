package hostile

import (
	"errors"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/host/instrument"
)

func TestRefusedGuestsAreRefusedForTheirReason(t *testing.T) {
	for _, g := range Refused() {
		_, err := instrument.Validate(g.Wasm, instrument.DefaultLimits())
		var v *instrument.ValidationError
		if !errors.As(err, &v) || !v.Has(g.Code) {
			t.Errorf("%s: err %v, expected code %s", g.Name, err, g.Code)
		}
	}
}

func TestRunnableGuestsFollowTheContract(t *testing.T) {
	for _, g := range Runnable() {
		m, err := instrument.Validate(g.Wasm, instrument.DefaultLimits())
		if err != nil {
			t.Errorf("%s: %v", g.Name, err)
			continue
		}
		if _, err := instrument.Rewrite(g.Wasm, m, instrument.DefaultOptions()); err != nil {
			t.Errorf("%s: %v", g.Name, err)
		}
		for _, s := range abi.Exports {
			e, ok := m.Export(s.Name, instrument.KindFunc)
			if s.Required && !ok {
				t.Errorf("%s: no export %s", g.Name, s.Name)
			}
			if ok && len(e.Type.Params) != len(s.Params) {
				t.Errorf("%s: %s has type %s, expected %s", g.Name, s.Name, e.Type, s)
			}
		}
		if _, ok := m.Export(abi.ExportMemory, instrument.KindMemory); !ok {
			t.Errorf("%s: no memory", g.Name)
		}
	}
}

func TestNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, g := range All() {
		if seen[g.Name] || g.Doc == "" || (g.Fault == FaultRefused) != (g.Code != "") {
			t.Errorf("%s: twice, or without doc, or code without refusal", g.Name)
		}
		seen[g.Name] = true
	}
	if len(WildCalls()) < 10 {
		t.Errorf("%d host calls take pointers", len(WildCalls()))
	}
}
