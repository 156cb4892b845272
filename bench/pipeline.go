package main

import (
	"errors"
	"fmt"

	"github.com/millrace-io/millrace/bench/result"
	"github.com/millrace-io/millrace/host/clock"
)

// Whole pipelines through the job runtime: CPU of all threads, from the first task to the last commit.

// Bounds, records per CPU-second.
const (
	pipelineFiles      = 0.6e6
	pipelineBinary     = 1.3e6
	pipelineCheckpoint = 0.80 // of the same without checkpoints
	checkpoint20k      = 0.95
)

func init() {
	Register("pipeline.ndjson", measureFiles)
	Register("pipeline.binary", measureBinary)
	Register("pipeline.checkpoints", func() error {
		return measureCheckpoints("pipeline.checkpoints", 100_000, 12_000_000, pipelineCheckpoint, 5)
	})
	Register("checkpoint.20k_keys", func() error {
		return measureCheckpoints("checkpoint.20k_keys", 20_000, 12_000_000, checkpoint20k, 7)
	})
}

const filesPipeline = `name: files
mode: stream
checkpoint: {interval: 0s}
operators:
  - {id: lines, source: file, path: in.ndjson, format: ndjson, fields: {ts: timestamp, key: string, amount: int64}, time: {field: ts}}
  - {id: by-key, key_by: key}
  - {id: count, process: {module: count.wasm, function: count_row}}
  - {id: out, sink: file, path: out/}
`

func binaryPipeline(keys, records int, interval string) string {
	return fmt.Sprintf(`name: binary
mode: stream
checkpoint: {interval: %s}
operators:
  - {id: made, source: generator, kind: counter, records: %d, keys: %d}
  - {id: count, process: {module: count.wasm, function: count}}
  - {id: out, sink: blackhole}
`, interval, records, keys)
}

// repeated runs a pipeline once to warm up and result.Runs times, and returns the median rate.
func (w *world) repeated(yaml string, c clock.Clock) (float64, error) {
	var rates []float64
	for i := range 1 + result.Runs {
		r, err := w.run(yaml, c, nil)
		if err != nil {
			return 0, err
		}
		if i > 0 {
			rates = append(rates, r.rate())
		}
	}
	return result.Median(rates), nil
}

func measureFiles() (err error) {
	w, err := newWorld()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := w.ndjson("in.ndjson", 1_500_000, 100_000); err != nil {
		return err
	}
	rate, err := w.repeated(filesPipeline, clock.Wall{})
	if err != nil {
		return err
	}
	judge(nativeCount100k(), "pipeline.ndjson", rate, pipelineFiles)
	return nil
}

func measureBinary() (err error) {
	w, err := newWorld()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	rate, err := w.repeated(binaryPipeline(100_000, 2_000_000, "0s"), clock.Wall{})
	if err != nil {
		return err
	}
	judge(nativeCount100k(), "pipeline.binary", rate, pipelineBinary)
	return nil
}

// measureCheckpoints runs the binary pipeline in turn with a checkpoint each second and with the final
// one only. The second is one of the process' CPU time.
func measureCheckpoints(name string, keys, records int, bound float64, runs int) (err error) {
	w, err := newWorld()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	var with, without, ratios []float64
	made := int64(0)
	for i := range 1 + runs {
		a, err := w.run(binaryPipeline(keys, records, "1s"), cpuClock{}, nil)
		if err != nil {
			return err
		}
		b, err := w.run(binaryPipeline(keys, records, "0s"), cpuClock{}, nil)
		if err != nil {
			return err
		}
		if i == 0 {
			continue
		}
		with, without, ratios = append(with, a.rate()), append(without, b.rate()), append(ratios, a.rate()/b.rate())
		made += a.checkpoints - b.checkpoints
	}
	if made == 0 {
		return errors.New("no checkpoint was made in between")
	}
	result.Note(name+".with", result.Median(with), "records/s/core")
	result.Note(name+".without", result.Median(without), "records/s/core")
	result.Note(name+".made_per_run", float64(made)/float64(runs), "checkpoints")
	result.AtLeast(name+".ratio", result.Median(ratios), "of_without", bound)
	return nil
}
