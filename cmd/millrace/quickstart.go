package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/examples"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/host/worker"
)

//go:embed quickstart.yaml
var quickstartPipeline []byte

// quickstartRecords is how many payments the pipeline file makes.
const quickstartRecords = 200_000

// quickstartMark is in a folder that quickstart made and may empty.
const quickstartMark = ".made-by-quickstart"

func quickstartCommand(s streams) *cli.Command {
	return &cli.Command{
		Name:  "quickstart",
		Usage: "run a pipeline over generated payments, kill its worker halfway, and count what was lost",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "dir", Value: "millrace-quickstart", Usage: "folder to make"},
			jsonFlag(),
		},
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return refused(fmt.Errorf("quickstart takes no arguments, got %q", c.Args().First()))
			}
			q := &quickstart{s: s, dir: c.String("dir"), talk: newTalk(s.err, slog.LevelWarn, true)}
			if c.Bool("json") {
				q.s.out = s.err
			}
			r, err := q.run(c.Context)
			if err != nil {
				return err
			}
			if c.Bool("json") {
				writeEnvelope(s.out, envelope{OK: true, Data: r})
			}
			return nil
		},
	}
}

type quickstart struct {
	s      streams
	dir    string
	talk   *talk
	result quickstartResult
}

// quickstartResult is counted from the published files, by none of the code that wrote them.
type quickstartResult struct {
	Payments int64  `json:"payments"`
	Counted  int64  `json:"counted"`
	Lost     int64  `json:"lost"`
	Doubled  int64  `json:"doubled"`
	Killed   int    `json:"killed_pid"`
	Resumed  uint64 `json:"resumed_from_checkpoint"`
	Pipeline string `json:"pipeline"`
}

func (q *quickstart) run(ctx context.Context) (*quickstartResult, error) {
	if err := q.prepare(); err != nil {
		return nil, err
	}
	file := filepath.Join(q.dir, "pipeline.yaml")
	g, err := load(ctx, file)
	if err != nil {
		return nil, err
	}
	r := &q.result
	r.Payments, r.Pipeline = quickstartRecords, file
	d := worker.Deploy{Graph: g, StateDir: filepath.Join(q.dir, ".millrace", g.Name), CacheDir: cacheDir()}
	q.talk.line("%s payments through a sandboxed Rust function that keeps state per card; alerts follow", thousands(r.Payments))
	if err := q.untilKilled(ctx, d); err != nil {
		return nil, err
	}
	if err := q.toTheEnd(ctx, d); err != nil {
		return nil, err
	}
	if err := q.count(filepath.Join(q.dir, "counts")); err != nil {
		return nil, err
	}
	q.report(file)
	if r.Lost != 0 || r.Doubled != 0 {
		return nil, &exitError{code: exitFailed, kind: "failed", data: r, err: errors.New("payments were lost or doubled: this is a fault of Millrace")}
	}
	return r, nil
}

// prepare makes the folder, empty but for the pipeline file and its modules.
func (q *quickstart) prepare() error {
	entries, err := os.ReadDir(q.dir)
	if err == nil && len(entries) > 0 {
		if _, err := os.Stat(filepath.Join(q.dir, quickstartMark)); err != nil {
			return refused(fmt.Errorf("folder %s is there and was not made by quickstart; name another with --dir", q.dir))
		}
	}
	for _, name := range []string{"counts", ".millrace", "pipeline.yaml", "fraud.wasm", "wordcount.wasm"} {
		if err := os.RemoveAll(filepath.Join(q.dir, name)); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(q.dir, 0o755); err != nil {
		return refused(err)
	}
	files := map[string][]byte{quickstartMark: nil, "pipeline.yaml": quickstartPipeline, "fraud.wasm": examples.Fraud, "wordcount.wasm": examples.WordCount}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(q.dir, name), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// untilKilled runs a worker process and kills it once half the input is read and a checkpoint is complete.
func (q *quickstart) untilKilled(ctx context.Context, d worker.Deploy) error {
	p, err := startWorker(q.s, nil)
	if err != nil {
		return err
	}
	defer p.end()
	if err := p.Deploy(ctx, d); err != nil {
		return runError(err, job.Result{})
	}
	for {
		st, err := p.Stats(ctx)
		if err != nil {
			return runError(err, job.Result{})
		}
		if st.Read >= quickstartRecords/2 && st.Checkpoint > 0 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	q.result.Killed = p.pid()
	q.talk.line("\n%s payments in: kill -9 %d, the worker process\n", thousands(quickstartRecords/2), p.pid())
	p.kill()
	return nil
}

// toTheEnd starts another worker, which goes on from the last checkpoint.
func (q *quickstart) toTheEnd(ctx context.Context, d worker.Deploy) error {
	p, err := startWorker(q.s, func(e job.Event) {
		if e.Kind == job.EventRestored {
			q.result.Resumed = uint64(e.Checkpoint)
			q.talk.line("a new worker goes on from checkpoint %d; alerts since then are printed again, files are not written twice\n", e.Checkpoint)
		}
	})
	if err != nil {
		return err
	}
	defer p.end()
	if err := p.Deploy(ctx, d); err != nil {
		return runError(err, job.Result{})
	}
	res, err := p.Wait(ctx)
	if err != nil {
		return runError(err, res)
	}
	return nil
}

func (q *quickstart) report(file string) {
	r := &q.result
	q.talk.line("\n%s payments made, %s counted in %s: %d lost, %d doubled", thousands(r.Payments), thousands(r.Counted),
		filepath.Join(q.dir, "counts"), r.Lost, r.Doubled)
	state := filepath.Join(q.dir, ".millrace", "payments")
	q.talk.line("pipeline file: %s\nnext:\n  millrace explain %s\n  millrace snapshot list %s\n  millrace inspect %s", file,
		file, state, filepath.Join(q.dir, "fraud.wasm"))
}
