package jobtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"

	"github.com/millrace-io/millrace/host/engine"
	"github.com/millrace-io/millrace/host/worker"
)

// root is the repository's folder.
var root = sync.OnceValue(func() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
})

// scratch holds what tests of one process share: compiled code, Go guests, generated modules.
var scratch = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "jobtest")
	if err != nil {
		panic(err)
	}
	return dir
})

// Cleanup removes what the process has built; for TestMain.
func Cleanup() { os.RemoveAll(scratch()) }

var engines sync.Map // by interpreter or not

// engineFor is the engine that all worlds of the process share.
func engineFor(interpreter bool) *engine.Engine {
	type once = func() *engine.Engine
	e, _ := engines.LoadOrStore(interpreter, sync.OnceValue(func() *engine.Engine {
		e, err := engine.New(context.Background(), engine.Options{CacheDir: filepath.Join(scratch(), "cache"), Interpreter: interpreter})
		if err != nil {
			panic(err)
		}
		return e
	}))
	return e.(once)()
}

// resolver is what tells pipelines what modules offer.
var resolver = sync.OnceValue(func() *worker.Modules {
	m, err := worker.NewModules(context.Background(), filepath.Join(scratch(), "cache"))
	if err != nil {
		panic(err)
	}
	return m
})

var moduleName = regexp.MustCompile(`@[a-z][a-z-]*`)

// modulePaths replaces @name in a pipeline.
func modulePaths(yaml string) (text string, err error) {
	text = moduleName.ReplaceAllStringFunc(yaml, func(s string) string {
		path, e := Module(s[1:])
		if e != nil {
			err = e
		}
		return path
	})
	return text, err
}

// Module is the path of a module: "name" a committed one of guests/cases or examples, in Rust where there are
// several, "name-c" and "name-as" those in C and AssemblyScript, "name-go" the Go guest of guests/cases/name/go or
// examples/name/go, which is built once per process.
func Module(name string) (string, error) {
	if base, ok := strings.CutSuffix(name, "-go"); ok {
		build, _ := goGuests.LoadOrStore(base, sync.OnceValues(func() (string, error) { return buildGo(base) }))
		return build.(func() (string, error))()
	}
	paths := []string{"guests/cases/" + name + "/" + name, "guests/cases/" + name + "/guest", "examples/" + name + "/" + name}
	if base, ok := strings.CutSuffix(name, "-c"); ok {
		paths = []string{"guests/cases/" + base + "/guest"}
	} else if base, ok := strings.CutSuffix(name, "-as"); ok {
		paths = []string{"guests/cases/" + base + "/" + name}
	}
	for _, p := range paths {
		if p = filepath.Join(root(), p+".wasm"); exists(p) {
			return filepath.Clean(p), nil
		}
	}
	return "", fmt.Errorf("there is no module %s in guests/cases or examples", name)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

var goGuests sync.Map

// buildGo builds as guests/build does, elsewhere, so that a test never depends on what was built before.
func buildGo(name string) (string, error) {
	for _, dir := range []string{"guests/cases/" + name + "/go", "examples/" + name + "/go", "host/jobtest/testdata/" + name} {
		dir = filepath.Join(root(), dir)
		if !exists(filepath.Join(dir, "go.mod")) {
			continue
		}
		out := filepath.Join(scratch(), name+"-go.wasm")
		cmd := exec.Command("go", "build", "-trimpath", "-buildmode=c-shared", "-ldflags=-w", "-o", out, ".")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOWORK=off", "GOFLAGS=")
		if text, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build the Go guest %s: %w\n%s", name, err, text)
		}
		return out, nil
	}
	return "", fmt.Errorf("there is no Go guest %s in guests/cases or examples", name)
}

// Wasm writes a module of bytes for use in a pipeline and returns its path.
func (w *World) Wasm(name string, wasm []byte) string {
	w.T.Helper()
	path := filepath.Join(w.Dir, name+".wasm")
	if err := os.WriteFile(path, wasm, 0o644); err != nil {
		w.T.Fatal(err)
	}
	return path
}
