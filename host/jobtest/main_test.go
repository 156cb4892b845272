package jobtest

import (
	"flag"
	"os"
	"testing"
)

var (
	fullMatrix = flag.Bool("full", false, "run every combination of the output matrix")
	seedFlag   = flag.Uint64("seed", 1, "seed of the random choices")
)

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	Cleanup()
	os.Exit(code)
}
