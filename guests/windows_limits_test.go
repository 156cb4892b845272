package guests_test

import (
	"strings"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/operators/operatortest"
	"github.com/millrace-io/millrace/operators/window"
)

type dropped struct{ n int }

func (d *dropped) Emit(_ int, b *abi.Batch) error {
	d.n += b.Len()
	return nil
}

// TestGuestAggregatesAllocateNothing per record, window or result, once memory has grown.
func TestGuestAggregatesAllocateNothing(t *testing.T) {
	m := compile(t, newEngine(t), "cases/windows/windows.wasm")
	nodes := windowNode{m}
	for _, s := range []operators.WindowShape{{Type: operators.WindowTumbling, Size: 1000}, {Type: operators.WindowSliding, Size: 3000, Slide: 500}, {Type: operators.WindowSession, Gap: 50}} {
		w := nodes.node(s, nodes.aggregate("n", "count"), nodes.aggregate("s", "stats"))
		ctx := operatortest.Context(t, "w", "")
		ctx.Objects = operatortest.Objects(t)
		op := window.New(window.Config{Node: &operators.Node{ID: "w", Window: w}, OpenKeyed: operatortest.OpenKeyed, Module: func(string) guestop.Module { return m }})
		if err := op.Open(ctx); err != nil {
			t.Fatal(err)
		}
		var b abi.Batch
		out, now := &dropped{}, int64(0)
		row, key := windowRow(5), []byte("key 00")
		one := func() {
			b.Reset()
			for range 256 {
				now++
				key[4], key[5] = '0'+byte(now%10), '0'+byte(now/10%10)
				b.Append(&abi.Record{Time: now, Key: key, Value: row})
				b.Hash = append(b.Hash, ctx.Hasher.Hash(key))
				if now%100 == 0 {
					b.Mark(now - 50)
				}
			}
			if err := op.Batch(0, &b, out); err != nil {
				t.Fatal(err)
			}
		}
		for range 256 {
			one()
		}
		if n := testing.AllocsPerRun(200, one); n > 1 { // the log of changes grows now and then
			t.Errorf("%s: %v allocations per batch of 256 records, expected none", s.Type, n)
		}
		if out.n == 0 {
			t.Errorf("%s: no results", s.Type)
		}
		if err := op.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAccumulatorsBeyondTheirBound: an accumulator that would be longer than the description in the pipeline
// file says is the record's fault, and the others go on.
func TestAccumulatorsBeyondTheirBound(t *testing.T) {
	m := compile(t, newEngine(t), "cases/windows/windows.wasm")
	nodes := windowNode{m}
	w := nodes.node(operators.WindowShape{Type: operators.WindowTumbling, Size: 10}, nodes.aggregate("t", "trail"))
	w.Aggregates[0].Guest.Fn.States = []abi.StateDescriptor{{Name: "accumulator", Kind: abi.StateValue, MaxBytes: 16}}
	w.OnError.Policy = operators.PolicyDeadLetter
	for _, size := range []int{1, 64} {
		x := newWindowWorld(t, m, w, "memory")
		if err := x.run([]windowStep{{kind: 'r', key: "a", t: 1, v: 3}, {kind: 'r', key: "a", t: 2, v: 4}, {kind: 'r', key: "b", t: 2, v: 5}, {kind: 'r', key: "a", t: 3, v: 6}}, size); err != nil {
			t.Fatal(err)
		}
		x.close()
		if ls := lettersOf(x); len(ls) != 1 || !strings.Contains(ls[0], "record 3") {
			t.Errorf("batches of %d: dead letters %q", size, ls)
		}
		if got := strings.Join(x.output(0), " "); !strings.Contains(got, "332034") || !strings.Contains(got, "3520") { // "3 4", "5 "
			t.Errorf("batches of %d: output %s", size, got)
		}
	}
}
