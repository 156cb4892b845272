package guests_test

import (
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/host/engine/enginetest"
	"github.com/millrace-io/millrace/operators/guestop"
)

// TestBillIsTheSameForEveryCut: what a record costs must not hang on the call it comes in, or a replay
// with other batches could run out of fuel where the first run did not.
func TestBillIsTheSameForEveryCut(t *testing.T) {
	const n = 512
	records := make([]abi.Record, n)
	for i := range records {
		records[i] = abi.Record{Time: int64(i), Key: make([]byte, i%40), Value: make([]byte, i%200), Pos: abi.Position{Offset: uint64(i)}}
		if i%200 > 0 {
			records[i].Value[0] = byte(i)
		}
	}
	e := newEngine(t)
	for language, path := range modules("stateless") {
		t.Run(language, func(t *testing.T) {
			m := compile(t, e, path)
			empty, _ := bill(t, m, nil, 1)
			want := int64(-1)
			for _, cut := range []int{1, 7, 64, n} {
				fuel, calls := bill(t, m, records, cut)
				got := fuel - calls*empty
				if want < 0 {
					want = got
				}
				if got != want || got <= 0 {
					t.Errorf("in batches of %d the records cost %d, in batches of 1 %d", cut, got, want)
				}
			}
		})
	}
}

// bill is the fuel of a fresh instance for the records in calls of cut records, at least one call.
func bill(t *testing.T, m guestop.Module, records []abi.Record, cut int) (fuel, calls int64) {
	t.Helper()
	g, err := m.New(enginetest.NewEnv(), guestop.InstanceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for first := true; first || len(records) > 0; first = false {
		var b abi.Batch
		k := min(cut, len(records))
		for i := range records[:k] {
			b.Append(&records[i])
		}
		records = records[k:]
		block := enginetest.Block(&b, 0)
		in, err := g.In(len(block))
		if err != nil {
			t.Fatal(err)
		}
		copy(in, block)
		o := g.Call(len(block), 0)
		if o.Fault != nil || o.Yielded {
			t.Fatalf("a call of %d records: %+v", k, o)
		}
		fuel += int64(o.Fuel)
		calls++
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	return fuel, calls
}
