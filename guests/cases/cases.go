// Package cases holds small guest modules for tests and measurements, built from the sources beside
// them by build.sh and committed, so that nobody needs a compiler for them.
package cases

import (
	"embed"
	"fmt"
)

//go:embed */guest.wasm
var modules embed.FS

// Module is the module of a case; it panics if there is none, for names are constants.
func Module(name string) []byte {
	b, err := modules.ReadFile(name + "/guest.wasm")
	if err != nil {
		panic(fmt.Sprintf("guests/cases: %v", err))
	}
	return b
}
