package jobtest

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/millrace-io/millrace/abi"
)

var normalDead = regexp.MustCompile(`"task":\d+,|"error":"(\\.|[^"])*",|"module":"[0-9a-f]*",`)

// combination is one way to run the same pipeline.
type combination struct {
	batch, linger, parallelism int // linger in ms
	state                      string
	interpreter                bool
	module                     string
}

func (c combination) String() string {
	engine := "compiler"
	if c.interpreter {
		engine = "interpreter"
	}
	return fmt.Sprintf("batch=%d,linger=%dms,p=%d,%s,%s,%s", c.batch, c.linger, c.parallelism, c.state, engine, c.module)
}

// plain is what all others are compared with.
var plain = combination{256, 5, 1, "memory", false, "effects"}

// pairwise holds every pair of values of two of the dimensions, but for batch 1 with the interpreter; those
// with the interpreter run a twentieth of the records.
var pairwise = []combination{
	{1, 0, 1, "memory", false, "effects"},
	{1, 5, 2, "disk", false, "effects-go"},
	{1, 5, 4, "memory", false, "effects"},
	{1, 0, 4, "disk", false, "effects"},
	{64, 0, 2, "memory", true, "effects"},
	{64, 5, 1, "disk", true, "effects-go"},
	{64, 0, 4, "disk", false, "effects-go"},
	{64, 5, 2, "disk", false, "effects"},
	{1024, 0, 1, "disk", false, "effects"},
	{1024, 5, 4, "disk", true, "effects"},
	{1024, 5, 2, "memory", false, "effects-go"},
	{1024, 0, 2, "disk", false, "effects"},
}

func everything() (all []combination) {
	for _, b := range []int{1, 64, 1024} {
		for _, l := range []int{0, 5} {
			for _, p := range []int{1, 2, 4} {
				for _, s := range []string{"memory", "disk"} {
					for _, i := range []bool{false, true} {
						for _, m := range []string{"effects", "effects-go"} {
							all = append(all, combination{b, l, p, s, i, m})
						}
					}
				}
			}
		}
	}
	return all
}

// run runs the combination over records in a world of its own and returns what was committed.
func (c combination) run(t *testing.T, records []abi.Record) string {
	memory := "256MiB"
	if c.state == "disk" {
		memory = "1MiB"
	}
	w := New(t, pipelineText(fmt.Sprintf("batch: %d\nlinger: %dms\nstate: %s\nmemory: %s\ncheckpoint: {interval: 100ms}",
		c.batch, c.linger, c.state, memory), c.module, c.parallelism))
	w.Interpreter = c.interpreter
	w.Sources["in"] = [][]abi.Record{records}
	res := w.RunToEnd()
	if res.Stats.Total("logic", "dead letters") == 0 || res.Stats.Total("logic", "timers") == 0 || len(w.Lines("sides/")) == 0 {
		t.Errorf("the workload has no dead letters, timers or side outputs: %+v", res.Stats)
	}
	if c.state == "disk" && len(records) >= 20_000 && res.Stats.Total("logic", "state bytes in files") == 0 {
		t.Errorf("the state did not outgrow %s: %+v", memory, res.Stats)
	}
	return w.outputs()
}

// TestOutputMatrix: the same committed output, byte for byte after a stable sort by key, whatever the batch
// size, linger, parallelism, backend, engine and language of the guest.
func TestOutputMatrix(t *testing.T) {
	t.Parallel()
	sizes := map[bool]int{false: 20_000, true: 1_000}
	want, records := map[bool]string{}, map[bool][]abi.Record{}
	for interpreted, n := range sizes {
		records[interpreted] = workload(*seedFlag, n, n/10)
		want[interpreted] = plain.run(t, records[interpreted])
	}
	list := pairwise
	if *fullMatrix {
		list = everything()
	}
	for _, c := range list {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			if d := Diff(c.run(t, records[c.interpreter]), want[c.interpreter]); d != "" {
				t.Errorf("seed %d: %s", *seedFlag, d)
			}
		})
	}
}
