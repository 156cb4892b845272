package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/bench/result"
	"github.com/millrace-io/millrace/guests/cases"
	"github.com/millrace-io/millrace/host/clock"
	"github.com/millrace-io/millrace/host/engine"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/operators/spec"
)

// world is a folder in which whole jobs are run: the input, the pipeline, state and output.
type world struct{ dir string }

func newWorld() (*world, error) {
	dir, err := os.MkdirTemp("", "millrace-bench-")
	if err != nil {
		return nil, err
	}
	w := &world{dir}
	for _, m := range []string{"count", "effects", "alarm"} {
		if err := os.WriteFile(filepath.Join(dir, m+".wasm"), cases.Module(m), 0o644); err != nil {
			return nil, errors.Join(err, w.close())
		}
	}
	return w, nil
}

func (w *world) close() error { return os.RemoveAll(w.dir) }

// cpuClock is a clock whose monotonic time is the CPU time of the process. Where a figure says "a
// checkpoint each second", that is a second of the process' own work, however busy the machine is.
type cpuClock struct{ clock.Wall }

// Mono implements clock.Clock.
func (cpuClock) Mono() int64 { return int64(result.CPU()) }

// ran is what one run of a job took and did.
type ran struct {
	read, checkpoints int64
	cpu               time.Duration // all threads, from the start of the job to its end
	mallocs           uint64
}

func (r *ran) rate() float64 { return float64(r.read) / r.cpu.Seconds() }

// run runs a pipeline to its end in fresh folders.
func (w *world) run(yaml string, c clock.Clock, change func(*job.Options)) (r ran, err error) {
	for _, d := range []string{"out", "state"} {
		if err := os.RemoveAll(filepath.Join(w.dir, d)); err != nil {
			return r, err
		}
	}
	path := filepath.Join(w.dir, "pipeline.yaml")
	if err := os.WriteFile(path, []byte(yaml), 0o644); err != nil {
		return r, err
	}
	g, err := spec.Load(path, spec.Options{Modules: moduleInfo{}})
	if err != nil {
		return r, err
	}
	o := job.Options{Graph: g, StateDir: filepath.Join(w.dir, "state"), Clock: c, Module: compileNode, Restarts: -1}
	if change != nil {
		change(&o)
	}
	j, err := job.New(context.Background(), o)
	if err != nil {
		return r, err
	}
	before, start := mallocs(), result.CPU()
	res, err := j.Run(context.Background())
	r.cpu = result.CPU() - start
	r.mallocs = mallocs() - before
	r.read, r.checkpoints = res.Stats.Read, int64(res.Stats.Checkpoints)
	if err == nil && !res.Complete {
		err = fmt.Errorf("the run is not complete: %+v", res)
	}
	return r, errors.Join(err, j.Close())
}

func compileNode(ctx context.Context, n *operators.Node) (guestop.Module, error) {
	e, err := theEngine()
	if err != nil {
		return nil, err
	}
	return e.Compile(ctx, cases.Module(strings.TrimSuffix(filepath.Base(n.Guest.Module), ".wasm")), n.Guest.Describe)
}

// moduleInfo implements spec.Modules.
type moduleInfo struct{}

// ModuleInfo implements spec.Modules.
func (moduleInfo) ModuleInfo(path string) (*abi.Descriptor, string, error) {
	e, err := theEngine()
	if err != nil {
		return nil, "", err
	}
	wasm, err := os.ReadFile(path)
	if err != nil {
		return nil, "", err
	}
	sum := sha256.Sum256(wasm)
	m, err := e.Compile(context.Background(), wasm, nil)
	if err != nil {
		return nil, "", err
	}
	return m.Descriptor(), hex.EncodeToString(sum[:]), m.(*engine.Module).Close()
}

// ndjson writes n lines of 57 bytes and a newline: event time, a key of 12 bytes and an amount.
func (w *world) ndjson(name string, n, keys int) error {
	f, err := os.Create(filepath.Join(w.dir, name))
	if err != nil {
		return err
	}
	buf := make([]byte, 0, 1<<20)
	x := uint64(benchSeed)
	for i := range n {
		x = x*6364136223846793005 + 1442695040888963407
		buf = fmt.Appendf(buf, "{\"ts\":%d,\"key\":\"k%011d\",\"amount\":%d}\n", 1_700_000_000_000+i, int(x>>33)%keys, 100_000+int(x>>40)%900_000)
		if len(buf) > 1<<20-128 || i == n-1 {
			if _, err := f.Write(buf); err != nil {
				return errors.Join(err, f.Close())
			}
			buf = buf[:0]
		}
	}
	return f.Close()
}
