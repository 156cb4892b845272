package modcheck

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/host/engine"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/operators/spec"
)

// files compiles modules where they lie. It implements spec.Modules.
type files struct {
	t    *testing.T
	open map[string]guestop.Module // by path
}

func (f *files) module(path string) guestop.Module {
	if f.open[path] == nil {
		wasm, err := os.ReadFile(path)
		if err != nil {
			f.t.Fatal(err)
		}
		f.open[path] = compile(f.t, wasm, engine.Options{CacheDir: "../../.build/engine"})
	}
	return f.open[path]
}

// ModuleInfo implements spec.Modules.
func (f *files) ModuleInfo(path string) (*abi.Descriptor, string, error) {
	wasm, err := os.ReadFile(path)
	sum := sha256.Sum256(wasm)
	return f.module(path).Descriptor(), hex.EncodeToString(sum[:]), err
}

// pipeline is a pipeline file with its modules.
func pipeline(t *testing.T, path string) *Pipeline {
	t.Helper()
	f := &files{t, map[string]guestop.Module{}}
	g, err := spec.Load(path, spec.Options{Modules: f})
	if err != nil {
		t.Fatal(err)
	}
	return &Pipeline{Graph: g, Module: func(n *operators.Node) (guestop.Module, error) {
		return f.module(filepath.Join(filepath.Dir(path), n.Guest.Module)), nil
	}}
}

// TestExamplesAreTriedWithTheirInput: every function of every example passes, each over its own input.
func TestExamplesAreTriedWithTheirInput(t *testing.T) {
	paths, err := filepath.Glob("../../examples/*/*.yaml")
	if err != nil || len(paths) < 10 {
		t.Fatalf("%v: only %d pipelines", err, len(paths))
	}
	functions := 0
	for _, path := range paths {
		if b, err := os.ReadFile(path); err != nil || !strings.Contains(string(b), "\noperators:") {
			continue // the policy of a comparison
		}
		p := pipeline(t, path)
		p.Cache = Cache(t.TempDir())
		began := time.Now()
		checked, err := p.Check(context.Background(), Options{})
		took := time.Since(began)
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		for i := range checked {
			c := &checked[i]
			t.Logf("%s %s: %v", path, c.Operator, c)
			functions++
			if c.NotChecked != "" {
				t.Errorf("%s: operator %s: %v", path, c.Operator, c)
			}
		}
		began = time.Now()
		again, err := p.Check(context.Background(), Options{})
		t.Logf("%s: %d functions, %v, from the cache %v", path, len(checked), took.Round(time.Millisecond), time.Since(began).Round(time.Microsecond))
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		for i := range again {
			if !again[i].Cached {
				t.Errorf("%s: operator %s was checked twice", path, again[i].Operator)
			}
		}
	}
	if functions < 10 {
		t.Errorf("only %d functions", functions)
	}
}

const countingYAML = `name: counting
operators:
  - id: lines
    source: file
    path: in.ndjson
    fields: {id: string, n: int64}
  - id: number
    map: {module: planted.wasm, function: planted%s}
  - id: out
    sink: file
    path: out.ndjson
`

// counting is a pipeline whose map counts in a variable.
func counting(t *testing.T, more string) *Pipeline {
	t.Helper()
	dir := t.TempDir()
	for name, b := range map[string][]byte{"planted.wasm": plants[0].p.wasm(t), "pipeline.yaml": []byte(strings.Replace(countingYAML, "%s", more, 1)),
		"in.ndjson": []byte("{\"id\":\"a\",\"n\":1}\n{\"id\":\"b\",\"n\":2}\nno json\n{\"id\":\"c\",\"n\":3}\n")} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return pipeline(t, filepath.Join(dir, "pipeline.yaml"))
}

// TestPipelineIsRefused: the error names module, function and a record of the real input; nothing is remembered of it.
func TestPipelineIsRefused(t *testing.T) {
	p := counting(t, "")
	p.Cache = Cache(t.TempDir())
	for range 2 {
		_, err := p.Check(context.Background(), whole)
		var e *Error
		if !errors.As(err, &e) || e.Module != "planted.wasm" {
			t.Fatalf("error %v", err)
		}
		for _, want := range []string{"function planted " + keeps, `record 2 of the input of lines (key null, value {"id":"b","n":2})`, "check: off"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("error %q lacks %q", err, want)
			}
		}
	}
}

// TestCheckOff: a pipeline file can let a function in as it is.
func TestCheckOff(t *testing.T) {
	checked, err := counting(t, ", check: off").Check(context.Background(), whole)
	if err != nil || len(checked) != 1 || !strings.Contains(checked[0].NotChecked, "check: off") {
		t.Errorf("%v, %+v", err, checked)
	}
	if _, err := counting(t, ", check: on").Check(context.Background(), whole); err == nil {
		t.Error("check: on lets it in")
	}
}

// TestCacheIsOfOneFunctionAsItIs: another digest, schema or function is checked by itself; a damaged entry counts as none.
func TestCacheIsOfOneFunctionAsItIs(t *testing.T) {
	c := Cache(t.TempDir())
	fn := mapper()
	g := &operators.GuestNode{Function: fn.Name, Fn: &fn}
	if err := c.keep("d1", g); err != nil || !c.passed("d1", g) {
		t.Fatalf("%v, or not found again", err)
	}
	other, typed := fn, *g
	other.Name = "other"
	typed.Input = []abi.Field{{Name: "n", Type: abi.TypeInt64}}
	if c.passed("d2", g) || c.passed("d1", &operators.GuestNode{Function: "other", Fn: &other}) || c.passed("d1", &typed) || Cache("").passed("d1", g) {
		t.Error("what was never checked counts as checked")
	}
	if err := os.WriteFile(c.file("d1", g), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c.passed("d1", g) {
		t.Error("a damaged entry counts")
	}
}
