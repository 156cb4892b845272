package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// buildHint is the command that builds a module from a source beside it: <name>.wasm from rust/, go/ or C
// files of the same folder; "" if there is none.
func buildHint(path string) string {
	dir, name := filepath.Dir(path), strings.TrimSuffix(filepath.Base(path), ".wasm")
	has := func(parts ...string) bool {
		_, err := os.Stat(filepath.Join(append([]string{dir}, parts...)...))
		return err == nil
	}
	switch {
	case has("rust", "Cargo.toml"):
		return fmt.Sprintf("(cd %s && cargo build --release --target wasm32-unknown-unknown && cp target/wasm32-unknown-unknown/release/%s.wasm %s)",
			filepath.Join(dir, "rust"), strings.ReplaceAll(name, "-", "_"), filepath.Join("..", name+".wasm"))
	case has("go", "go.mod"):
		return fmt.Sprintf("(cd %s && GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o ../%s.wasm .)", filepath.Join(dir, "go"), name)
	case has(name + ".c"):
		return fmt.Sprintf("clang --target=wasm32 -O2 -mbulk-memory -nostdlib -Wl,--no-entry -o %s %s", path, filepath.Join(dir, name+".c"))
	}
	return ""
}
