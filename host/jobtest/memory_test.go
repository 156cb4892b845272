package jobtest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/guests/cases"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/operators"
)

// ledgerText is a pipeline whose guest keeps everything in its own variables.
func ledgerText(settings, policy string, instances int) string {
	return ledgerOf("ledger", settings, policy, instances)
}

// ledgers are the guests in all languages.
var ledgers = []string{"ledger-c", "ledger", "ledger-go", "ledger-as"}

func ledgerOf(module, settings, policy string, instances int) string {
	return fmt.Sprintf(`name: ledger
%s
operators:
  - {id: in, source: generator, kind: counter, splits: 1}
  - id: logic
    process: {module: "@%s", function: ledger, instances: %d}
    on_error: %s
  - {id: out, sink: file, path: out/, envelope: true}
`, settings, module, instances, policy)
}

const ledgerLetters = "{policy: dead_letter, path: dead/}"

// ledgerRecords count up per key; now and then one is no number, which the guest finds after it has changed
// its memory. want is each key's last line; bad is how many fail.
func ledgerRecords(rng *rand.Rand, n, keys int) (records []abi.Record, want map[string]string, bad int) {
	count, xor, was := map[string]int{}, map[string]int{}, map[string]int{}
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
		want[k] = fmt.Sprintf(`{"key":%q,"count":%d,"n":%d,"xor":%d,"was":%d}`, k, count[k], i, xor[k], was[k])
		was[k] = i
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
	for i, instances := range []int{1, 3, 8, 2} {
		module := ledgers[i]
		t.Run(fmt.Sprint(module, ", ", instances, " instances"), func(t *testing.T) {
			t.Parallel()
			seed := *seedFlag + uint64(i)
			rng := rand.New(rand.NewPCG(seed, 66))
			records, want, bad := ledgerRecords(rng, 6000, 700)
			w := New(t, ledgerOf(module, crashSettings, ledgerLetters, instances))
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
	if last, _ := w.ledger(); last["a"] != `{"key":"a","count":2,"n":2,"xor":3,"was":1}` {
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

// TestMemoryChanges: what it takes to put another module into a running pipeline whose memory is state.
func TestMemoryChanges(t *testing.T) {
	w := New(t, ledgerText("", ledgerLetters, 2))
	side := func(digest string, hands bool) job.Side {
		hand := map[string]bool{"logic": hands}
		return job.Side{Graph: w.Graph, Digests: map[string]string{"logic": digest}, Saves: hand, Loads: hand}
	}
	if d := job.Compare(side("a", false), side("a", false), nil); len(d) != 0 {
		t.Errorf("the same: %+v", d)
	}
	for _, x := range []struct {
		saves, loads bool
		kind         job.ChangeKind
		what         string
	}{
		{false, true, job.ChangeBreaking, "mr_save"}, {true, false, job.ChangeBreaking, "mr_load"}, {true, true, job.ChangeRestart, "saves and the new one loads"},
	} {
		d := job.Compare(side("a", x.saves), side("b", x.loads), nil)
		if len(d) != 1 || d[0].Kind != x.kind || !strings.Contains(d[0].What, x.what) {
			t.Errorf("%+v: %+v", x, d)
		}
	}
}

// ledgerRing is in which order modules take over from each other.
func ledgerRing(from int) []string {
	return append(slices.Clone(ledgers[from:]), ledgers[:from]...)
}

// TestMemoryGoesOver: a start with another module goes on with what the old one saves, from each language to the next.
func TestMemoryGoesOver(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(*seedFlag, 67))
	records, want, _ := ledgerRecords(rng, 3000, 400)
	records = slices.DeleteFunc(records, func(r abi.Record) bool { return strings.HasSuffix(string(r.Value), " none") })
	w := New(t, ledgerText("checkpoint: {interval: 0s}", ledgerLetters, 3))
	f := w.Feed("in")
	ring := append(ledgerRing(0), ledgers[0])
	for i, module := range ring {
		w.Pipeline(ledgerOf(module, "checkpoint: {interval: 0s}", ledgerLetters, 3))
		r := w.Start()
		f.Push(records[i*len(records)/len(ring) : (i+1)*len(records)/len(ring)]...)
		w.Checkpoint(r)
		r.Crash()
	}
	if got, _ := w.ledger(); !maps.Equal(got, want) {
		t.Errorf("seed %d: %s", *seedFlag, differing(got, want))
	}
}

// differing names some keys in which two maps differ.
func differing(got, want map[string]string) string {
	var out []string
	for k, v := range want {
		if got[k] != v && len(out) < 3 {
			out = append(out, fmt.Sprintf("%q, expected %q", got[k], v))
		}
	}
	return fmt.Sprintf("%d keys, expected %d; %s", len(got), len(want), strings.Join(out, "; "))
}

// revision is another version of the pipeline of a run.
func (w *World) revision(r *Run, yaml string) job.Revision {
	w.T.Helper()
	g, err := w.Parse(yaml)
	if err != nil {
		w.T.Fatal(err)
	}
	v := job.Revision{Graph: g}
	if err := v.Compile(w.T.Context(), r.Running().Modules, w.options().Module); err != nil {
		w.T.Fatal(err)
	}
	return v
}

// TestMemoryIsChanged: the same in the running process, with input going on.
func TestMemoryIsChanged(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(*seedFlag, 68))
	records, want, _ := ledgerRecords(rng, 3000, 400)
	records = slices.DeleteFunc(records, func(r abi.Record) bool { return strings.HasSuffix(string(r.Value), " none") })
	w := New(t, ledgerOf("ledger-c", "checkpoint: {interval: 20ms}", ledgerLetters, 3))
	f := w.Feed("in")
	r := w.Start()
	for i, module := range ledgerRing(1) {
		f.Push(records[i*len(records)/4 : (i+1)*len(records)/4]...)
		text := ledgerOf(module, "checkpoint: {interval: 20ms}", ledgerLetters, 3)
		if _, err := r.Change(t.Context(), job.Change{Revision: w.revision(r, text)}); err != nil {
			t.Fatal(err)
		}
		w.Checkpoint(r)
	}
	w.Checkpoint(r)
	r.Crash()
	if got, _ := w.ledger(); !maps.Equal(got, want) {
		t.Errorf("seed %d: %s", *seedFlag, differing(got, want))
	}
}

// TestMemoryGoesNowhere: a module that takes nothing over is refused, with the way out; so is one whose load fails,
// and what ran before goes on.
func TestMemoryGoesNowhere(t *testing.T) {
	t.Parallel()
	w := New(t, ledgerText("checkpoint: {interval: 0s}", ledgerLetters, 2))
	f := w.Feed("in")
	r := w.Start()
	f.Push(Text("a", 1, "a 1"))
	w.Checkpoint(r)
	r.Crash()
	without := func(what string) {
		wasm := []byte(strings.Replace(string(cases.Module("ledger")), what, strings.Repeat(" ", len(what)), 1))
		w.Pipeline(strings.Replace(ledgerText("checkpoint: {interval: 0s}", ledgerLetters, 2), `"@ledger"`, strconv.Quote(w.Wasm("other", wasm)), 1))
	}
	without(`,"load":true`)
	w.Fail("operator logic", "another module", "the new one does not load", "export mr_save", "mr_load", "--fresh")
	without(`,"save":true`) // it takes over, and can't be followed
	r = w.Start()
	w.Checkpoint(r)
	r.Crash()
	w.Pipeline(ledgerText("checkpoint: {interval: 0s}", ledgerLetters, 2))
	w.Fail("operator logic", "the old one does not save", "mr_load")
}

// changed is the C ledger with some of its bytes exchanged, as a module of a pipeline.
func (w *World) changed(name string, pairs ...string) string {
	return strconv.Quote(w.Wasm(name, []byte(strings.NewReplacer(pairs...).Replace(string(cases.Module("ledger"))))))
}

// TestMemoryLoadFails: where the new module refuses what the old one says, nothing changes.
func TestMemoryLoadFails(t *testing.T) {
	t.Parallel()
	w := New(t, ledgerOf("ledger-c", "checkpoint: {interval: 0s}", ledgerLetters, 2))
	f := w.Feed("in")
	r := w.Start()
	f.Push(Text("a", 1, "a 1"))
	w.Checkpoint(r)
	// Of the same type: its load is what was save, and returns how many bytes it wrote.
	bad := strings.Replace(ledgerText("checkpoint: {interval: 0s}", ledgerLetters, 2), `"@ledger"`, w.changed("bad", "\x07mr_save", "\x07mr_load", "\x07mr_load", "\x07mr_save"), 1)
	_, err := r.Change(t.Context(), job.Change{Revision: w.revision(r, bad)})
	for _, part := range []string{"operator logic, instance 0 of 2", "can't go over", "it returned 1", "export mr_load"} {
		if !errors.Is(err, job.ErrUnfit) || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v, expected %q", err, part)
		}
	}
	f.Push(Text("a", 2, "a 2"))
	w.Checkpoint(r)
	r.Crash()
	w.Pipeline(bad)
	w.Fail("operator logic, instance 0 of 2", "it returned 1")
	if last, _ := w.ledger(); last["a"] != `{"key":"a","count":2,"n":2,"xor":3,"was":1}` {
		t.Errorf("last line %q", last["a"])
	}
}

// TestMemoryBegins: a module's memory may become state, with empty instances, and can't cease to be.
func TestMemoryBegins(t *testing.T) {
	t.Parallel()
	const says = `"snapshot":"memory","save":true,"load":true,`
	with := ledgerOf("ledger-c", "checkpoint: {interval: 0s}", ledgerLetters, 3)
	w := New(t, with)
	without := strings.Replace(strings.Replace(with, `"@ledger-c"`, w.changed("without", says, strings.Repeat(" ", len(says))), 1), ", instances: 3", "", 1)
	w.Pipeline(without)
	f := w.Feed("in")
	r := w.Start()
	f.Push(Text("a", 1, "a 1"))
	w.Checkpoint(r)
	v := w.revision(r, with)
	running := r.Running()
	if ds := job.Compare(running.Side(), v.Side(), nil); job.Hardest(ds) != job.ChangeRestart {
		t.Errorf("%+v", ds)
	}
	if _, err := r.Change(t.Context(), job.Change{Revision: v}); err != nil {
		t.Fatal(err)
	}
	f.Push(Text("a", 2, "a 2"))
	w.Checkpoint(r)
	back := w.revision(r, without)
	if _, err := r.Change(t.Context(), job.Change{Revision: back}); err == nil || !strings.Contains(err.Error(), "keeps nothing") {
		t.Errorf("error %v", err)
	}
	r.Crash()
	r = w.withPipeline(with).Start()
	f.Push(Text("a", 3, "a 3"))
	w.Checkpoint(r)
	r.Crash()
	if last, _ := w.ledger(); last["a"] != `{"key":"a","count":2,"n":3,"xor":1,"was":2}` {
		t.Errorf("last line %q", last["a"])
	}
}

func (w *World) withPipeline(yaml string) *World {
	w.T.Helper()
	w.Pipeline(yaml)
	return w
}
