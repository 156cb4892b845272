package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/bench/result"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/host/clock"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/host/why"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/connect"
	"github.com/millrace-io/millrace/operators/spec"
)

// Why an output is there: every key gets its state, the job goes on for some seconds behind a snapshot, and one
// of the last outputs is asked for. UPGRADE_KEYS says how many keys there are; 16 million make 1 GB of state.
const (
	whyBound    = 5 // s
	whyBehind   = 5_000_000
	whyPipeline = `name: why
checkpoint: {interval: 1h}
memory: 3GiB
operators:
  - {id: made, source: generator, kind: counter, keys: %d, splits: 1}
  - {id: count, process: {module: count.wasm, function: count}}
  - {id: out, sink: stdout, provenance: true}
`
)

func init() { Register("why.key", measureWhy) }

// whySink keeps the last line that its sink would write.
type whySink struct {
	mu   sync.Mutex
	enc  *operators.LineEncoder
	line []byte
	n    int64
}

// Open implements operators.Operator.
func (s *whySink) Open(ctx *operators.Context) error {
	s.enc.Snapshot = ctx.Snapshot
	return nil
}

// Batch implements operators.Operator.
func (s *whySink) Batch(_ int, b *abi.Batch, _ operators.Collector) (err error) {
	if b.Len() == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n += int64(b.Len())
	s.line, err = s.enc.Append(s.line[:0], b.Frame(b.Len()-1))
	return err
}

// Close implements operators.Operator.
func (s *whySink) Close() error { return nil }

// whyRun runs until the sink has n records; stop: with a last checkpoint.
func (w *world) whyRun(g *operators.Graph, n int64, stop bool) (line []byte, err error) {
	var s *whySink
	var mu sync.Mutex
	j, err := job.New(context.Background(), job.Options{Graph: g, StateDir: filepath.Join(w.dir, "state"), Clock: clock.Wall{}, Module: w.compileFile, Restarts: -1,
		Operator: func(n *operators.Node) (operators.Operator, error) {
			if n.Sink == nil {
				return connect.Operator(n, connect.Env{})
			}
			mu.Lock()
			defer mu.Unlock()
			s = &whySink{enc: operators.NewLineEncoder(n.Sink)}
			return s, nil
		}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := j.Run(ctx)
		done <- err
	}()
	taken := func() int64 {
		mu.Lock()
		defer mu.Unlock()
		if s == nil {
			return 0
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.n
	}
	for taken() < n {
		select {
		case err := <-done:
			return nil, errors.Join(err, errors.New("the job has ended"))
		case <-time.After(5 * time.Millisecond):
		}
	}
	if stop {
		j.Stop()
		err = <-done
		return nil, err
	}
	cancel()
	<-done
	return s.line, nil
}

func measureWhy() error {
	return measured(func(w *world, m *upgradeMeter) error {
		path := filepath.Join(w.dir, "pipeline.yaml")
		if err := os.WriteFile(path, fmt.Appendf(nil, whyPipeline, m.keys), 0o644); err != nil {
			return err
		}
		g, err := spec.Load(path, spec.Options{Modules: moduleInfo{}})
		if err != nil {
			return err
		}
		if _, err := w.whyRun(g, 4*m.keys, true); err != nil {
			return err
		}
		line, err := w.whyRun(g, whyBehind, false)
		if err != nil {
			return err
		}
		return w.ask(g, line)
	})
}

// ask measures how long an explanation takes.
func (w *world) ask(g *operators.Graph, line []byte) (err error) {
	begun := monotonic()
	store, err := snapstore.Open(filepath.Join(w.dir, "state", "snapshots"), snapstore.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	from, err := store.Latest(context.Background())
	if err != nil {
		return err
	}
	t, err := why.NewTarget(g, "", line)
	if err != nil {
		return err
	}
	if t.Snapshot != from.ID {
		return fmt.Errorf("the output %s is not of snapshot %d", line, from.ID)
	}
	scratch := filepath.Join(w.dir, "why")
	if err := os.Mkdir(scratch, 0o755); err != nil {
		return err
	}
	s, err := why.Explain(context.Background(), why.Options{Store: store, From: from, Graph: g, Module: w.compileFile, Connect: connect.Env{},
		Scratch: scratch, Target: t, Clock: clock.Wall{}})
	if err != nil {
		return err
	}
	c := s.Chapters[len(s.Chapters)-1]
	if len(c.Before) == 0 || len(c.Steps) == 0 {
		return fmt.Errorf("the story has %d entries before and %d steps", len(c.Before), len(c.Steps))
	}
	result.Note("why.state", float64(from.TotalBytes())/1e6, "MB")
	result.Note("why.records", float64(s.Records), "records")
	result.AtMost("why.key", float64(monotonic()-begun)/1e9, "s", whyBound)
	return nil
}
