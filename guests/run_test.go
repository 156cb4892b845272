// Package guests_test runs the guest modules, in each language, under the real engine, operator and state:
// the same records in whatever batches must give the same outputs.
package guests_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/host/engine"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/backend"
	"github.com/millrace-io/millrace/state/coldpebble"
	"github.com/millrace-io/millrace/state/ordered"
	"github.com/millrace-io/millrace/state/statetest"
)

// step is one piece of input: a record, a watermark, or a processing time.
type step struct {
	rec *abi.Record
	wm  int64 // if rec is nil and now is 0
	now int64
}

func rec(key, value string, time int64) step {
	return step{rec: &abi.Record{Key: []byte(key), Value: []byte(value), Time: time}}
}

func row(key string, time int64, cells ...any) step {
	var w abi.RowBuilder
	w.Reset(len(cells))
	for i, c := range cells {
		switch v := c.(type) {
		case int:
			w.SetInt64(i, int64(v))
		case string:
			w.SetString(i, v)
		}
	}
	return step{rec: &abi.Record{Key: []byte(key), Value: append([]byte(nil), w.Bytes()...), Time: time}}
}

func watermark(w int64) step  { return step{wm: w} }
func processing(n int64) step { return step{now: n} }

// modules finds a guest in all languages; a Go module that is not built is skipped, with the reason.
func modules(name string) map[string]string {
	dir := "cases/"
	if _, err := os.Stat("../examples/" + name); err == nil {
		dir = "../examples/"
	}
	return map[string]string{"rust": dir + name + "/" + name + ".wasm", "go": "../.build/guests/" + name + "-go.wasm"}
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && strings.HasSuffix(path, "-go.wasm") {
		t.Skipf("%s is not built: go run ./guests/build -go", filepath.Base(path))
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

type manualClock struct{ now int64 }

func (c *manualClock) NowMS() int64 { return c.now }

type collected struct{ lines []string }

func (c *collected) Emit(output int, b *abi.Batch) error {
	for i := range b.Len() {
		r := b.Frame(i).Record()
		line := fmt.Sprintf("%d %s=%s @%d", output, show(r.Key), show(r.Value), r.Time)
		if r.Time == abi.NoTime {
			line = fmt.Sprintf("%d %s=%s", output, show(r.Key), show(r.Value))
		}
		for _, h := range r.Headers {
			line += fmt.Sprintf(" %s:%s", show(h.Key), show(h.Value))
		}
		if r.Op != abi.OpInsert {
			line += fmt.Sprintf(" op%d", r.Op)
		}
		c.lines = append(c.lines, line)
	}
	return nil
}

func show(b []byte) string {
	if b == nil {
		return "null"
	}
	if len(b) > 100 {
		return fmt.Sprintf("%d bytes of %q", len(b), b[0])
	}
	return string(b)
}

// compile compiles a module; what is compiled stays in a cache, for Go modules take a second each.
func compile(t testing.TB, e *engine.Engine, path string) guestop.Module {
	t.Helper()
	m, err := e.Compile(context.Background(), read(t, path), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.(*engine.Module).Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func newEngine(t testing.TB) *engine.Engine {
	t.Helper()
	e, err := engine.New(context.Background(), engine.Options{CacheDir: "../.build/engine", Wasmtime: onWasmtime})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return e
}

// operator opens a function of a module as an operator over memory state.
func operator(t testing.TB, m guestop.Module, function string, clock operators.Clock) (op *guestop.Op, done func()) {
	t.Helper()
	return operatorWith(t, m, function, clock, operators.PolicySkip)
}

func operatorWith(t testing.TB, m guestop.Module, function string, clock operators.Clock, policy string) (op *guestop.Op, done func()) {
	t.Helper()
	node := &operators.GuestNode{Module: "module", Function: function, OnError: operators.ErrorPolicy{Policy: policy}, Clock: "event"}
	node.Index = -1
	for i, f := range m.Descriptor().Functions {
		if f.Name == function {
			node.Index, node.Fn = i, &m.Descriptor().Functions[i]
		}
	}
	if node.Index < 0 {
		t.Fatalf("the module has no function %s", function)
	}
	node.Keyed, node.Input, node.Outputs, node.Kind = node.Fn.Keyed, node.Fn.Input, node.Fn.Outputs, node.Fn.Kind
	dir := t.TempDir()
	cold := coldpebble.New(filepath.Join(dir, "cold"), coldpebble.Options{})
	op = guestop.New(guestop.Config{Node: &operators.Node{ID: "guest", Guest: node}, Module: m,
		OpenKeyed: func(ctx *operators.Context, ds []state.Descriptor) (state.Keyed, error) {
			return backend.Open(backend.Config{Operator: "guest", Descriptors: ds, Range: ctx.Range, Hasher: ctx.Hasher,
				Dir: filepath.Join(dir, "state"), Kind: backend.Memory, Budget: 64 << 20, Objects: statetest.NewObjects(filepath.Join(dir, "objects")),
				NewOrdered: func(c state.PartConfig) (backend.OrderedPart, error) { return ordered.Open(c, cold) },
				NewTimers:  func(c state.PartConfig) (backend.TimersPart, error) { return ordered.OpenTimers(c, cold) }})
		}})
	err := op.Open(&operators.Context{Context: context.Background(), Job: "test", Operator: "guest", Parallelism: 1,
		Range: state.TaskRange(0, 1), Hasher: state.Hasher{Seed: 1}, Clock: clock, Log: slog.New(slog.DiscardHandler),
		WorkDir: dir, Batch: 256, Crash: func(string) {},
		Describe: func(p abi.Position) string { return fmt.Sprint("record ", p.Offset) }})
	if err != nil {
		t.Fatal(err)
	}
	return op, func() {
		if err := errors.Join(op.Close(), cold.Close()); err != nil {
			t.Error(err)
		}
	}
}

// play feeds the steps in batches of at most n records and returns what came out.
func play(t testing.TB, m guestop.Module, function string, n int, steps []step) []string {
	t.Helper()
	clock := &manualClock{now: 1}
	op, done := operator(t, m, function, clock)
	defer done()
	var out collected
	var b abi.Batch
	flush := func() {
		if b.Empty() {
			return
		}
		if err := op.Batch(0, &b, &out); err != nil {
			t.Fatal(err)
		}
		b.Reset()
	}
	offset := uint64(0)
	for _, s := range steps {
		switch {
		case s.rec != nil:
			r := *s.rec
			r.Pos.Offset = offset
			offset++
			b.Append(&r)
		case s.now != 0:
			flush()
			clock.now = s.now
			if err := op.OnProcessingTime(s.now, &out); err != nil {
				t.Fatal(err)
			}
		default:
			b.Mark(s.wm)
		}
		if b.Len() >= n {
			flush()
		}
	}
	flush()
	return out.lines
}
