// Package cases holds small guest modules for tests and measurements. They are committed, so that nobody
// needs a compiler for them: those in C (guest.c, guest.wasm) are built by build.sh, those in Rust
// and AssemblyScript by guests/build.
package cases

import (
	"embed"
	"fmt"
)

//go:embed */*.wasm
var modules embed.FS

// In is the module of a case in a language, "c", "rust" or "assemblyscript"; it panics if there is none.
func In(name, language string) []byte {
	file := map[string]string{"c": "guest.wasm", "rust": name + ".wasm", "assemblyscript": name + "-as.wasm"}[language]
	b, err := modules.ReadFile(name + "/" + file)
	if err != nil {
		panic(fmt.Sprintf("guests/cases: no module %s in %s", name, language))
	}
	return b
}

// Module is the module of a case; it panics if there is none, for names are constants.
func Module(name string) []byte {
	for _, file := range []string{"guest.wasm", name + ".wasm"} {
		if b, err := modules.ReadFile(name + "/" + file); err == nil {
			return b
		}
	}
	panic(fmt.Sprintf("guests/cases: no module %s", name))
}
