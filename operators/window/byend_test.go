package window

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/window/windowtest"
)

// TestManyOpenWindows compares the output of searching with that of looking at all windows, with hundreds of them
// open, records up to a lateness behind, restored on the way.
func TestManyOpenWindows(t *testing.T) {
	seed := rand.Uint64()
	least, results, late := 1000, 0, 0
	records := 800
	if testing.Short() {
		records = 300
	}
	for i, s := range []operators.WindowShape{{Type: operators.WindowTumbling, Size: 10, Offset: 3}, {Type: operators.WindowSliding, Size: 30, Slide: 7},
		{Type: operators.WindowSliding, Size: 4, Slide: 9}, {Type: operators.WindowTumbling, Size: dayMS / 24, Zone: "Europe/Berlin"}} {
		for j, tr := range []operators.WindowTrigger{{AtEnd: true}, {AtEnd: true, Every: 6}, {AtEnd: true, Every: 4, IfChanged: true, Count: 3}, {Count: 2}} {
			w := node(s, statsOf()...)
			w.Trigger, w.Revision = tr, true
			w.Accumulation = []string{operators.Accumulating, operators.Discarding}[(i+j)%2]
			scale := max(1, s.Size/30)
			w.Lateness = 2000 * scale
			w.Trigger.Every *= scale
			rng := rand.New(rand.NewPCG(seed, uint64(i*10+j)))
			var steps []step
			most := int64(0)
			for range records {
				most += rng.Int64N(10) * scale
				r := windowtest.Rec{Key: fmt.Sprintf("k%d", rng.IntN(3)), Time: most - rng.Int64N(50)*scale, V: rng.Int64N(100)}
				if rng.IntN(5) == 0 {
					r.Time = most - rng.Int64N(2500)*scale
				}
				steps = append(steps, step{kind: 'r', rec: &r})
				if rng.IntN(6) == 0 {
					steps = append(steps, step{kind: 'w', wm: most - 20*scale})
				}
			}
			run := func(search bool, restores map[int]int) (out, late []abi.Record, open int) {
				x := newWorld(t, w, "memory", 1)
				defer x.close()
				for lo, at := 0, 0; lo < len(steps); lo = at {
					for at = lo + 1; at < len(steps) && restores[at] == 0; at++ {
					}
					for _, h := range x.tasks {
						if op := h.Op.(*Op); !search {
							op.byEnd = false
						} else if !op.byEnd {
							t.Fatalf("%+v: windows are not in order of their ends", *w)
						}
					}
					x.some(steps[lo:at], 16)
					for _, h := range x.tasks {
						op := h.Op.(*Op)
						open = max(open, len(op.blk)/op.l.headSize)
					}
					if at < len(steps) {
						x.restore(restores[at])
					}
				}
				return x.results(0), x.results(1), open
			}
			want, wantLate, open := run(false, nil)
			got, gotLate, _ := run(true, nil)
			least, results, late = min(least, open), results+len(want), late+len(wantLate)
			sameRecords(t, fmt.Sprintf("seed %d, %+v", seed, *w), got, want)
			sameRecords(t, fmt.Sprintf("seed %d, %+v, late", seed, *w), gotLate, wantLate)
			restores := map[int]int{1 + rng.IntN(len(steps)-1): 1, 1 + rng.IntN(len(steps)-1): 1}
			got, _, _ = run(true, restores)
			sameRecords(t, fmt.Sprintf("seed %d, %+v, restored at %v", seed, *w, restores), got, want)
		}
	}
	if least < 15 || results < 1000 || late == 0 {
		t.Errorf("seed %d: at least %d windows of a key, %d results, %d late", seed, least, results, late)
	}
}

// some feeds steps without an end of input behind them.
func (x *world) some(steps []step, size int) {
	x.t.Helper()
	var b abi.Batch
	for _, s := range steps {
		if s.kind == 'w' {
			b.Mark(s.wm)
		} else {
			r := record(*s.rec)
			b.Append(&r)
			b.Hash = append(b.Hash, x.tasks[0].Ctx.Hasher.Hash(r.Key))
		}
		if b.Len() >= size {
			x.push(&b)
			b.Reset()
		}
	}
	x.push(&b)
}

func sameRecords(t *testing.T, what string, got, want []abi.Record) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d records, expected %d", what, len(got), len(want))
	}
	for i := range got {
		a, b := abi.AppendRecord(nil, &got[i]), abi.AppendRecord(nil, &want[i])
		if !bytes.Equal(a, b) {
			t.Fatalf("%s: record %d is %+v, expected %+v", what, i, got[i], want[i])
		}
	}
}
