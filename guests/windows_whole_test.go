package guests_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/window"
)

// TestWindowFunctions: a function that gets whole windows gives the median of each, in all kinds of windows,
// whatever the batches, engine, backend and restores; the medians are those of what is collected natively.
func TestWindowFunctions(t *testing.T) {
	for language, path := range modules("windows") {
		t.Run(language, func(t *testing.T) {
			compiled, interpreted := windowModules(t, path)
			if language == "go" {
				interpreted = compiled
			}
			nodes := windowNode{compiled}
			forAllWindows(func(name string, i int, change func(*operators.WindowNode)) {
				if w := nodes.node(operators.WindowShape{}); *windowSeeds == 0 && i%5 != 0 || func() bool { change(w); return w.Accumulation == operators.Retracting }() {
					return
				}
				t.Run(fmt.Sprintf("%s/seed %d", name, i), func(t *testing.T) {
					rng := rand.New(rand.NewPCG(uint64(i), 10))
					steps := windowSteps(rng, 100)
					collect := nodes.node(operators.WindowShape{}, operators.WindowAggregate{Name: "v", Kind: operators.AggCollect, Field: "v"})
					change(collect)
					want := newWindowWorld(t, compiled, collect, "memory")
					if err := want.run(steps, 1); err != nil {
						t.Fatal(err)
					}
					want.close()
					var first *windowWorld
					for j, size := range []int{1, 64} {
						w := nodes.node(operators.WindowShape{})
						w.Process = nodes.fn("median")
						change(w)
						m := []bool{true, i%2 == 0}
						mod := compiled
						if !m[j] {
							mod = interpreted
						}
						x := newWindowWorld(t, mod, w, []string{"memory", "disk"}[j])
						if err := x.run(steps, size, rng.IntN(len(steps))); err != nil {
							t.Fatal(err)
						}
						x.close()
						if first == nil {
							first = x
							checkMedians(t, want, x)
							continue
						}
						for o := range 3 {
							if a, b := first.output(o), x.output(o); !slices.Equal(a, b) {
								t.Fatalf("output %d, batches of %d:\n%q\nexpected\n%q", o, size, b, a)
							}
						}
					}
				})
			})
		})
	}
}

// checkMedians compares medians with those of collected values.
func checkMedians(t *testing.T, want, x *windowWorld) {
	t.Helper()
	fs := window.RowSchema(want.w)
	col := slices.IndexFunc(fs, func(f abi.Field) bool { return f.Name == "v" })
	var expected []float64
	odd := 0
	for _, h := range want.gone {
		for _, r := range h.Output(0).Records {
			row, err := abi.CheckRow(r.Value, fs)
			if err != nil {
				t.Fatal(err)
			}
			list, _ := row.Bytes(col)
			var vs []int64
			for _, s := range strings.FieldsFunc(string(list), func(c rune) bool { return strings.ContainsRune("[,]", c) }) {
				var v int64
				fmt.Sscan(s, &v)
				vs = append(vs, v)
			}
			slices.Sort(vs)
			m := 0.0
			if n := len(vs); n > 0 {
				m = float64(vs[(n-1)/2]+vs[n/2]) / 2
			}
			odd += len(vs) % 2
			expected = append(expected, m)
		}
	}
	var got []float64
	sides := 0
	for _, h := range x.gone {
		sides += len(h.Output(2).Records)
		for _, r := range h.Output(0).Records {
			row, err := abi.CheckRow(r.Value, window.Schema(x.w))
			if err != nil {
				t.Fatal(err)
			}
			m, _ := row.Float64(3)
			got = append(got, m)
		}
	}
	if !slices.Equal(got, expected) || sides != odd {
		t.Errorf("medians %v, %d odd; expected %v, %d", got, sides, expected, odd)
	}
}

// TestWindowFunctionOverAggregates: with aggregates, built in or of guests, the function gets their row; what
// fails is a dead letter.
func TestWindowFunctionOverAggregates(t *testing.T) {
	for language, path := range modules("windows") {
		t.Run(language, func(t *testing.T) {
			m := compile(t, newEngine(t), path)
			nodes := windowNode{m}
			var outputs [][]string
			for _, native := range []bool{true, false} {
				as := []operators.WindowAggregate{{Name: "n", Kind: operators.AggCount}, {Name: "sum", Kind: operators.AggSum, Field: "v"}}
				if !native {
					as = []operators.WindowAggregate{nodes.aggregate("n", "count"), nodes.aggregate("sum", "sum")}
				}
				w := nodes.node(operators.WindowShape{Type: operators.WindowTumbling, Size: 10}, as...)
				w.Process, w.Lateness, w.Revision = nodes.fn("share"), 5, true
				x := newWindowWorld(t, m, w, "memory")
				if err := x.run(windowSteps(rand.New(rand.NewPCG(3, 3)), 200), 64); err != nil {
					t.Fatal(err)
				}
				x.close()
				outputs = append(outputs, x.output(0))
			}
			if !slices.Equal(outputs[0], outputs[1]) || len(outputs[0]) < 50 {
				t.Errorf("over guests %q, built in %q", outputs[1], outputs[0])
			}
			w := nodes.node(operators.WindowShape{Type: operators.WindowTumbling, Size: 10})
			w.Process, w.OnError.Policy = nodes.fn("median"), operators.PolicyDeadLetter
			x := newWindowWorld(t, m, w, "memory")
			if err := x.run([]windowStep{{kind: 'r', key: "a", t: 1, v: 3}, {kind: 'r', key: "b", t: 2, v: addError}, {kind: 'r', key: "c", t: 3, v: 4}}, 64); err != nil {
				t.Fatal(err)
			}
			x.close()
			if ls := lettersOf(x); len(ls) != 1 || !strings.Contains(ls[0], `window [0, 10) of key "b" returned error true`) || len(x.output(0)) != 3 {
				t.Errorf("dead letters %q, output %q", ls, x.output(0))
			}
		})
	}
}

// TestLanguagesGiveTheSame: the aggregates of both languages keep and give the same bytes.
func TestLanguagesGiveTheSame(t *testing.T) {
	var want []string
	for _, language := range []string{"rust", "go"} {
		m := compile(t, newEngine(t), modules("windows")[language])
		nodes := windowNode{m}
		w := nodes.node(operators.WindowShape{Type: operators.WindowSession, Gap: 4}, nodes.aggregate("n", "count"), nodes.aggregate("sum", "sum"),
			nodes.aggregate("avg", "avg"), nodes.aggregate("s", "stats"), nodes.aggregate("trail", "trail"), nodes.aggregate("touchy", "touchy"))
		w.Trigger.Count, w.OnError.Policy = 2, operators.PolicySkip
		x := newWindowWorld(t, m, w, "memory")
		steps := windowSteps(rand.New(rand.NewPCG(4, 4)), 300)
		steps[20].kind, steps[20].v = 'r', addError
		if err := x.run(steps, 64); err != nil {
			t.Fatal(err)
		}
		x.close()
		if got := x.output(0); want == nil {
			want = got
		} else if !slices.Equal(got, want) {
			t.Errorf("%s gives %q, expected %q", language, got, want)
		}
	}
	if len(want) < 100 {
		t.Errorf("%d results", len(want))
	}
}
