package stateview

import (
	"context"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapread"
	"github.com/millrace-io/millrace/state"
)

// Entries of a state with a TTL are shown without their stamps, with when they expire; a patch keeps an entry's
// age, and lets a new one age from the next watermark on.
func TestStateWithATTL(t *testing.T) {
	f := newFixture(t, func(func(state.Key) state.Keyed) {})
	ctx := context.Background()
	note := &state.TTLNote{MS: 1000, Domain: abi.DomainEvent}
	for i := range f.m.Tasks {
		keyed := f.m.Tasks[i].Operators[0].Keyed
		keyed.States[0].TTL = note
		f.m.Tasks[i].Operators[0].Numbers = map[string]int64{"watermark": 5000}
		k := key("old")
		stamp := int64(3000)
		if keyed.Range.Contains(key("young").Hash) && !keyed.Range.Contains(k.Hash) {
			k, stamp = key("young"), 4500
		}
		if !keyed.Range.Contains(k.Hash) {
			continue
		}
		w, err := snapread.NewRunWriter(t.TempDir())
		f.ok(err)
		f.ok(w.Add(k.Hash, k.Bytes, append(le(stamp), le(9)...), false))
		run, err := w.Finish(ctx, f.store)
		f.ok(err)
		f.ok(w.Close())
		keyed.States[0].Runs = []state.Run{run}
	}
	var err error
	f.m.ID, err = f.store.Reserve(1)
	f.ok(err)
	f.ok(f.store.WriteManifest(ctx, f.m))
	rows := f.rows(f.m, Query{State: "v"})
	if len(rows) == 0 || !strings.Contains(rows[0], `"key":"old","value":9,"expires":"1970-01-01T00:00:04.000Z"`) {
		t.Fatalf("%v", rows)
	}
	all, err := Open(f.m, f.store).Stats(ctx, Query{State: "v"}, 0)
	f.ok(err)
	if x := all[0].TTL; x == nil || x.Expired != 1 || x.AsOf != 5000 || x.Millis != 1000 || x.Domain != "event" {
		t.Errorf("%+v", x)
	}
	m := f.patch(`{"operator":"op","state":"v","key":"old","value":10}
{"operator":"op","state":"v","key":"fresh","value":11}
`)
	for _, want := range []string{`"key":"old","value":10,"expires":"1970-01-01T00:00:04.000Z"`, `"key":"fresh","value":11}`} {
		if got := strings.Join(f.rows(m, Query{State: "v"}), "\n"); !strings.Contains(got, want) {
			t.Errorf("%s is not in\n%s", want, got)
		}
	}
	all, err = Open(m, f.store).Stats(ctx, Query{State: "v"}, 0)
	f.ok(err)
	if all[0].TTL.Waiting != 1 {
		t.Errorf("%+v", all[0].TTL)
	}
	if m.Kind != checkpoint.KindSavepoint {
		t.Error("kind")
	}
}
