package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/host/worker"
	"github.com/millrace-io/millrace/operators/connect"
)

// engines are what --engine takes.
var engines = []string{worker.EngineCompiler, worker.EngineInterpreter, worker.EngineWasmtime}

func runCommand(s streams) *cli.Command {
	return &cli.Command{
		Name:      "run",
		Usage:     "run a pipeline in this process until its input ends or it is stopped",
		ArgsUsage: "pipeline.yaml",
		Description: "Goes on from the newest checkpoint in the state folder. Ctrl-C makes a last checkpoint and\n" +
			"stops; Ctrl-C twice stops at once. Exit codes: 0 done, 1 failed, 2 refused, 3 another run has the\n" +
			"state folder, 130 and 143 stopped by a signal.",
		Flags: []cli.Flag{
			stateDirFlag(), jsonFlag(),
			&cli.BoolFlag{Name: "fresh", Usage: "forget state and staged output; published output stays"},
			&cli.Uint64Flag{Name: "restore", Usage: "start from checkpoint `ID`, withdrawing later ones"},
			&cli.StringSliceFlag{Name: "drop", Usage: "`OPERATOR` whose state may be dropped if the pipeline no longer has it"},
			&cli.BoolFlag{Name: "retry-refused", Usage: "run modules that were taken out after an upgrade"},
			&cli.StringFlag{Name: "log-level", Value: "info", Usage: "debug, info, warn or error"},
			&cli.BoolFlag{Name: "quiet", Usage: "no progress line"},
			&cli.StringFlag{Name: "query", Usage: "answer queries of state on a loopback `ADDRESS`, such as 127.0.0.1:0"},
			&cli.StringFlag{Name: "cpuprofile", Usage: "write a CPU profile of the run to `FILE`, for go tool pprof"},
			&cli.StringFlag{Name: "engine", Value: worker.EngineCompiler, Usage: worker.EngineCompiler + " or " + worker.EngineInterpreter + "; " + worker.EngineWasmtime + " in a build with that tag, to compare"},
		},
		Action: func(c *cli.Context) error { return runPipeline(c, s) },
	}
}

func runPipeline(c *cli.Context, s streams) error {
	path, err := pipelineArg(c)
	if err != nil {
		return err
	}
	level, err := logLevel(c.String("log-level"))
	if err != nil {
		return refused(err)
	}
	if e := c.String("engine"); !slices.Contains(engines, e) {
		return refused(fmt.Errorf("engine %q, expected one of %s", e, strings.Join(engines, ", ")))
	}
	g, err := load(c.Context, path)
	if err != nil {
		return err
	}
	out := s.out
	if c.Bool("json") {
		out = io.Discard
		for _, n := range g.Nodes {
			if n.Sink != nil && n.Sink.Connector == "stdout" {
				return refused(errors.New("a pipeline with a stdout sink can't run with --json: both write to stdout"))
			}
		}
	}
	dir := stateDir(c, path, g.Name)
	t := newTalk(s.err, level, c.Bool("quiet") || c.Bool("json"))
	t.line("pipeline %s, state in %s", g.Name, dir)
	t.line("%v", modeOf(g))
	w := worker.NewLocal(worker.Options{Log: slog.New(t.handler), Event: t.event, Connect: connect.Env{Stdin: s.in, Stdout: out}, Secrets: secrets()})
	defer w.Close()
	stopProfile, err := startProfile(c.String("cpuprofile"))
	if err != nil {
		return refused(err)
	}
	defer stopProfile()
	d := worker.Deploy{Graph: g, StateDir: dir, CacheDir: cacheDir(), Fresh: c.Bool("fresh"),
		Restore: checkpoint.ID(c.Uint64("restore")), Drop: c.StringSlice("drop"), RetryRefused: c.Bool("retry-refused"), Engine: c.String("engine")}
	p := newServed(w, d)
	defer p.close(t)
	stopQueries, err := p.serveQueries(c.String("query"), t)
	if err != nil {
		return err
	}
	defer stopQueries()
	res, sig, err := attend(c.Context, w, d, t, func() { p.serve(dir, t) })
	p.close(t)
	t.stop()
	if p.stopped.Load() && err != nil {
		err = errStoppedAtOnce
	}
	if err != nil && sig == nil {
		return runError(err, res)
	}
	if !c.Bool("json") {
		t.summary(res)
	}
	if sig != nil {
		return signalled(sig, res, err)
	}
	return show(c, streams{out: s.out, err: s.err}, res, func(io.Writer) {})
}

// bounce is how soon a second signal is still the first one.
const bounce = 200 * time.Millisecond

// attend deploys, passes signals on and waits for the end. It calls up once the pipeline runs. sig is the
// signal that stopped it.
func attend(ctx context.Context, w worker.Worker, d worker.Deploy, t *talk, up func()) (res job.Result, sig os.Signal, err error) {
	sigs := make(chan os.Signal, 4)
	signal.Notify(sigs, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(sigs)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type outcome struct {
		res job.Result
		err error
	}
	done := make(chan outcome, 1)
	var first time.Time
	go func() {
		if err := w.Deploy(ctx, d); err != nil {
			done <- outcome{err: err}
			return
		}
		up()
		t.start(func() (job.Stats, error) { return w.Stats(ctx) })
		res, err := w.Wait(ctx)
		done <- outcome{res, err}
	}()
	for {
		select {
		case o := <-done:
			return o.res, sig, o.err
		case got := <-sigs:
			if sig != nil && time.Since(first) < bounce {
				continue // one key press can reach a process twice: through its group and by itself
			}
			if sig != nil {
				t.line("%v again: stopping at once", got)
				_ = w.Stop(ctx, worker.Stop{Now: true})
				return res, got, errors.New("stopped at once, without a checkpoint")
			}
			sig, first = got, time.Now()
			t.line("%v: making a last checkpoint; once more stops at once", got)
			if err := w.Stop(ctx, worker.Stop{}); err != nil {
				return res, sig, err
			}
		}
	}
}

func signalled(sig os.Signal, res job.Result, err error) error {
	x := &exitError{code: exitInterrupted, kind: "stopped", data: res, err: errors.New("")}
	switch sig {
	case syscall.SIGTERM:
		x.code = exitTerminated
	case syscall.SIGHUP:
		x.code = exitHungUp
	}
	if err != nil {
		x.err = err
	}
	return x
}

// runError gives an error the exit code of its kind.
func runError(err error, res job.Result) error {
	kind := worker.Classify(err)
	x := &exitError{code: exitFailed, kind: string(kind), err: err, data: res}
	switch kind {
	case worker.KindLocked:
		x.code = exitBusy
	case worker.KindRefused, worker.KindDamaged:
		x.code = exitRefused
	}
	return x
}

func logLevel(s string) (slog.Level, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(s)); err != nil {
		return 0, fmt.Errorf("log level %q, expected debug, info, warn or error", s)
	}
	return l, nil
}

// startProfile profiles until stop is called; path "" is nothing to do.
func startProfile(path string) (stop func(), err error) {
	if path == "" {
		return func() {}, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		f.Close()
	}, nil
}
