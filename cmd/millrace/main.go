// Command millrace runs streaming pipelines whose logic is WebAssembly modules.
package main

import (
	"context"
	"os"
)

func main() {
	// The process holds state and guest memory outside the Go heap: with a small heap the default pacing
	// would collect without end.
	tuneGC()
	os.Exit(run(context.Background(), os.Args, streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
}
