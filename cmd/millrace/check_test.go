package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/abi/abitest"
	"github.com/millrace-io/millrace/guests/cases"
)

// forgetful is a module that keeps its counts in variables of its own and does not say so.
func forgetful() string {
	return string(abitest.Redescribe(cases.Module("ledger"), func(d *abi.Descriptor) {
		*d = abi.Descriptor{ABI: d.ABI, Name: d.Name, Functions: d.Functions}
	}))
}

const forgetfulPipeline = `name: p
operators:
  - {id: lines, source: file, path: in.txt, format: lines}
  - {id: by, key_by: {whole: true}}
  - id: ledger
    process: {module: ledger.wasm, function: ledger}
  - {id: out, sink: file, path: out/}
`

const keepsSomething = "function ledger keeps something between calls that is not state: at record 2 of the input of lines (key \"a 1\", value \"a 1\")"

// A function that keeps something in its variables is refused by every verb that would let it in, and nothing runs.
func TestForgetfulModuleIsRefused(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "p.yaml", forgetfulPipeline)
	write(t, dir, "in.txt", strings.Repeat("a 1\n", 100))
	write(t, dir, "ledger.wasm", forgetful())
	do(t, dir, "lint", "p.yaml").want(t, 2, keepsSomething, "ledger.wasm", "check: off")
	do(t, dir, "run", "p.yaml").want(t, 2, keepsSomething)
	do(t, dir, "run", "p.yaml").want(t, 2, keepsSomething)
	if _, err := os.Stat(filepath.Join(dir, "out")); err == nil {
		t.Error("something was published")
	}
	do(t, dir, "inspect", "ledger.wasm").want(t, 0, "function ledger")
	do(t, dir, "inspect", "--check", "ledger.wasm").want(t, 2, "function ledger keeps something between calls")

	change(t, dir, "function: ledger}", "function: ledger, check: off}")
	do(t, dir, "lint", "p.yaml").want(t, 0, "not checked: the pipeline file says check: off")
	do(t, dir, "run", "p.yaml").want(t, 0)
	if n := strings.Count(strings.Join(published(t, dir), "\n"), `"count":`); n != 100 {
		t.Errorf("%d counts with check: off", n)
	}
}

// TestInspectCheck: what was tried is told, of a module whose memory is state that it was not.
func TestInspectCheck(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "w.wasm", string(cases.Module("windows")))
	write(t, dir, "ledger.wasm", string(cases.Module("ledger")))
	do(t, dir, "inspect", "--check", "w.wasm").want(t, 0, "function median keeps nothing between calls: 81 windows of a synthetic sample", "function sum keeps nothing")
	do(t, dir, "inspect", "--check", "ledger.wasm").want(t, 0, "not checked: its memory is state")
	r := do(t, dir, "inspect", "--check", "--json", "w.wasm")
	r.want(t, 0)
	var out struct {
		Data struct {
			Digest string
			Check  struct {
				Functions []struct {
					Function string
					Records  int
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(r.out), &out); err != nil || len(out.Data.Check.Functions) < 8 || out.Data.Check.Functions[0].Records == 0 || out.Data.Digest == "" {
		t.Errorf("%v: %s", err, r.out)
	}
}

// TestTestingPageShowsWhatInspectSays: the page's line, but for how far fresh instances came.
func TestTestingPageShowsWhatInspectSays(t *testing.T) {
	const command = "bin/millrace inspect --check examples/fraud/fraud.wasm"
	page, err := os.ReadFile("../../docs/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(page), "\n"+command+"\n```\n\n```\n")
	line, _, _ := strings.Cut(after, ";")
	if !found || line == "" {
		t.Fatalf("docs/testing.md does not show %q with what it says", command)
	}
	do(t, "../..", strings.Fields(strings.TrimPrefix(command, "bin/millrace "))...).want(t, 0, line)
}

// TestUpgradeRefusesAForgetfulModule: the old code goes on.
func TestUpgradeRefusesAForgetfulModule(t *testing.T) {
	l := newLive(t)
	l.module(cases.Upgrade("v2", cases.UpgradeTraps, 10))
	do(t, l.dir, "upgrade", "p.yaml").want(t, 2, "function count keeps something between calls", "record 11 of the input of in")
	l.module(cases.Upgrade("v3", cases.UpgradeCounts, 0))
	l.send(50)
	do(t, l.dir, "upgrade", "p.yaml").want(t, 0, "done")
	l.send(50)
	l.settle("v1 v3")
	l.stop()
}
