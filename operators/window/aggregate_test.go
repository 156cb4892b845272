package window

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/window/windowtest"
)

// part is an aggregate's state, kept as the operator keeps it: in memory of its own.
type part struct {
	a    aggregate
	w, v []byte
}

func newPart(a aggregate) *part { return &part{a: a, w: make([]byte, 8*a.words())} }

func (p *part) add(r abi.Record) {
	in := input{time: r.Time, row: r.Value, base: abi.RowBitmap(len(testFields))}
	p.v = slices.Clone(p.a.add(p.w, p.v, &in))
}

func (p *part) merge(o *part) { p.v = slices.Clone(p.a.merge(p.w, p.v, o.w, o.v)) }

// result is the aggregate's result as text.
func (p *part) result(t testing.TB, w *operators.WindowNode, c operators.WindowAggregate) string {
	t.Helper()
	var b abi.RowBuilder
	b.Reset(1)
	p.a.result(p.w, p.v, &b, 0)
	typ := resultType(w, c)
	row, err := abi.CheckRow(b.Bytes(), []abi.Field{{Name: "x", Type: typ}})
	switch {
	case err != nil:
		t.Fatal(err)
	case row.IsNull(0):
		return "null"
	case typ == abi.TypeFloat64:
		f, _ := row.Float64(0)
		return fmt.Sprint(f)
	case typ == abi.TypeString || typ == abi.TypeJSON:
		s, _ := row.Bytes(0)
		return string(s)
	}
	n, _ := row.Int64(0)
	return fmt.Sprint(n)
}

func TestAggregates(t *testing.T) {
	w := node(operators.WindowShape{Type: operators.WindowTumbling, Size: 10})
	rs := []abi.Record{record(windowtest.Rec{Time: 5, V: 7}), record(windowtest.Rec{Time: 3, V: 20}), record(windowtest.Rec{Time: 9, V: -4}), record(windowtest.Rec{Time: 3, V: 7})}
	for _, c := range []struct {
		kind, field, want, none string
	}{
		{operators.AggCount, "", "4", "0"}, {operators.AggCount, "s", "4", "0"}, {operators.AggSum, "v", "30", "null"}, {operators.AggSum, "f", "15", "null"},
		{operators.AggAvg, "v", "7.5", "null"}, {operators.AggAvg, "f", "3.75", "null"}, {operators.AggMin, "v", "-4", "null"}, {operators.AggMax, "f", "10", "null"},
		{operators.AggMin, "s", "text -4", "null"}, {operators.AggMax, "s", "text 7", "null"}, {operators.AggFirst, "v", "20", "null"}, {operators.AggLast, "s", "text -4", "null"},
		{operators.AggDistinctApprox, "v", "3", "0"}, {operators.AggQuantile, "v", "7", "null"},
		{operators.AggTop, "v", `[{"v":20,"f":10,"s":"text 20"},{"v":7,"f":3.5,"s":"text 7"}]`, "[]"},
	} {
		a := operators.WindowAggregate{Name: "x", Kind: c.kind, Field: c.field, N: 2, Quantile: 0.5}
		p := newPart(newAggregate(w, a))
		if got := p.result(t, w, a); got != c.none {
			t.Errorf("%s(%s) of nothing is %s, expected %s", c.kind, c.field, got, c.none)
		}
		for _, r := range rs {
			p.add(r)
		}
		if got := p.result(t, w, a); got != c.want {
			t.Errorf("%s(%s) is %s, expected %s", c.kind, c.field, got, c.want)
		}
	}
}

// TestMerge: parts merged in any tree give what all records give.
func TestMerge(t *testing.T) {
	w := node(operators.WindowShape{Type: operators.WindowTumbling, Size: 10})
	rng := rand.New(rand.NewPCG(9, 9))
	for _, a := range []operators.WindowAggregate{{Kind: operators.AggCount}, {Kind: operators.AggSum, Field: "v"}, {Kind: operators.AggAvg, Field: "v"},
		{Kind: operators.AggMin, Field: "s"}, {Kind: operators.AggMax, Field: "f"}, {Kind: operators.AggFirst, Field: "s"}, {Kind: operators.AggLast, Field: "f"},
		{Kind: operators.AggTop, Field: "f", N: 5}, {Kind: operators.AggDistinctApprox, Field: "s"}, {Kind: operators.AggQuantile, Field: "f", Quantile: 0.3}} {
		for _, n := range []int{10, 1500} {
			whole := newPart(newAggregate(w, a))
			parts := make([]*part, 7)
			for i := range parts {
				parts[i] = newPart(newAggregate(w, a))
			}
			for i := range n {
				r := record(windowtest.Rec{Time: int64((i * 7919) % n), V: rng.Int64N(1 << 40)})
				whole.add(r)
				parts[rng.IntN(len(parts))].add(r)
			}
			for len(parts) > 1 {
				i := rng.IntN(len(parts) - 1)
				parts[i].merge(parts[i+1])
				parts = slices.Delete(parts, i+1, i+2)
			}
			if got, want := parts[0].result(t, w, a), whole.result(t, w, a); got != want {
				t.Errorf("%s of %d: %s merged, %s at once", a.Kind, n, got, want)
			}
		}
	}
}

func TestDistinctApproxError(t *testing.T) {
	w := node(operators.WindowShape{Type: operators.WindowTumbling, Size: 10})
	a := operators.WindowAggregate{Kind: operators.AggDistinctApprox, Field: "v"}
	p := newPart(newAggregate(w, a))
	for n := 1; n <= 50_000; n++ {
		p.add(record(windowtest.Rec{V: int64(n)}))
		if n == 10 || n == 200 || n == 5_000 || n == 10_000 || n == 50_000 {
			var got float64
			fmt.Sscan(p.result(t, w, a), &got)
			if off := math.Abs(got-float64(n)) / float64(n); off > 0.05 {
				t.Errorf("%v instead of %d", got, n)
			}
		}
	}
	if len(p.v) > sketchSize {
		t.Errorf("takes %d bytes, expected at most %d", len(p.v), sketchSize)
	}
}

func TestQuantileError(t *testing.T) {
	w := node(operators.WindowShape{Type: operators.WindowTumbling, Size: 10})
	rng := rand.New(rand.NewPCG(4, 4))
	for _, spread := range []float64{1, 40, 300} {
		var all []float64
		sk := &quantile{f: fieldOf(w, "f")}
		p := newPart(sk)
		for range 6_000 {
			f := math.Exp(rng.NormFloat64()*spread) * float64(1-2*rng.IntN(2))
			if math.IsInf(f, 0) {
				continue
			}
			all = append(all, f)
			p.v = slices.Clone(sk.put(p.v, ordered(f)>>quantileShift, 1))
		}
		slices.Sort(all)
		for _, q := range []float64{0, 0.01, 0.5, 0.99, 1} {
			sk.q = q
			want := all[min(len(all)-1, max(0, int(math.Ceil(q*float64(len(all))))-1))]
			var got float64
			fmt.Sscan(p.result(t, w, operators.WindowAggregate{Kind: operators.AggQuantile, Field: "f"}), &got)
			limit := 0.01 * float64(uint64(1)<<le.Uint64(p.v)) // coarser by what was given up
			if math.Abs(got-want) > limit*math.Abs(want) {
				t.Errorf("spread %v, quantile %v: %v, expected %v", spread, q, got, want)
			}
		}
	}
}

// TestNulls: null values are passed over, null records counted.
func TestNulls(t *testing.T) {
	w := node(operators.WindowShape{Type: operators.WindowTumbling, Size: 10}, append(statsOf(), operators.WindowAggregate{Name: "some", Kind: operators.AggCount, Field: "v"},
		operators.WindowAggregate{Name: "u", Kind: operators.AggDistinct, Field: "v"}, operators.WindowAggregate{Name: "all", Kind: operators.AggCollect})...)
	x := newWorld(t, w, "memory", 1)
	defer x.close()
	var b abi.RowBuilder
	b.Reset(len(testFields))
	x.tasks[0].Push(abi.Record{Time: 1, Key: []byte("a")}, abi.Record{Time: 2, Key: []byte("a"), Value: b.Bytes()})
	x.tasks[0].Watermark(abi.MaxWatermark)
	row, err := abi.CheckRow(x.results(0)[0].Value, Schema(w))
	if err != nil {
		t.Fatal(err)
	}
	n, _ := row.Int64(2)
	some, _ := row.Int64(6)
	u, _ := row.Int64(7)
	list, _ := row.Bytes(8)
	if n != 2 || !row.IsNull(3) || !row.IsNull(4) || some != 0 || u != 0 || string(list) != `[null,{"v":null,"f":null,"s":null}]` {
		t.Errorf("count %d, sum null %t, count of v %d, distinct %d, collected %s", n, row.IsNull(3), some, u, list)
	}
}
