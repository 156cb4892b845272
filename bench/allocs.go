package main

import (
	"errors"
	"runtime"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/bench/result"
	"github.com/millrace-io/millrace/host/clock"
	"github.com/millrace-io/millrace/state/backend"
)

// Nothing is allocated per record: less than one allocation in many batches of the guest operator, and
// what a whole job allocates does not grow with its records.

// allocsBound is allocations per batch. Background work of the runtime is in it.
const allocsBound = 0.05

func init() {
	Register("allocs.operator", measureOperatorAllocs)
	Register("allocs.pipeline", measurePipelineAllocs)
}

func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

func measureOperatorAllocs() error {
	u, err := openOp(opSettings{module: "count", function: "count", kind: backend.Memory, budget: 256 << 20})
	if err != nil {
		return err
	}
	defer u.close()
	in := hashed(makeBatches(1024, abi.DefaultBatchRecords, 100_000))
	var failed error
	pass := u.pass(in, &failed)
	pass()
	before := mallocs()
	for range 4 {
		pass()
	}
	n := mallocs() - before
	if failed != nil {
		return failed
	}
	result.AtMost("allocs.operator", float64(n)/float64(4*len(in)), "allocs/batch", allocsBound)
	return u.close()
}

// measurePipelineAllocs compares a job with one of four times as many records.
func measurePipelineAllocs() (err error) {
	w, err := newWorld()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	const few, many = 200_000, 1_200_000
	for _, p := range []struct {
		name string
		yaml func(records int) (string, error)
	}{
		{"allocs.pipeline_binary", func(n int) (string, error) { return binaryPipeline(20_000, n, "0s"), nil }},
		{"allocs.pipeline_ndjson", func(n int) (string, error) { return filesPipeline, w.ndjson("in.ndjson", n, 20_000) }},
	} {
		var counts [2]uint64
		for i, n := range []int{few, many} {
			yaml, err := p.yaml(n)
			if err != nil {
				return err
			}
			r, err := w.run(yaml, clock.Wall{}, nil)
			if err != nil {
				return err
			}
			counts[i] = r.mallocs
		}
		batches := float64(many-few) / abi.DefaultBatchRecords
		result.AtMost(p.name, (float64(counts[1])-float64(counts[0]))/batches, "allocs/batch", allocsBound)
	}
	return nil
}
