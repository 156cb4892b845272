package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/millrace-io/millrace/bench/result"
	"github.com/millrace-io/millrace/guests/cases"
	"github.com/millrace-io/millrace/host/clock"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/connect"
	"github.com/millrace-io/millrace/operators/spec"
)

// What a shadow costs the job beside it: how many records come out in some seconds without it, and with it, by
// turns, of a job that is as fast as it can be, and of one that is paced.
const (
	shadowBound    = 5 // % of the outputs
	shadowFor      = 4 * time.Second
	shadowTurns    = 3
	shadowPipeline = `name: live
checkpoint: {interval: 500ms}
operators:
  - {id: made, source: generator, kind: counter, keys: 100000%s}
  - {id: count, process: {module: count.wasm, function: count}}
  - {id: out, sink: blackhole}
`
)

func init() { Register("shadow.cost", measureShadow) }

func measureShadow() error {
	for _, c := range []struct{ name, rate string }{{"shadow.cost.full_speed", ""}, {"shadow.cost.paced", ", rate: 200000"}} {
		if err := measured(func(w *world, _ *upgradeMeter) error { return w.shadowed(c.name, c.rate) }); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) shadowed(name, rate string) error {
	path := filepath.Join(w.dir, "live.yaml")
	if err := os.WriteFile(path, fmt.Appendf(nil, shadowPipeline, rate), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(w.dir, "other.wasm"), another(cases.Module("count")), 0o644); err != nil {
		return err
	}
	program := filepath.Join(w.dir, "millrace")
	if out, err := exec.Command("go", "build", "-o", program, "./cmd/millrace").CombinedOutput(); err != nil {
		return fmt.Errorf("build the program: %w\n%s", err, out)
	}
	g, err := spec.Load(path, spec.Options{Modules: moduleInfo{}})
	if err != nil {
		return err
	}
	g.File = path
	f := &forkFeed{}
	j, err := job.New(context.Background(), job.Options{Graph: g, StateDir: filepath.Join(w.dir, "state"), Clock: clock.Wall{}, Module: w.compileFile, Restarts: -1,
		Source:   func(n *operators.Node) (operators.Source, error) { return connect.Source(n, connect.Env{}) },
		Operator: func(*operators.Node) (operators.Operator, error) { return forkSink{f}, nil }})
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(context.Background())
	defer end()
	r := &forkRun{Job: j, f: f, end: end, done: make(chan error, 1)}
	go func() {
		_, err := j.Run(ctx)
		r.done <- err
	}()
	if err := r.until(0, 500_000); err != nil {
		return err
	}
	time.Sleep(time.Second) // a checkpoint is there
	var alone, beside float64
	for range shadowTurns {
		alone += f.over(shadowFor)
		n, compared, err := w.beside(f, program, path)
		if err != nil {
			return errors.Join(err, r.stop(false))
		}
		beside += n
		result.Note(name+".compared", compared, "records")
	}
	result.Note(name+".alone", alone/shadowTurns/shadowFor.Seconds(), "records/s")
	result.AtMost(name, 100*(alone-beside)/alone, "%", shadowBound)
	return r.stop(false)
}

// over is how many records come out in a time.
func (f *forkFeed) over(d time.Duration) float64 {
	before, begun := f.outputs.Load(), monotonic()
	time.Sleep(d)
	return float64(f.outputs.Load()-before) * float64(d) / float64(monotonic()-begun)
}

// beside is over while a shadow runs, and how many records that compared.
func (w *world) beside(f *forkFeed, program, pipeline string) (outputs, compared float64, err error) {
	c := exec.Command(program, "shadow", pipeline, "--state-dir", filepath.Join(w.dir, "state"), "--module", filepath.Join(w.dir, "other.wasm"),
		"--for", (shadowFor + 2*time.Second).String(), "--json")
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		return 0, 0, err
	}
	time.Sleep(time.Second) // it has started
	outputs = f.over(shadowFor)
	if err := c.Wait(); err != nil {
		return 0, 0, fmt.Errorf("shadow: %w\n%s", err, out.Bytes())
	}
	n, err := comparedBy(out.Bytes())
	return outputs, n, err
}

// comparedBy is how many records a shadow's report says were compared; none is an error.
func comparedBy(report []byte) (float64, error) {
	var r struct {
		Data struct {
			Operators []struct{ Records int64 }
		}
	}
	if err := json.Unmarshal(report, &r); err != nil {
		return 0, fmt.Errorf("shadow's report: %w: %.300s", err, report)
	}
	n := int64(0)
	for _, o := range r.Data.Operators {
		n += o.Records
	}
	if n == 0 {
		return 0, fmt.Errorf("the shadow compared nothing: %.500s", report)
	}
	return float64(n), nil
}
