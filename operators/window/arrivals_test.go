package window

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/window/windowtest"
)

var shuffleShapes = []operators.WindowShape{
	{Type: operators.WindowTumbling, Size: 10, Offset: 3},
	{Type: operators.WindowSliding, Size: 12, Slide: 4},
	{Type: operators.WindowSliding, Size: 10, Slide: 4, Offset: -1},
	{Type: operators.WindowSliding, Size: 4, Slide: 10},
	{Type: operators.WindowCumulate, Size: 12, Step: 4, Offset: 1},
	{Type: operators.WindowSession, Gap: 7},
}

var shuffleTriggers = []operators.WindowTrigger{
	{AtEnd: true},
	{AtEnd: true, Every: 3, IfChanged: true},
	{AtEnd: true, Every: 4},
	{AtEnd: true, Count: 3},
	{AtEnd: true, Every: 5, IfChanged: true, Count: 2},
}

// arrivals are records in an order in which none comes more than delay behind the greatest time, with
// watermarks; times are even, so that sessions never just touch.
func arrivals(rng *rand.Rand, n int, delay int64) (rs []windowtest.Rec, steps []step) {
	type arrival struct {
		windowtest.Rec
		at int64
	}
	var as []arrival
	for range n {
		r := windowtest.Rec{Key: fmt.Sprintf("key%d", rng.IntN(7)), Time: 2*rng.Int64N(120) - 60, V: rng.Int64N(1000) - 500}
		as = append(as, arrival{r, r.Time + rng.Int64N(delay)})
		rs = append(rs, r)
	}
	slices.SortFunc(as, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	most := int64(-1 << 62)
	for i := range as {
		steps = append(steps, step{kind: 'r', rec: &as[i].Rec})
		if most = max(most, as[i].Time); rng.IntN(4) == 0 {
			steps = append(steps, step{kind: 'w', wm: most - delay - 1})
		}
	}
	return rs, steps
}
