package checkpoint

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/state"
)

func someCanary() *Canary {
	return &Canary{Pipeline: digest("f"), Modules: []ModuleRef{{Operator: "count", Digest: digest("7"), Path: "count.wasm", Size: 901}}, Hi: 3277, Errors: 0.5}
}

// A manifest keeps its canary, before the barrier and behind it, and needs what it runs.
func TestAManifestHasItsCanary(t *testing.T) {
	m := sample()
	m.Canary = someCanary()
	wider := someCanary()
	wider.Hi, wider.Modules[0].Digest = state.Slots, digest("6")
	m.Next = &Next{Pipeline: m.Pipeline, Modules: m.Modules, Canary: wider}
	file, err := Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(file)
	if err != nil || !reflect.DeepEqual(got.Canary, m.Canary) || !reflect.DeepEqual(got.InForce().Canary, wider) || got.Before().Canary.Hi != 3277 {
		t.Fatalf("%v: canary %+v, behind the barrier %+v", err, got.Canary, got.InForce().Canary)
	}
	var needs []string
	for ref := range got.Objects() {
		needs = append(needs, ref.Digest)
	}
	for _, d := range []string{digest("f"), digest("7"), digest("6")} {
		if !slices.Contains(needs, d) {
			t.Errorf("object %.4s is not among what the manifest needs", d)
		}
	}
	if i := Describe(got); i[1].Operator != "count" || i[1].Canary.String() != "777777777777 has slots 0-3276 (5 %)" {
		t.Errorf("described as %+v", i)
	}
	m.Canary = nil
	if d := Compare(m, got); len(d.Operators) != 1 || d.Operators[0].A.Canary != nil || d.Operators[0].B.Canary == nil {
		t.Errorf("difference %+v", d.Operators)
	}
}

func TestACanaryOfNothingIsInvalid(t *testing.T) {
	for name, change := range map[string]func(c *Canary){
		"slots": func(c *Canary) { c.Hi = 0 }, "to 65536": func(c *Canary) { c.Hi = state.Slots + 1 }, "no operator": func(c *Canary) { c.Modules = nil },
	} {
		m := sample()
		m.Next = &Next{Canary: someCanary()}
		change(m.Next.Canary)
		if _, err := Encode(m); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The checkpoint of a step has the canary as it was and as it is to be; those behind it have it as it is.
func TestCheckpointsGoOnWithTheCanary(t *testing.T) {
	d := newDriver(t, nil)
	d.expect(1000, Tick{}, "barrier 1")
	d.acks(1100, 1)
	d.expect(1200, ManifestWritten{ID: 1}, "complete 1")
	n := next()
	n.Canary = someCanary()
	d.expect(1300, Trigger{Next: n}, "barrier 2")
	d.acks(1400, 2)
	if d.m.Canary != nil || d.m.InForce().Canary == nil {
		t.Errorf("the step's: canary %v, behind it %v", d.m.Canary, d.m.InForce().Canary)
	}
	d.expect(1500, ManifestWritten{ID: 2}, "complete 2")
	d.expect(2300, Tick{}, "barrier 3")
	d.acks(2400, 3)
	if !reflect.DeepEqual(d.m.Canary, n.Canary) || d.m.Next != nil {
		t.Errorf("behind it: canary %+v, next %v", d.m.Canary, d.m.Next)
	}
}
