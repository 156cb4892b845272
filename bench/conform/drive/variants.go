package drive

import (
	"fmt"
	"math/rand"
	"slices"

	"github.com/millrace-io/millrace/bench/conform/corpus"
	"github.com/millrace-io/millrace/state/backend"
)

// Plain is the run that is held against the expected results: one step at a time, in memory, and with the
// snapshot and restore that the case asks for.
func Plain(c *corpus.Case) Variant {
	v := Variant{Name: "plain", Backend: backend.Memory, Batch: 1}
	if c.SnapshotAt != nil {
		v.Restore = func(step int) bool { return step == *c.SnapshotAt }
	}
	return v
}

// Restores at most in one run, one behind the other: each leaves a run of its own in the snapshot, and a
// restore reads all of them.
const (
	fewRestores  = 50
	manyRestores = 200
)

// Variants are the other ways to run a case, all with the results of Plain. full: more of them, with a
// restore at every step, in several runs if the case has many, and alone at each step if it has few; else
// at every step of a piece of the case.
func Variants(c *corpus.Case, full bool, rng *rand.Rand) []Variant {
	n := len(c.Input) + 1
	one := rng.Intn(n)
	vs := []Variant{
		{Name: "disk", Backend: backend.Disk, Batch: 1},
		{Name: "batches of 7", Backend: backend.Memory, Batch: 7},
		{Name: fmt.Sprintf("batches of 1024, disk, restored at %d", one), Backend: backend.Disk, Batch: 1024, Restore: between(one, one+1)},
	}
	interpreted := c.Kind() == "timers"
	if interpreted {
		vs = append(vs, Variant{Name: "interpreter", Backend: backend.Memory, Interpreter: true, Batch: 64})
	}
	if !full {
		from := rng.Intn(max(1, n-fewRestores))
		return append(vs, Variant{Name: fmt.Sprintf("restored at every step from %d on", from), Backend: backend.Memory, Batch: 1,
			Restore: between(from, from+fewRestores)})
	}
	for from := 0; from < n; from += manyRestores {
		name := fmt.Sprintf("restored at every step from %d on", from)
		every := between(from, from+manyRestores)
		vs = append(vs, Variant{Name: name, Backend: backend.Memory, Batch: 1, Restore: every},
			Variant{Name: "disk, " + name, Backend: backend.Disk, Batch: 1, Restore: every, Interpreter: interpreted})
	}
	seed := rng.Uint64()
	vs = append(vs, Variant{Name: "batches of 64", Backend: backend.Disk, Batch: 64},
		Variant{Name: fmt.Sprintf("batches of 5, restored at random steps by %d", seed), Backend: backend.Memory, Batch: 5,
			Restore: func(s int) bool { return (seed+uint64(s))*0x9e3779b97f4a7c15>>60 == 0 }})
	if n <= 17 {
		for k := range n {
			vs = append(vs, Variant{Name: fmt.Sprintf("restored at %d", k), Backend: backend.Disk, Batch: 1, Restore: between(k, k+1)})
		}
	}
	return vs
}

func between(from, to int) func(int) bool {
	return func(s int) bool { return from <= s && s < to }
}

// Same says how the outcome of a variant differs from that of the plain run; nil: not at all. Everything
// must be the same and in the same order, of several keys too.
func Same(plain, got *corpus.Got, v Variant) error {
	if plain.Rejected != nil || got.Rejected != nil {
		if (plain.Rejected == nil) != (got.Rejected == nil) {
			return fmt.Errorf("%s: refused: %v, plain run: %v", v.Name, got.Rejected, plain.Rejected)
		}
		return nil
	}
	if (plain.Failure == nil) != (got.Failure == nil) {
		return fmt.Errorf("%s: failure %v, plain run: %v", v.Name, got.Failure, plain.Failure)
	}
	steps := v.Batch <= 1
	if plain.Failure != nil && !steps {
		return nil // what came before the failure in its batch may or may not have gone out
	}
	for _, o := range []struct {
		name      string
		want, got []corpus.Result
	}{{"main", plain.Main, got.Main}, {"late", plain.Late, got.Late}} {
		a, b := written(o.want, steps), written(o.got, steps)
		if !slices.Equal(a, b) {
			i := 0
			for i < len(a) && i < len(b) && a[i] == b[i] {
				i++
			}
			return fmt.Errorf("%s: %s output: result %d is %s, in the plain run %s (%d and %d in all)", v.Name, o.name, i, at(b, i), at(a, i), len(b), len(a))
		}
	}
	if plain.LateDropped != got.LateDropped {
		return fmt.Errorf("%s: %d late records dropped, in the plain run %d", v.Name, got.LateDropped, plain.LateDropped)
	}
	return nil
}

func written(rs []corpus.Result, steps bool) []string {
	var out []string
	for i := range rs {
		s := rs[i].String()
		if steps {
			s = fmt.Sprintf("step %d: %s", rs[i].After, s)
		}
		out = append(out, s)
	}
	return out
}

func at(s []string, i int) string {
	if i < len(s) {
		return s[i]
	}
	return "missing"
}
