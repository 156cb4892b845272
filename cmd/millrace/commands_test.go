package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestUsage(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		args  string
		code  int
		texts []string
	}{
		{"", 0, []string{"COMMANDS", "quickstart", "run", "lint", "explain", "inspect", "schema", "snapshot", "version"}},
		{"--help", 0, []string{"COMMANDS"}},
		{"run --help", 0, []string{"--fresh", "--restore", "--state-dir", "Exit codes"}},
		{"rum p.yaml", 2, []string{`no command "rum", did you mean "run"?`}},
		{"run", 2, []string{"wants one pipeline file, got 0"}},
		{"run a.yaml b.yaml", 2, []string{"got 2"}},
		{"run --frsh p.yaml", 2, []string{"frsh"}},
		{"run p.yaml --state-dir", 2, []string{"state-dir"}},
		{"run p.yaml --log-level loud", 2, []string{"loud", "debug"}},
		{"run p.yaml --engine v8", 2, []string{"wazero-interpreter"}},
		{"run nothere.yaml", 2, []string{"nothere.yaml"}},
		{"inspect nothere.wasm", 2, []string{"nothere.wasm"}},
		{"snapshot lits", 2, []string{`did you mean "list"?`}},
		{"snapshot list nothere", 2, []string{"no state in"}},
		{"version", 0, []string{"millrace 0.", "wazero", "ABI v0", "state format 2"}},
	} {
		t.Run(c.args, func(t *testing.T) { do(t, dir, strings.Fields(c.args)...).want(t, c.code, c.texts...) })
	}
}

func TestLintSaysEverythingAtOnce(t *testing.T) {
	dir := project(t, `name: bad
operators:
  - id: lines
    source: file
    pth: in.txt
    format: linse
  - id: count
    process: {module: wordcount.wasm, function: cuont}
  - id: out
    sink: file
    path: out/
    from: conut
`)
	r := do(t, dir, "lint", "p.yaml")
	r.want(t, 2, "p.yaml:5", "p.yaml:6", "p.yaml:12", "pth", "linse", "conut")
	e := envelopeOf(t, do(t, dir, "lint", "--json", "p.yaml").out)
	var data struct{ Problems []struct{ Line int } }
	if err := json.Unmarshal(e.Data, &data); err != nil || e.OK || e.Error.Exit != 2 || len(data.Problems) < 3 {
		t.Errorf("envelope %+v, %v", e, err)
	}
	good := project(t, countPipeline)
	do(t, good, "lint", "p.yaml").want(t, 0, "words is fine")
}

func TestFlagsAnywhereAndJSON(t *testing.T) {
	dir := project(t, countPipeline)
	text, _ := numbered(10, 3)
	write(t, dir, "in.txt", text)
	r := do(t, dir, "run", "p.yaml", "--json", "--state-dir", "st")
	r.want(t, 0)
	var res struct {
		Complete bool
		Stats    struct{ Read int }
	}
	e := envelopeOf(t, r.out)
	if err := json.Unmarshal(e.Data, &res); err != nil || !e.OK || !res.Complete || res.Stats.Read != 10 {
		t.Errorf("%s: %v", r.out, err)
	}
	e = envelopeOf(t, do(t, dir, "snapshot", "list", "--json", "st").out)
	var rows []snapshotRow
	if err := json.Unmarshal(e.Data, &rows); err != nil || len(rows) == 0 || !rows[len(rows)-1].Finished {
		t.Errorf("%s: %v", e.Data, err)
	}
	do(t, dir, "snapshot", "list", "--state-dir", "st").want(t, 0, "complete: the input ended")
	do(t, dir, "run", "p.yaml", "--restore", "99").want(t, 2, "99")
	// From another folder: paths and state are those of the file's folder.
	if err := os.RemoveAll(filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	elsewhere := t.TempDir()
	file := filepath.Join(dir, "p.yaml")
	do(t, elsewhere, "run", file).want(t, 0, "complete: 10 records", filepath.Join(dir, ".millrace", "words"))
	do(t, dir, "run", "p.yaml").want(t, 0, "already complete")
	do(t, elsewhere, "snapshot", "list", file).want(t, 0, "complete: the input ended")
}

func TestExplainSaysWhatIsPromised(t *testing.T) {
	dir := project(t, countPipeline)
	do(t, dir, "explain", "p.yaml").want(t, 0, "words: 2 tasks", "by key", "out: exactly-once", "count.total: value state")
	lossy := project(t, strings.Replace(countPipeline, "    source: file\n    path: in.txt\n", "    source: stdin\n", 1))
	do(t, lossy, "explain", "p.yaml").want(t, 0, "loses what arrived since the last checkpoint", "at most once since the last checkpoint")
}

func TestInspect(t *testing.T) {
	dir := project(t, countPipeline)
	do(t, dir, "inspect", "wordcount.wasm").want(t, 0, "function count (process, keyed)", "state total: value")
	write(t, dir, "text.wasm", "not a module")
	do(t, dir, "inspect", "text.wasm").want(t, 2, "text.wasm can't be used")
}

func TestSchemaIsJSON(t *testing.T) {
	r := do(t, t.TempDir(), "schema")
	r.want(t, 0)
	if !json.Valid([]byte(r.out)) {
		t.Error("not JSON")
	}
}

func TestGuestFaultNamesTheLine(t *testing.T) {
	dir := project(t, strings.Replace(countPipeline, "  - id: by-word\n    key_by: {whole: true}\n", "  - id: words\n    flat_map: {module: wordcount.wasm, function: split}\n  - id: by-word\n    key_by: {whole: true}\n", 1))
	write(t, dir, "in.txt", "good line\nbad \xff line\n")
	r := do(t, dir, "run", "p.yaml")
	r.want(t, 1, filepath.Join("in.txt")+":2", "operator words", "returned error")
	if len(published(t, dir)) > 2 {
		t.Error("more was published than what came before the fault")
	}
}
