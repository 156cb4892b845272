package modcheck

import (
	"context"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/abi/abitest"
	"github.com/millrace-io/millrace/guests/cases"
	"github.com/millrace-io/millrace/host/engine"
)

// whole is a check without a budget: it covers everything, whatever the machine's speed.
var whole = Options{Budget: -1}

func check(t *testing.T, wasm []byte, o Options) *Report {
	t.Helper()
	r, err := Module(context.Background(), compile(t, wasm, engine.Options{}), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestPlantedAmnesiaIsNamed: each planted fault is found, by function and by the first record that shows it.
func TestPlantedAmnesiaIsNamed(t *testing.T) {
	for _, p := range plants {
		t.Run(p.name, func(t *testing.T) {
			r := check(t, p.p.wasm(t), whole)
			f := &r.Functions[0]
			if f.Difference == nil {
				t.Fatalf("nothing found: %v", f)
			}
			if f.Difference.What != p.what || !strings.HasPrefix(f.Difference.At, p.at) {
				t.Errorf("found %q at %q, expected %q at %q", f.Difference.What, f.Difference.At, p.what, p.at)
			}
			err := r.Err("planted.wasm")
			if err == nil || !strings.Contains(err.Error(), "function planted "+p.what) {
				t.Errorf("refused with: %v", err)
			}
			t.Log(err)
		})
	}
}

// TestInnocentGuestsPass: the frame around the plants is no difference by itself.
func TestInnocentGuestsPass(t *testing.T) {
	for _, p := range plants {
		q := p.p
		q.before, q.after, q.time, q.record = nil, nil, nil, innocent
		f := check(t, q.wasm(t), whole).Functions[0]
		if f.Difference != nil || f.NotChecked != "" || f.Fresh == 0 || f.Fresh != f.Covered || f.Fresh != f.Records+f.Timers {
			t.Errorf("%s: %v", p.name, &f)
		}
	}
}

// TestCaseModulesThatKeepThingsAreFound: guests of the repository that keep something are refused once they
// don't say so.
func TestCaseModulesThatKeepThingsAreFound(t *testing.T) {
	silent := abitest.Redescribe(cases.Module("ledger"), func(d *abi.Descriptor) {
		*d = abi.Descriptor{ABI: d.ABI, Name: d.Name, Functions: d.Functions} // no word of its memory
	})
	for name, wasm := range map[string][]byte{"ledger": silent, "upgrade": cases.Upgrade("v2", cases.UpgradeTraps, 300)} {
		r := check(t, wasm, whole)
		if err := r.Err(name); err == nil || !strings.Contains(err.Error(), keeps) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if r := check(t, cases.Module("ledger"), whole); r.Exempt == "" || r.Err("ledger") != nil {
		t.Errorf("a module whose memory is state was not exempt: %+v", r)
	}
}
