package jobtest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/operators"
)

// ledgerText is a pipeline whose guest keeps everything in its own variables.
func ledgerText(settings, policy string, instances int) string {
	return fmt.Sprintf(`name: ledger
%s
operators:
  - {id: in, source: generator, kind: counter, splits: 1}
  - id: logic
    process: {module: "@ledger", function: ledger, instances: %d}
    on_error: %s
  - {id: out, sink: file, path: out/, envelope: true}
`, settings, instances, policy)
}

const ledgerLetters = "{policy: dead_letter, path: dead/}"

// ledgerRecords count up per key; now and then one is no number, which the guest finds after it has changed
// its memory. want is each key's last line; bad is how many fail.
func ledgerRecords(rng *rand.Rand, n, keys int) (records []abi.Record, want map[string]string, bad int) {
	count, xor := map[string]int{}, map[string]int{}
	want = map[string]string{}
	for i := range n {
		k := fmt.Sprintf("key-%d", rng.IntN(keys))
		if rng.IntN(n/6) == 0 {
			records = append(records, Text(k, int64(i), k+" none"))
			bad++
			continue
		}
		count[k]++
		xor[k] ^= i
		records = append(records, Text(k, int64(i), fmt.Sprintf("%s %d", k, i)))
		want[k] = fmt.Sprintf(`{"key":%q,"count":%d,"n":%d,"xor":%d}`, k, count[k], i, xor[k])
	}
	return records, want, bad
}

func (w *World) ledger() (last map[string]string, lines int) {
	w.T.Helper()
	last = map[string]string{}
	for _, l := range w.Envelopes("out/") {
		last[string(*l.Key)] = string(*l.Value)
		lines++
	}
	return last, lines
}

// TestMemorySnapshots: variables of a guest without any state call survive crashes and stops at random
// moments, and a record that spoils them is skipped: its instance goes back to what it was.
func TestMemorySnapshots(t *testing.T) {
	t.Parallel()
	for i, instances := range []int{1, 3, 8} {
		t.Run(fmt.Sprint(instances, " instances"), func(t *testing.T) {
			t.Parallel()
			seed := *seedFlag + uint64(i)
			rng := rand.New(rand.NewPCG(seed, 66))
			records, want, bad := ledgerRecords(rng, 6000, 700)
			w := New(t, ledgerText(crashSettings, ledgerLetters, instances))
			w.Sources["in"] = [][]abi.Record{records}
			rounds := interrupted(t, w, rng, 5)
			got, lines := w.ledger()
			if !maps.Equal(got, want) || lines != len(records)-bad {
				t.Errorf("seed %d, %d rounds: %d lines, expected %d; last ones equal: %v", seed, rounds, lines, len(records)-bad, maps.Equal(got, want))
			}
			if n := len(w.Lines("dead/")); n != bad || bad == 0 {
				t.Errorf("seed %d: %d dead letters, expected %d", seed, n, bad)
			}
		})
	}
}

// TestMemoryOtherModule: an image is of one module and one number of instances.
func TestMemoryOtherModule(t *testing.T) {
	t.Parallel()
	w := New(t, ledgerText("checkpoint: {interval: 0s}", ledgerLetters, 2))
	f := w.Feed("in")
	r := w.Start()
	f.Push(Text("a", 1, "a 1"))
	w.Checkpoint(r)
	r.Crash()
	w.Pipeline(ledgerText("checkpoint: {interval: 0s}", ledgerLetters, 4))
	w.Fail("operator logic", "memory of 2 instances", "asks for 4", "instances: 2")
	w.Pipeline(strings.Replace(ledgerText("checkpoint: {interval: 0s}", ledgerLetters, 2), `module: "@ledger", function: ledger, instances: 2`, `module: "@count", function: count`, 1))
	w.Fail("operator logic", "memory of 2 instances", "keeps none")
	w.Pipeline(ledgerText("checkpoint: {interval: 0s}", ledgerLetters, 2))
	r = w.Start()
	f.Push(Text("a", 2, "a 2"))
	w.Checkpoint(r)
	r.Crash()
	if last, _ := w.ledger(); last["a"] != `{"key":"a","count":2,"n":2,"xor":3}` {
		t.Errorf("last line %q", last["a"])
	}
}

// TestMemoryPipelineText: what may be said of such a module.
func TestMemoryPipelineText(t *testing.T) {
	w := New(t, ledgerText("", ledgerLetters, 8))
	i := slices.IndexFunc(w.Graph.Nodes, func(n *operators.Node) bool { return n.ID == "logic" })
	if n := w.Graph.Nodes[i]; n.Parallelism != 8 || n.Guest.Instances != 8 {
		t.Errorf("%d tasks, %d instances", n.Parallelism, n.Guest.Instances)
	}
	for text, problem := range map[string]string{
		strings.Replace(ledgerText("", ledgerLetters, 8), "    on_error", "    parallelism: 2\n    on_error", 1):                                                    "give instances:",
		strings.Replace(ledgerText("", ledgerLetters, 8), `"@ledger", function: ledger`, `"@count", function: count`, 1):                                            "does not keep its memory",
		strings.Replace(ledgerText("", ledgerLetters, 8), "- {id: in, source: generator, kind: counter, splits: 1}", "- {id: in, source: stdin, format: lines}", 1): "works per key",
	} {
		if _, err := w.Parse(text); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("error %v, expected %q", err, problem)
		}
	}
}

// TestMemoryIsNotSwapped: a running pipeline's module whose memory is state can't be replaced by another.
func TestMemoryIsNotSwapped(t *testing.T) {
	w := New(t, ledgerText("", ledgerLetters, 2))
	side := func(digest string) job.Side {
		return job.Side{Graph: w.Graph, Digests: map[string]string{"logic": digest}}
	}
	if d := job.Compare(side("a"), side("a"), nil); len(d) != 0 {
		t.Errorf("the same: %+v", d)
	}
	d := job.Compare(side("a"), side("b"), nil)
	if len(d) != 1 || d[0].Kind != job.ChangeBreaking || !strings.Contains(d[0].What, "its memory is state") {
		t.Errorf("another module: %+v", d)
	}
}
