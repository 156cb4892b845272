package guests_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/operators/window"
)

// Values and sums at which the aggregate touchy fails.
const (
	addError, addPanic, addForever = -1001, -1002, -1003
	noMerge, noMergePanic          = -2000, -2001
	noResult, noResultPanic, twice = -3000, -3001, -3002
)

// TestFailedRecordsLeaveNoTrace: with records at which an aggregate fails, outputs are those of the input
// without them, in all kinds of windows; they are dead letters in their places.
func TestFailedRecordsLeaveNoTrace(t *testing.T) {
	compiled, interpreted := windowModules(t, "cases/windows/windows.wasm")
	nodes, failures := windowNode{compiled}, 0
	forAllWindows(func(name string, i int, change func(*operators.WindowNode)) {
		if *windowSeeds == 0 && i%5 != 0 {
			return
		}
		t.Run(fmt.Sprintf("%s/seed %d", name, i), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(i), 9))
			good := windowSteps(rng, 100)
			var all []windowStep
			for _, s := range good {
				if s.kind == 'r' && rng.IntN(10) == 0 {
					bad := s
					bad.v = []int64{addError, addPanic}[rng.IntN(2)]
					all = append(all, bad)
				}
				all = append(all, s)
			}
			node := func() *operators.WindowNode {
				w := nodes.node(operators.WindowShape{}, nodes.aggregate("n", "touchy"), nodes.aggregate("trail", "trail"),
					operators.WindowAggregate{Name: "ids", Kind: operators.AggCollect, Field: "v"})
				w.OnError.Policy = operators.PolicyDeadLetter
				change(w)
				if w.Evictor != nil { // there it is results that fail
					w.Evictor = nil
				}
				return w
			}
			want := newWindowWorld(t, compiled, node(), "memory")
			if err := want.run(good, 16); err != nil {
				t.Fatal(err)
			}
			want.close()
			var dead []string
			for _, size := range []int{1, 1024} {
				m := compiled
				if i%2 == 0 && size > 1 {
					m = interpreted
				}
				x := newWindowWorld(t, m, node(), "memory")
				if err := x.run(all, size, len(all)/2); err != nil {
					t.Fatal(err)
				}
				x.close()
				for o := range 2 {
					a, b := want.output(o), slices.DeleteFunc(x.output(o), func(r string) bool {
						return strings.Contains(r, fmt.Sprintf("%x", windowRow(addError))) || strings.Contains(r, fmt.Sprintf("%x", windowRow(addPanic))) // late
					})
					if !slices.Equal(a, b) {
						t.Fatalf("output %d, batches of %d:\n%q\nexpected\n%q", o, size, b, a)
					}
				}
				if now := lettersOf(x); dead == nil {
					failures += len(now)
					dead = now
				} else if !slices.Equal(dead, now) {
					t.Errorf("batches of %d: dead letters %q, expected %q", size, now, dead)
				}
				if got := x.counts["guest.added"]; got != want.counts["guest.added"] {
					t.Errorf("batches of %d: the guest counted %d, expected %d", size, got, want.counts["guest.added"])
				}
			}
			checkTrails(t, want)
		})
	})
	if failures < 100 {
		t.Errorf("%d records failed", failures)
	}
}

// lettersOf are dead letters: value, position and what is said of the failure.
func lettersOf(x *windowWorld) (ls []string) {
	for _, h := range x.gone {
		for _, r := range h.Output(operators.OutputDeadLetter).Records {
			rec, d := operators.SplitDeadLetter(abi.Frame(abi.AppendRecord(nil, &r)))
			msg, _, _ := strings.Cut(d.Error, "\n")
			ls = append(ls, fmt.Sprintf("%s %d %x %s %s %t %s", rec.Key, rec.Time, rec.Value, d.Position, d.Kind, d.Timer, msg))
		}
	}
	return ls
}

// checkTrails compares an aggregate that depends on order with what is collected natively.
func checkTrails(t *testing.T, x *windowWorld) {
	t.Helper()
	fs := window.RowSchema(x.w)
	col := func(name string) int {
		return slices.IndexFunc(fs, func(f abi.Field) bool { return f.Name == name })
	}
	n := 0
	for _, h := range x.gone {
		for _, r := range h.Output(0).Records {
			row, err := abi.CheckRow(r.Value, fs)
			if err != nil {
				t.Fatal(err)
			}
			ids, _ := row.Bytes(col("ids"))
			got, _ := row.Bytes(col("trail"))
			var vs []int64
			if err := json.Unmarshal(ids, &vs); err != nil {
				t.Fatal(err)
			}
			if x.w.Window.Type == operators.WindowSession || len(vs) > 16 { // a merge is not in order of arrival
				slices.Sort(vs)
				if len(vs) > 16 {
					continue
				}
				var have []int64
				for _, f := range strings.Fields(string(got)) {
					var v int64
					fmt.Sscan(f, &v)
					have = append(have, v)
				}
				slices.Sort(have)
				if !slices.Equal(have, vs) {
					t.Errorf("trail %s of %s", got, ids)
				}
				continue
			}
			if x.w.Window.Type == operators.WindowSliding || x.w.Window.Type == operators.WindowCumulate {
				continue // slices come in order of time
			}
			want := ""
			for _, v := range vs {
				want += fmt.Sprint(v, " ")
			}
			if n++; string(got) != want {
				t.Errorf("trail %q, expected %q", got, want)
			}
		}
	}
}

func tumblingTouchy(n windowNode, policy string) *operators.WindowNode {
	w := n.node(operators.WindowShape{Type: operators.WindowTumbling, Size: 10}, n.aggregate("n", "touchy"))
	w.OnError.Policy = policy
	return w
}

// rows are the int64 in column col of the results.
func rows(x *windowWorld, col int) (vs []int64) {
	for _, h := range x.gone {
		for _, r := range h.Output(0).Records {
			row, err := abi.CheckRow(r.Value, window.Schema(x.w))
			if err != nil {
				x.t.Fatal(err)
			}
			v, _ := row.Int64(col)
			vs = append(vs, v)
		}
	}
	return vs
}

// TestFailedResults: a window whose result fails gives none; the others of the call do.
func TestFailedResults(t *testing.T) {
	m, _ := windowModules(t, "cases/windows/windows.wasm")
	nodes := windowNode{m}
	steps := []windowStep{{kind: 'r', key: "a", t: 1, v: 5}, {kind: 'r', key: "b", t: 1, v: noResult}, {kind: 'r', key: "c", t: 2, v: noResultPanic},
		{kind: 'r', key: "d", t: 3, v: 1}, {kind: 'r', key: "d", t: 3, v: 2}, {kind: 'r', key: "e", t: 3, v: twice}, {kind: 'r', key: "f", t: 3, v: 2}}
	w := tumblingTouchy(nodes, operators.PolicyDeadLetter)
	x := newWindowWorld(t, m, w, "memory")
	if err := x.run(steps, 1024); err != nil {
		t.Fatal(err)
	}
	x.close()
	if got := rows(x, 2); !slices.Equal(got, []int64{1, 2, 1}) {
		t.Errorf("counts %v", got)
	}
	letters := lettersOf(x)
	for i, want := range []string{"window [0, 10) of key \"b\" returned error true guest fault: returned error: the sum at 10 is -3000",
		"window [0, 10) of key \"c\" trap true", "window [0, 10) of key \"e\" protocol true guest fault: protocol: several results"} {
		if len(letters) != 3 || !strings.Contains(letters[i], want) {
			t.Errorf("dead letters %q, expected %q in %d", letters, want, i)
		}
	}

	x = newWindowWorld(t, m, tumblingTouchy(nodes, operators.PolicyStop), "memory")
	err := x.run(steps, 1024)
	var fault *guestop.Fault
	if !errors.As(err, &fault) || !strings.Contains(err.Error(), `window [0, 10) of key "b"`) || !strings.Contains(err.Error(), "function touchy of windows.wasm") {
		t.Errorf("policy stop: %v", err)
	}
	x.close()
}

// TestFailedMerges: sessions whose merge fails stay apart, and the record between them is what failed; of
// slices it is the window.
func TestFailedMerges(t *testing.T) {
	m, _ := windowModules(t, "cases/windows/windows.wasm")
	nodes := windowNode{m}
	for _, sum := range []int64{noMerge, noMergePanic} {
		w := tumblingTouchy(nodes, operators.PolicyDeadLetter)
		w.Window = operators.WindowShape{Type: operators.WindowSession, Gap: 10}
		x := newWindowWorld(t, m, w, "memory")
		if err := x.run([]windowStep{{kind: 'r', key: "a", t: 1, v: sum}, {kind: 'r', key: "a", t: 20, v: 0}, {kind: 'r', key: "a", t: 11, v: 7}, {kind: 'r', key: "a", t: 21, v: 0}}, 1024); err != nil {
			t.Fatal(err)
		}
		x.close()
		if got := rows(x, 2); !slices.Equal(got, []int64{1, 2}) {
			t.Errorf("counts %v", got)
		}
		if ls := lettersOf(x); len(ls) != 1 || !strings.Contains(ls[0], "record 2") {
			t.Errorf("dead letters %q", ls)
		}

		w = tumblingTouchy(nodes, operators.PolicySkip)
		w.Window = operators.WindowShape{Type: operators.WindowSliding, Size: 20, Slide: 10}
		x = newWindowWorld(t, m, w, "memory")
		if err := x.run([]windowStep{{kind: 'r', key: "a", t: 1, v: sum}, {kind: 'r', key: "a", t: 11, v: 0}, {kind: 'r', key: "b", t: 11, v: 0}}, 1024); err != nil {
			t.Fatal(err)
		}
		x.close()
		if got := rows(x, 2); !slices.Equal(got, []int64{1, 1, 1, 1}) || x.counts["skipped"] != 1 {
			t.Errorf("counts %v, %d skipped; expected the window of both records of a to be missing", got, x.counts["skipped"])
		}
	}
}

// TestFuelOfAggregates: a step that does not end costs its record only.
func TestFuelOfAggregates(t *testing.T) {
	m, _ := windowModules(t, "cases/windows/windows.wasm")
	nodes := windowNode{m}
	w := tumblingTouchy(nodes, operators.PolicyDeadLetter)
	w.Aggregates[0].Guest.Fuel = 100_000
	x := newWindowWorld(t, m, w, "memory")
	if err := x.run([]windowStep{{kind: 'r', key: "a", t: 1, v: 3}, {kind: 'r', key: "a", t: 1, v: addForever}, {kind: 'r', key: "a", t: 2, v: 3}}, 1024); err != nil {
		t.Fatal(err)
	}
	x.close()
	if got, ls := rows(x, 2), lettersOf(x); !slices.Equal(got, []int64{2}) || len(ls) != 1 || !strings.Contains(ls[0], "record 1 out of fuel") {
		t.Errorf("counts %v, dead letters %q", got, ls)
	}
}
