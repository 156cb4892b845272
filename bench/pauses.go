package main

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/bench/result"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/state/backend"
)

// What a barrier and the growth of a table cost the task, in CPU time of its thread.

// Bounds, ms.
const (
	pauseBound = 0.5
	delayBound = 5
)

func init() { Register("pause", measurePauses) }

// measurePauses grows a state to 1 M keys through the operator, then makes cuts of 1 M dirty entries
// while batches go on.
func measurePauses() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	u, err := openOp(opSettings{module: "count", function: "count", kind: backend.Memory, budget: 512 << 20})
	if err != nil {
		return err
	}
	defer u.close()
	const keys = 1_000_000
	timed := func(b *abi.Batch) (time.Duration, error) {
		start := result.ThreadCPU()
		err := u.one(b)
		return result.ThreadCPU() - start, err
	}
	var growing []time.Duration
	err = eachKey(keys, func(b *abi.Batch) error {
		d, err := timed(b)
		growing = append(growing, d)
		return err
	})
	if err != nil {
		return err
	}
	usual := typical(growing)
	result.AtMost("pause.growth", ms(slices.Max(growing)-usual), "ms", delayBound)
	rng := rand.New(rand.NewPCG(benchSeed, 12))
	var pauses, worst []float64
	for i := range result.Runs {
		if i > 0 { // all of it dirty again
			if err := eachKey(keys, u.one); err != nil {
				return err
			}
		}
		runtime.GC()
		start := result.ThreadCPU()
		p, err := u.Barrier(checkpoint.Barrier{ID: checkpoint.ID(i + 1)})
		if err != nil {
			return err
		}
		pauses = append(pauses, ms(result.ThreadCPU()-start))
		var during []time.Duration
		for done := false; !done; {
			d, err := timed(randomBatch(rng, keys))
			if err != nil {
				return err
			}
			during = append(during, d)
			select {
			case <-p.Done():
				done = true
			default:
			}
		}
		if s, err := p.Result(); err != nil {
			return err
		} else if n := dirtyIn(&s); n != keys {
			return fmt.Errorf("the cut has %d entries, expected %d", n, keys)
		}
		if err := u.Complete(checkpoint.ID(i + 1)); err != nil {
			return err
		}
		worst = append(worst, ms(slices.Max(during)-usual))
	}
	result.AtMost("pause.barrier_1M_dirty", result.Median(pauses), "ms", pauseBound)
	result.AtMost("pause.copying", result.Median(worst), "ms", delayBound)
	return u.close()
}

// dirtyIn is the number of entries of the newest run of the cut.
func dirtyIn(s *checkpoint.OperatorSnapshot) uint64 {
	if s.Keyed == nil || len(s.Keyed.States) == 0 || len(s.Keyed.States[0].Runs) == 0 {
		return 0
	}
	return s.Keyed.States[0].Runs[0].Count
}

var pauseBatch abi.Batch

func randomBatch(rng *rand.Rand, keys int) *abi.Batch {
	pauseBatch.Reset()
	for range abi.DefaultBatchRecords {
		appendWide(&pauseBatch, rng.IntN(keys))
	}
	return &pauseBatch
}

func typical(d []time.Duration) time.Duration {
	s := slices.Clone(d)
	slices.Sort(s)
	return s[len(s)/2]
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }
