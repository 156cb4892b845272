package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/millrace-io/millrace/bench/result"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/archive"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/host/ci"
	"github.com/millrace-io/millrace/host/clock"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/host/record"
	"github.com/millrace-io/millrace/host/worker"
	"github.com/millrace-io/millrace/operators/spec"
)

// A recorded slice of payments over 10,000 cards through two versions of the function of examples/backfill: a map of
// hours, a total and a timer per card and hour. CI_RECORDS says how many records it has.

const (
	ciRecords  = 1_000_000
	ciBound    = 30 // s
	ciPipeline = `name: payments
checkpoint: {interval: 1h}
operators:
  - {id: made, source: generator, kind: payments, records: 1000000000, keys: 10000, step: 100ms}
  - {id: by-card, key_by: card}
  - {id: totals, process: {module: old.wasm, function: per_country}}
  - {id: out, sink: blackhole}
`
)

func init() { Register("ci.1m", measureCI) }

func measureCI() (err error) {
	records := int64(ciRecords)
	if n, err := strconv.ParseInt(os.Getenv("CI_RECORDS"), 10, 64); err == nil && n > 0 {
		records = n
	}
	dir, err := os.MkdirTemp("", "millrace-bench-ci-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for to, from := range map[string]string{"old.wasm": "backfill.wasm", "new.wasm": "rushed/rushed.wasm"} {
		wasm, err := os.ReadFile(filepath.Join("examples/backfill", from))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, to), wasm, 0o600); err != nil {
			return err
		}
	}
	slice := filepath.Join(dir, "slice.snap")
	begun := time.Now()
	if err := ciSlice(dir, slice, records); err != nil {
		return err
	}
	result.Note("ci.record", time.Since(begun).Seconds(), "s")
	if st, err := os.Stat(slice); err == nil {
		result.Note("ci.slice", float64(st.Size())/float64(records), "bytes/record")
	}
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		return err
	}
	begun = time.Now()
	r, err := ci.Run(context.Background(), ci.Options{Slice: slice, WorkDir: work, Modules: []ci.Module{{Path: filepath.Join(dir, "new.wasm")}}})
	if err != nil {
		return err
	}
	took := time.Since(begun)
	r.Judge(&ci.Policy{})
	if len(r.Operators) != 1 || r.Operators[0].Records != records || records >= 100_000 && r.Operators[0].Timers == 0 || !r.Within {
		r.Text(os.Stderr)
		return fmt.Errorf("ci.1m: the two versions should do the same to %d payments by card", records)
	}
	result.Note("ci.fuel", r.Operators[0].Ratio(), "of the old version's")
	result.AtMost("ci.1m", took.Seconds(), "s", ciBound)
	return nil
}

// ciSlice runs the pipeline for a moment and exports a snapshot of it with what follows.
func ciSlice(dir, slice string, records int64) (err error) {
	ctx := context.Background()
	file := filepath.Join(dir, "p.yaml")
	if err := os.WriteFile(file, []byte(ciPipeline), 0o600); err != nil {
		return err
	}
	mods, err := worker.NewModules(ctx, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, mods.Close()) }()
	g, err := spec.Load(file, spec.Options{Modules: mods})
	if err != nil {
		return err
	}
	g.File = file
	w := worker.NewLocal(worker.Options{})
	defer func() { err = errors.Join(err, w.Close()) }()
	if err := w.Deploy(ctx, worker.Deploy{Graph: g, StateDir: filepath.Join(dir, "state")}); err != nil {
		return err
	}
	p, err := w.Savepoint(ctx, job.SavepointRequest{Tag: "slice", Stop: true})
	if err != nil {
		return err
	}
	if _, err := w.Wait(ctx); err != nil {
		return err
	}
	store, err := snapstore.Open(filepath.Join(dir, "state", "snapshots"), snapstore.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer store.Close()
	var m *checkpoint.Manifest
	if m, err = store.Load(p.ID); err != nil {
		return err
	}
	return archive.ExportInputFile(ctx, snapstore.Disk{}, slice, store, p.ID, archive.Sealing{}, func(ctx context.Context, to io.Writer) error {
		_, err := record.Write(ctx, to, record.Options{Graph: g, From: m, Records: records, Clock: clock.Wall{}})
		return err
	})
}
