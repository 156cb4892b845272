package generator

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/operatortest"
)

func node(g operators.GeneratorSpec, form string) *operators.Node {
	n := &operators.Node{ID: "in", Kind: operators.NodeSource, Source: &operators.SourceNode{Connector: "generator", Format: form,
		Generator: &g, Time: &operators.TimeSettings{}, NaturalKey: g.Kind != Payments}}
	if g.Kind == Payments && form == "rows" {
		n.Schema = PaymentFields
	}
	return n
}

// run drains all tasks of a parallelism and returns each record as text, in order of offset.
func run(t *testing.T, n *operators.Node, p int) (out []string) {
	t.Helper()
	type rec struct {
		off uint64
		s   string
	}
	var all []rec
	for task := range p {
		ctx := operatortest.Context(t, "in", "")
		ctx.Task, ctx.Parallelism = task, p
		r := operatortest.OpenSource(t, NewSource(n), ctx).Drain(100)
		for _, x := range r.Out.Records {
			all = append(all, rec{x.Pos.Offset, fmt.Sprintf("%d %q %q", x.Time, x.Key, x.Value)})
		}
	}
	slices.SortFunc(all, func(a, b rec) int { return int(a.off) - int(b.off) })
	for _, r := range all {
		out = append(out, r.s)
	}
	return out
}

// TestSameAtAnyParallelism: the records do not depend on the tasks, and each key comes from one split.
func TestSameAtAnyParallelism(t *testing.T) {
	for _, kind := range []string{Counter, Sequence, Payments} {
		g := operators.GeneratorSpec{Kind: kind, Records: 3000, Keys: 40, Seed: 3, StepMS: 10, StartMS: 1000}
		one := run(t, node(g, "rows"), 1)
		if len(one) != 3000 {
			t.Fatalf("%s: %d records", kind, len(one))
		}
		if three := run(t, node(g, "rows"), 3); !slices.Equal(one, three) {
			t.Errorf("%s: other records with three tasks", kind)
		}
		g.Seed = 4
		if kind != Sequence && slices.Equal(one, run(t, node(g, "rows"), 1)) {
			t.Errorf("%s: the seed changes nothing", kind)
		}
	}
}

// TestSequence: per key n = 1, 2, 3, ... in order, also across a restart with other tasks.
func TestSequence(t *testing.T) {
	g := operators.GeneratorSpec{Kind: Sequence, Records: 1000, Keys: 7, Splits: 4}
	last := map[string]int64{}
	total := 0
	var restored []checkpoint.OperatorSnapshot
	for _, p := range []int{2, 3} {
		var next []checkpoint.OperatorSnapshot
		for task := range p {
			ctx := operatortest.Context(t, "in", "")
			ctx.Task, ctx.Parallelism, ctx.Restored = task, p, restored
			r := operatortest.OpenSource(t, NewSource(node(g, "rows")), ctx)
			if p == 2 {
				for range 5 {
					if err := r.Poll(33); err != nil {
						t.Fatal(err)
					}
				}
			} else {
				r.Drain(100)
			}
			for _, rec := range r.Out.Records {
				var v struct {
					Key string
					N   int64
				}
				if err := json.Unmarshal(rec.Value, &v); err != nil || v.Key != string(rec.Key) || v.N != last[v.Key]+1 {
					t.Fatalf("after %d of %s came %s with key %s", last[v.Key], v.Key, rec.Value, rec.Key)
				}
				last[v.Key]++
				total++
			}
			next = append(next, checkpoint.OperatorSnapshot{Splits: r.Source.Positions()})
		}
		restored = next
	}
	if total != 1000 || len(last) != 7 {
		t.Errorf("%d records of %d keys", total, len(last))
	}
}

// TestPlantedFraud finds the frauds again by the definition: a small payment and then, as the card's
// next one and within a minute, a large one. Each block has one, and decoys that are none.
func TestPlantedFraud(t *testing.T) {
	g := operators.GeneratorSpec{Kind: Payments, Records: 20_000, Keys: 500, Seed: 11, StepMS: 100}
	type payment struct {
		Card, Merchant string
		Amount         float64
		Time           int64
	}
	last := map[string]payment{}
	frauds, late, small, large := map[int]int{}, 0, 0, 0
	n := node(g, "ndjson")
	n.Source.Key = &operators.KeyByNode{Fields: []string{"card"}}
	r := operatortest.OpenSource(t, NewSource(n), operatortest.Context(t, "in", "")).Drain(256)
	for i, rec := range r.Out.Records {
		var p payment
		if err := json.Unmarshal(rec.Value, &p); err != nil || p.Card == "" || p.Merchant == "" || p.Time != rec.Time || p.Card != string(rec.Key) {
			t.Fatalf("%s: %v", rec.Value, err)
		}
		if p.Amount < SmallAmount {
			small++
		}
		if p.Amount > LargeAmount {
			large++
			if before := last[p.Card]; before.Amount < SmallAmount && before.Card != "" {
				if p.Time-before.Time <= FraudWindowMS {
					frauds[i/block]++
				} else {
					late++
				}
			}
		}
		last[p.Card] = p
	}
	for b := range 20 {
		if frauds[b] != 1 {
			t.Errorf("block %d has %d frauds", b, frauds[b])
		}
	}
	if late < 10 || small != 3*20 || large != 3*20 {
		t.Errorf("%d too late, %d small, %d large", late, small, large)
	}
}

func TestRows(t *testing.T) {
	g := operators.GeneratorSpec{Kind: Payments, Records: 50, Keys: 10, StepMS: 1}
	n := node(g, "rows")
	n.Source.Key = &operators.KeyByNode{Fields: []string{"card"}}
	for _, r := range operatortest.OpenSource(t, NewSource(n), operatortest.Context(t, "in", "")).Drain(7).Out.Records {
		if !strings.HasPrefix(string(r.Key), "4000-") {
			t.Errorf("key %q", r.Key)
		}
	}
}

// TestRate: records come with the injected clock, at the rate over all tasks.
func TestRate(t *testing.T) {
	g := operators.GeneratorSpec{Kind: Counter, Keys: 100, Rate: 1000}
	total := 0
	for task := range 2 {
		ctx := operatortest.Context(t, "in", "")
		ctx.Task, ctx.Parallelism = task, 2
		clock := ctx.Clock.(*operatortest.Clock)
		r := operatortest.OpenSource(t, NewSource(node(g, "rows")), ctx).Drain(100)
		for ms := int64(1); ms <= 2000; ms += 7 {
			clock.Set(ms)
			r.Drain(100)
		}
		clock.Set(2000)
		r.Drain(100)
		if r.Status != operators.PollIdle {
			t.Errorf("status %v", r.Status)
		}
		select {
		case <-r.Source.Ready():
		case <-time.After(time.Minute):
			t.Error("an idle source never became ready")
		}
		total += len(r.Out.Records)
		r.Source.Close()
	}
	if math.Abs(float64(total-2000)) > 2 {
		t.Errorf("%d records in 2 s at 1,000 a second", total)
	}
}

func TestCounter(t *testing.T) {
	g := operators.GeneratorSpec{Kind: Counter, Records: 20_000, Keys: 100, ValueBytes: 80}
	seen := map[string]int{}
	for _, r := range operatortest.OpenSource(t, NewSource(node(g, "rows")), operatortest.Context(t, "in", "")).Drain(256).Out.Records {
		if len(r.Key) != 12 || len(r.Value) != 80 {
			t.Fatalf("key %q, value of %d bytes", r.Key, len(r.Value))
		}
		seen[string(r.Key)]++
	}
	for k, n := range seen {
		if n < 120 || n > 280 {
			t.Errorf("key %s came %d times of 200", k, n)
		}
	}
	if len(seen) != 100 {
		t.Errorf("%d keys", len(seen))
	}
}

func TestPollAllocatesNothing(t *testing.T) {
	for _, kind := range []string{Counter, Sequence, Payments} {
		s := NewSource(node(operators.GeneratorSpec{Kind: kind, Keys: 1000}, "rows"))
		if err := s.Open(operatortest.Context(t, "in", "")); err != nil {
			t.Fatal(err)
		}
		var b abi.Batch
		if n := testing.AllocsPerRun(50, func() {
			b.Reset()
			if _, err := s.Poll(&b, 256); err != nil {
				t.Fatal(err)
			}
		}); n > 0 {
			t.Errorf("%s: %v allocations per batch", kind, n)
		}
	}
}

func BenchmarkCounter(b *testing.B) {
	s := NewSource(node(operators.GeneratorSpec{Kind: Counter, Keys: 100_000}, "rows"))
	if err := s.Open(operatortest.Context(b, "in", "")); err != nil {
		b.Fatal(err)
	}
	var batch abi.Batch
	n := 0
	for b.Loop() {
		batch.Reset()
		if _, err := s.Poll(&batch, 256); err != nil {
			b.Fatal(err)
		}
		n += batch.Len()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/record")
}
