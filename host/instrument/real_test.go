package instrument

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
)

// The committed guests in C and Rust are accepted, and compile when rewritten.
func TestCommittedGuests(t *testing.T) {
	ctx := context.Background()
	rt := wazero.NewRuntime(ctx)
	defer rt.Close(ctx)
	found := 0
	err := filepath.WalkDir("../../guests", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".wasm") {
			return err
		}
		wasm, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		found++
		if err := compile(rt, rewrite(t, wasm, DefaultOptions()).Wasm); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		return nil
	})
	if err != nil || found == 0 {
		t.Fatalf("%d guests, err %v", found, err)
	}
}

const goGuest = `package main

import "fmt"

//go:wasmimport mr next
func next(i uint32) uint32

//go:wasmexport mr_process
func process(block, blockLen, out, outCap, first uint32) uint32 {
	for i := first; next(i) == 0; i++ {
		fmt.Sprint(i)
	}
	return 0
}

func main() {}
`

// A Go guest, the largest kind there is, stays valid when it is rewritten, and keeps within half of the
// limits.
func TestGoGuest(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a Go program")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"main.go": goGuest, "go.mod": "module guest\n\ngo 1.26\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-buildmode=c-shared", "-o", "guest.wasm", ".")
	build.Dir, build.Env = dir, append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOWORK=off", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	wasm, err := os.ReadFile(filepath.Join(dir, "guest.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	half := DefaultLimits()
	for _, l := range []*int{&half.Functions, &half.BodyBytes, &half.Nesting, &half.BranchTable, &half.BranchTargets,
		&half.TableTargets, &half.Branches, &half.BranchSquares, &half.Locals, &half.Segments} {
		*l /= 2
	}
	m, err := Validate(wasm, half)
	if err != nil {
		t.Fatal(err)
	}
	checkRewritten(t, wasm, m)
	r, err := Rewrite(wasm, m, DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	if growth := float64(r.CodeAfter) / float64(r.CodeBefore); growth > 1.25 {
		t.Errorf("code grew by %.0f %%", 100*(growth-1))
	}
	if len(m.FuncNames) < 1_000 || r.NextCalls == 0 {
		t.Errorf("%d names, %d calls of next", len(m.FuncNames), r.NextCalls)
	}
}
