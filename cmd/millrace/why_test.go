package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/host/why"
)

// whyProject is a folder with the fraud module and a pipeline.
func whyProject(t *testing.T, pipeline string) string {
	t.Helper()
	dir := t.TempDir()
	wasm, err := os.ReadFile("../../examples/fraud/fraud.wasm")
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "fraud.wasm", string(wasm))
	write(t, dir, "p.yaml", pipeline)
	return dir
}

const whyPipeline = `name: p
checkpoint: {interval: 20ms, retain: 1000}
operators:
  - {id: payments, source: generator, kind: payments, format: rows, records: 60000, keys: 1500, step: 20ms, rate: 200000}
  - {id: by-card, key_by: card}
  - id: fraud
    process: {module: fraud.wasm, function: fraud}
    parallelism: %d
    on_error: {policy: skip}
  - {id: alerts, sink: file, path: alerts/, provenance: true}
  - {id: cleared, sink: file, path: cleared/, provenance: true, from: fraud.cleared}
`

type toldStory struct {
	Data why.Story
}

func tell(t *testing.T, dir string, args ...string) why.Story {
	t.Helper()
	r := do(t, dir, append([]string{"why", "--json", "p.yaml"}, args...)...)
	r.want(t, 0)
	var s toldStory
	if err := json.Unmarshal([]byte(r.out), &s); err != nil {
		t.Fatalf("%v: %s", err, r.out)
	}
	return s.Data
}

// outputsOf are FILE:LINE of everything a sink has published.
func outputsOf(t *testing.T, dir, sink string) (places []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, sink, "part-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for i := range strings.Count(string(data), "\n") {
			places = append(places, fmt.Sprintf("%s/%s:%d", sink, filepath.Base(f), i+1))
		}
	}
	return places
}

// Whatever snapshot a story begins at, it ends in the output, and its steps are the last of those of the whole
// story, with what the state had before in between.
func TestWhyFromAnySnapshot(t *testing.T) {
	for _, parallelism := range []int{1, 3} {
		dir := whyProject(t, fmt.Sprintf(whyPipeline, parallelism))
		do(t, dir, "run", "p.yaml", "--quiet").want(t, 0)
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		rnd := rand.New(rand.NewPCG(seed, 1))
		later := 0
		for _, sink := range []string{"alerts", "cleared"} {
			all := outputsOf(t, dir, sink)
			if len(all) < 20 {
				t.Fatalf("%d outputs of %s", len(all), sink)
			}
			for range 2 {
				place := all[rnd.IntN(len(all))]
				near, whole := tell(t, dir, "--steps", "0", place), tell(t, dir, "--steps", "0", "--from", "beginning", place)
				if near.Snapshot > 0 {
					later++
				}
				compareStories(t, place, &near, &whole)
			}
		}
		if later == 0 {
			t.Error("no story began at a snapshot")
		}
	}
}

func compareStories(t *testing.T, place string, near, whole *why.Story) {
	t.Helper()
	a, b := near.Chapters[len(near.Chapters)-1], whole.Chapters[len(whole.Chapters)-1]
	if string(a.Key) != string(b.Key) || a.Digest != b.Digest || len(a.Steps) == 0 || len(a.Steps) > len(b.Steps) {
		t.Fatalf("%s: %d steps of key %s by %s, expected the last of %d of %s by %s", place, len(a.Steps), a.Key, a.Digest, len(b.Steps), b.Key, b.Digest)
	}
	last := a.Steps[len(a.Steps)-1]
	if !slices.ContainsFunc(last.Outputs, func(o why.Output) bool { return o.This }) {
		t.Errorf("%s: the last step gives %+v, not the output", place, last.Outputs)
	}
	skip := len(b.Steps) - len(a.Steps)
	for i, s := range a.Steps {
		w := *b.Steps[skip+i]
		w.Number -= int64(skip)
		if i == 0 || w.Fuel == 0 || s.Fuel == 0 { // an instance's first call has more to do, timers may share one
			w.Fuel, s.Fuel = 0, 0
		}
		got, _ := json.Marshal(s)
		want, _ := json.Marshal(&w)
		if string(got) != string(want) {
			t.Errorf("%s, step %d: %s, expected %s", place, i, got, want)
		}
	}
}

// A killed run leaves its folder; the next one removes it, and its own.
func TestWhyLeavesNothing(t *testing.T) {
	dir := whyProject(t, fmt.Sprintf(whyPipeline, 1))
	do(t, dir, "run", "p.yaml", "--quiet").want(t, 0)
	folders := filepath.Join(dir, ".millrace", "p", "replay")
	if err := os.MkdirAll(filepath.Join(folders, "replay-2147483647-1"), 0o755); err != nil { // of no process
		t.Fatal(err)
	}
	tell(t, dir, outputsOf(t, dir, "alerts")[0])
	if left, err := os.ReadDir(folders); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestWhyRefuses(t *testing.T) {
	dir := whyProject(t, strings.Replace(fmt.Sprintf(whyPipeline, 1), "retain: 1000", "retain: 1", 1))
	do(t, dir, "why", "p.yaml", `{"a":1}`).want(t, 2, "no state in")
	do(t, dir, "run", "p.yaml", "--quiet").want(t, 0)
	all := outputsOf(t, dir, "alerts")
	line := func(from string) string {
		return `{"key":"k","value":"v","time":1,"from":` + from + `}`
	}
	do(t, dir, "why", "p.yaml", all[len(all)-1]).want(t, 2, "the oldest that is left is")
	do(t, dir, "why", "p.yaml", "nothere:1").want(t, 2, "nothere")
	do(t, dir, "why", "p.yaml", "alerts").want(t, 2, "FILE:LINE")
	do(t, dir, "why", "p.yaml", strings.TrimSuffix(all[0], ":1")+":99999").want(t, 2, "no line 99999")
	do(t, dir, "why", "p.yaml", `{"a":1}`).want(t, 2, `it has no "from"`)
	do(t, dir, "why", "p.yaml", line(`{"snapshot":0,"split":0,"offset":5}`)).want(t, 2, "alerts, cleared", "--sink")
	do(t, dir, "why", "p.yaml", "--sink", "alrets", line(`{"snapshot":0,"split":0,"offset":5}`)).want(t, 2, "alerts, cleared")
	do(t, dir, "why", "p.yaml", "--sink", "alerts", line(`{"snapshot":0,"split":0,"offset":5}`)).want(t, 1, "did not come again")
	do(t, dir, "why", "p.yaml", "--from", "latest", all[0]).want(t, 2, "that of the end")
}

// The commands of docs/why.md work.
func TestWhyDocs(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "examples"), os.DirFS("../../examples")); err != nil {
		t.Fatal(err)
	}
	for _, left := range []string{"alerts", "cleared", "dead-letters", ".millrace"} {
		if err := os.RemoveAll(filepath.Join(dir, "examples", "fraud", left)); err != nil {
			t.Fatal(err)
		}
	}
	var last ran
	for _, block := range blocks(t, "../../docs/why.md", "sh") {
		for line := range strings.Lines(block) {
			last = do(t, dir, strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "bin/millrace "))...)
			last.want(t, 0)
		}
	}
	last.want(t, 0, "operator fraud, function fraud", "state   probe: nothing ->", "<- this one")
}

// What comes before the operator that gave the output is told for the records that its steps had; a window's
// records are those in it.
func TestWhyThroughAWindow(t *testing.T) {
	dir := whyProject(t, `name: p
operators:
  - {id: payments, source: generator, kind: payments, format: rows, records: 20000, keys: 50, step: 20ms}
  - {id: by-card, key_by: card}
  - id: minute
    window: {type: tumbling, size: 1m}
    aggregates: {n: count, sum: {sum: amount}}
  - {id: out, sink: file, path: out/, provenance: true}
`)
	do(t, dir, "run", "p.yaml", "--quiet").want(t, 0)
	all := outputsOf(t, dir, "out")
	s := tell(t, dir, "--steps", "0", all[len(all)/2])
	c := s.Chapters[len(s.Chapters)-1]
	var out struct {
		Value struct {
			N, Sum int64
		}
	}
	if err := json.Unmarshal(s.Output, &out); err != nil {
		t.Fatal(err)
	}
	sum := int64(0)
	for _, step := range c.Steps[:len(c.Steps)-1] {
		var in struct{ Amount int64 }
		if err := json.Unmarshal(step.Input, &in); err != nil {
			t.Fatal(err)
		}
		sum += in.Amount
	}
	if n := int64(len(c.Steps) - 1); n != out.Value.N || sum != out.Value.Sum || n == 0 || !c.Steps[n].Fired {
		t.Errorf("%d records of %d, sum %d of %d", n, out.Value.N, sum, out.Value.Sum)
	}
	do(t, dir, "why", "p.yaml", all[len(all)/2]).want(t, 0, "operator minute", "the window fired", "<- this one")
}
