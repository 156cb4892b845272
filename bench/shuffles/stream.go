package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/millrace-io/millrace/operators/window/windowtest"
)

const (
	records   = 150
	keys      = 7
	disorder  = 20 // ms: how far a record may be behind the greatest time
	perStream = 50 // orders of arrival of the same records
)

// stream makes the records of a number. Times are even, so that sessions, whose gaps are odd, never just touch:
// what those give is a matter of order.
func stream(number uint64) []windowtest.Rec {
	rng := rand.New(rand.NewPCG(number, 1))
	rs := make([]windowtest.Rec, records)
	for i := range rs {
		rs[i] = windowtest.Rec{Key: fmt.Sprintf("key%d", rng.IntN(keys)), Time: 2*rng.Int64N(120) - 60, V: rng.Int64N(1000) - 500}
	}
	return rs
}

// event is what happens next: a record, a watermark, or the clock.
type event struct {
	kind byte // 'r', 'w', 'c'
	rec  int32
	ms   int64
}

// arrivals are the records of a stream in the order of a seed, in which none comes more than disorder behind the
// greatest time, with watermarks that are so far behind as none is late: ahead ms less than disorder, where
// windows allow for that lateness.
func arrivals(seed uint64, rs []windowtest.Rec, ahead int64, clocks bool, es []event) []event {
	rng := rand.New(rand.NewPCG(seed, 2))
	type arrival struct {
		at  int64
		rec int32
	}
	var order [records]arrival
	for i := range rs {
		order[i] = arrival{rs[i].Time + rng.Int64N(disorder), int32(i)}
	}
	slices.SortStableFunc(order[:], func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	most, now := int64(-1<<62), int64(0)
	for _, a := range order {
		es = append(es, event{kind: 'r', rec: a.rec})
		if most = max(most, rs[a.rec].Time); rng.IntN(4) == 0 {
			es = append(es, event{kind: 'w', ms: most - (disorder - ahead) - 1})
		}
		if clocks && rng.IntN(4) == 0 {
			now += 1 + rng.Int64N(6)
			es = append(es, event{kind: 'c', ms: now})
		}
	}
	return es
}

// variant is how an order is run: everything that must not show.
type variant struct {
	disk     bool
	spills   bool // on disk, with next to no memory
	batch    int
	tasks    int
	restores []restore
}

// restore is a cut before event number at; `past` events later everything is lost and goes on from the cut in
// so many tasks.
type restore struct{ at, past, tasks int }

var (
	batchSizes = [...]int{1, 64, 1024}
	taskCounts = [...]int{1, 2, 4}
)

// variants is how many kinds of them there are: backend x batch x tasks x number of restores.
const variants = 2 * len(batchSizes) * len(taskCounts) * 3

// variantOf is that of a kind, for an order with so many events. Where and to how many tasks it is restored is
// the seed's.
func variantOf(kind int, seed uint64, events int) (v variant) {
	rng := rand.New(rand.NewPCG(seed, 3))
	v.disk = kind%2 == 1
	v.spills = v.disk && rng.IntN(3) == 0
	kind /= 2
	v.batch = batchSizes[kind%len(batchSizes)]
	kind /= len(batchSizes)
	v.tasks = taskCounts[kind%len(taskCounts)]
	kind /= len(taskCounts)
	for range kind {
		v.restores = append(v.restores, restore{at: rng.IntN(events + 1), past: rng.IntN(20), tasks: taskCounts[rng.IntN(len(taskCounts))]})
	}
	slices.SortFunc(v.restores, func(a, b restore) int { return cmp.Compare(a.at, b.at) })
	return v
}

// kindFor spreads the kinds over the seeds of a combination: every one comes once in each `variants` seeds.
func kindFor(c *combo, seed uint64) int {
	return int((seed*25 + uint64(c.number)*0x9e3779b97f4a7c15>>40) % uint64(variants))
}

func (v variant) String() string {
	kind := "memory"
	if v.disk {
		kind = "disk"
	}
	if v.spills {
		kind = "disk and little memory"
	}
	return fmt.Sprintf("%s, batches of %d, %d tasks, restores (before event, lost events, tasks) %v", kind, v.batch, v.tasks, v.restores)
}
