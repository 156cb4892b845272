package main

import (
	"errors"
	"fmt"

	"github.com/millrace-io/millrace/bench/result"
	"github.com/millrace-io/millrace/host/clock"
)

// batchRatio is how fast a bounded input has to be read with the settings of a batch, of those of a stream.
const batchRatio = 1.0

func init() { Register("batch.ratio", measureBatch) }

// batchPipeline counts in windows: all of it but the settings is the same in both modes.
func batchPipeline(mode string) string {
	return fmt.Sprintf(`name: batch
mode: %s
operators:
  - {id: lines, source: file, path: in.ndjson, format: ndjson, fields: {ts: timestamp, key: string, amount: int64}, time: {field: ts, out_of_orderness: 1s}}
  - {id: by-key, key_by: key}
  - {id: sums, window: {type: tumbling, size: 10s}, aggregates: {n: count, sum: {sum: amount}}}
  - {id: out, sink: file, path: out/}
`, mode)
}

// measureBatch runs the same file in both modes in turns. A stream's second is one of the process' CPU
// time, so that how often it makes a checkpoint does not depend on what else the machine does.
func measureBatch() (err error) {
	w, err := newWorld()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := w.ndjson("in.ndjson", 1_500_000, 20_000); err != nil {
		return err
	}
	var stream, batch, ratios []float64
	made := int64(0)
	for i := range 1 + result.Runs {
		s, err := w.run(batchPipeline("stream"), cpuClock{}, nil)
		if err != nil {
			return err
		}
		b, err := w.run(batchPipeline("batch"), clock.Wall{}, nil)
		if err != nil {
			return err
		}
		if b.checkpoints != 1 {
			return fmt.Errorf("%d checkpoints in a batch, expected the final one", b.checkpoints)
		}
		if i == 0 {
			continue
		}
		made += s.checkpoints - b.checkpoints
		stream, batch, ratios = append(stream, s.rate()), append(batch, b.rate()), append(ratios, b.rate()/s.rate())
	}
	if made == 0 {
		return errors.New("the stream made no checkpoint before its end")
	}
	result.Note("batch.stream", result.Median(stream), "records/s/core")
	result.Note("batch.batch", result.Median(batch), "records/s/core")
	result.AtLeast("batch.ratio", result.Median(ratios), "of_stream", batchRatio)
	return nil
}
