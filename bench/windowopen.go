package main

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/bench/result"
	"github.com/millrace-io/millrace/operators"
)

// Many windows of a key may be open at once, for a large lateness. A record's cost then must not be that of
// all of them: with a thousand open windows and ten records of a key in each it is held against that with two.
// Where a key has one record in each window its block is copied for every one of them; that is told without
// a bound.

// openCost is how much more a record and its results may cost.
const openCost = 3

func init() { Register("window.open_1000", measureOpen) }

func measureOpen() error {
	const name = "window.open_1000"
	var failed error
	pair := func(keys int) (few, many, ratio float64) {
		in := sparse(512, keys)
		f, fr := latePass(in, 1_000, &failed)
		m, mr := latePass(in, 1_000_000, &failed)
		with := func(pass func() int, results *int) func() int { return func() int { return pass() + *results } }
		return result.Pair(with(f, fr), with(m, mr))
	}
	few, many, ratio := pair(10)
	_, _, worst := pair(100)
	if failed != nil {
		return failed
	}
	result.Note(name+".few", 1e9/few, "ns_per_record_or_result")
	result.Note(name+".many", 1e9/many, "ns_per_record_or_result")
	result.Note(name+".one_record_each", worst, "of_few")
	result.AtMost(name+".cost", ratio, "of_few", openCost)
	return nil
}

// latePass is a pass of a count over windows of 1 s with an allowed lateness.
func latePass(in []*abi.Batch, lateness int64, failed *error) (pass func() int, results *int) {
	out := &countedResults{}
	s := operators.WindowShape{Type: operators.WindowTumbling, Size: 1000}
	w := &operators.WindowNode{Window: s, Time: operators.TimeEvent, Trigger: operators.DefaultTrigger(s), Accumulation: operators.Accumulating,
		Lateness: lateness, Aggregates: []operators.WindowAggregate{{Name: "n", Kind: operators.AggCount}}}
	return func() int {
		out.n = 0
		err := runWindow(w, nil, in, out)
		if err == nil && out.n == 0 {
			err = errors.New("no results")
		}
		if err != nil {
			*failed = err
			return 1
		}
		return countRecords(in)
	}, &out.n
}

// sparse is batches of records 10 ms apart, up to 50 ms out of order, with a watermark each 100 ms.
func sparse(n, keys int) []*abi.Batch {
	rng := rand.New(rand.NewPCG(benchSeed, uint64(keys)))
	out := make([]*abi.Batch, n)
	ms := int64(0)
	for i := range out {
		out[i] = &abi.Batch{}
		for range abi.DefaultBatchRecords {
			r := abi.Record{Time: max(0, ms-rng.Int64N(50)), Key: fmt.Appendf(nil, "k%011d", rng.IntN(keys)), Value: []byte("x")}
			out[i].Append(&r)
			if ms += 10; ms%100 == 0 {
				out[i].Mark(ms - 51)
			}
		}
	}
	return hashed(out)
}
