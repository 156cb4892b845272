package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/guests/cases"
	"github.com/millrace-io/millrace/host/ci"
)

// TestCI: exit codes and forms of a comparison over 300 records, in a folder that has the slice and modules only.
func TestCI(t *testing.T) {
	l := sliced(t, 300)
	do(t, l.dir, "stop", "p.yaml").want(t, 0)
	do(t, l.dir, "snapshot", "export", "p.yaml", "mid", "slice.snap", "--with-input").want(t, 0)
	do(t, l.dir, "snapshot", "export", "p.yaml", "mid", "bare.snap").want(t, 0)
	do(t, l.dir, "snapshot", "export", "p.yaml", "latest", "empty.snap", "--with-input").want(t, 0)
	dir := t.TempDir()
	for _, name := range []string{"slice.snap", "bare.snap", "empty.snap"} {
		b, err := os.ReadFile(filepath.Join(l.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		write(t, dir, name, string(b))
		if at := bytes.Index(b, []byte("MRINPUT1")); at > 0 && name == "slice.snap" {
			b[at+400] ^= 1
			write(t, dir, "bad.snap", string(b))
		}
	}
	write(t, dir, "same.wasm", string(cases.Upgrade("v1", cases.UpgradeFails, 99_999_999)))
	write(t, dir, "fails.wasm", string(cases.Upgrade("v1", cases.UpgradeFails, 130)))
	write(t, dir, "tagged.wasm", string(cases.Upgrade("v2", cases.UpgradeCounts, 0)))
	write(t, dir, "keeps.wasm", string(cases.Upgrade("v1", cases.UpgradeTraps, 290)))
	write(t, dir, "text.wasm", "not a module")

	do(t, dir, "ci", "slice.snap", "--module", "same.wasm").want(t, 0, "within the policy", "swap: operator count", "output  the same", "300 records")
	do(t, dir, "ci", "slice.snap", "--module", "count=tagged.wasm").want(t, 1, "output  differs at 300 of 300", `"tag":"v2"`, "in.ndjson:101 (byte", "300 records or timers differ, 0 may")
	do(t, dir, "ci", "slice.snap", "--module", "tagged.wasm", "--allow", "output").want(t, 0, "within the policy")
	do(t, dir, "ci", "slice.snap", "--module", "tagged.wasm", "--max-diff", "99%").want(t, 1, "beyond")
	do(t, dir, "ci", "slice.snap", "--module", "tagged.wasm", "--max-diff", "100%").want(t, 0)
	do(t, dir, "ci", "slice.snap", "--module", "fails.wasm").want(t, 1, "fault   differs at 3 of 300", "does not like 130", "in.ndjson:131 (byte", "key k0")
	do(t, dir, "ci", "slice.snap", "--module", "keeps.wasm").want(t, 1, "check      count: function count")
	write(t, dir, "policy.yaml", "operators: {count: {allow: [output], max_fuel: +50%}}\n")
	do(t, dir, "ci", "slice.snap", "--module", "tagged.wasm", "--policy", "policy.yaml").want(t, 0)

	var r ci.Report
	e := envelopeOf(t, do(t, dir, "ci", "slice.snap", "--module", "tagged.wasm", "--json").out)
	if err := json.Unmarshal(e.Data, &r); err != nil || e.OK || e.Error.Exit != 1 || r.Operators[0].Differ["output"] != 300 || len(r.Operators[0].Samples) == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	first := do(t, dir, "ci", "slice.snap", "--module", "tagged.wasm", "--format", "markdown")
	first.want(t, 1, "### millrace ci: **beyond the policy**", "| `count` | 300 | 300 differ | same |", "<details>")
	if again := do(t, dir, "ci", "slice.snap", "--module", "tagged.wasm", "--format", "markdown"); again.out != first.out {
		t.Errorf("another report:\n%s\n%s", first.out, again.out)
	}

	write(t, dir, "p.yaml", strings.NewReplacer("count.wasm", "tagged.wasm", "retain: 50", "retain: 5").Replace(livePipeline))
	do(t, dir, "ci", "slice.snap", "--pipeline", "p.yaml").want(t, 1, "restart: checkpoint changes", "output  differs at 300 of 300")

	do(t, dir, "ci", "bad.snap", "--module", "same.wasm").want(t, 2, "recorded input is damaged: block 1")
	do(t, dir, "ci", "empty.snap", "--module", "tagged.wasm").want(t, 1, "nothing was compared")
	do(t, dir, "ci", "bare.snap", "--module", "same.wasm").want(t, 2, "has no input", "--with-input")
	do(t, dir, "ci", "slice.snap", "--module", "text.wasm").want(t, 2, "text.wasm")
	do(t, dir, "ci", "slice.snap", "--module", "cuont=same.wasm").want(t, 2, `no operator "cuont"; those with modules are count`)
	do(t, dir, "ci", "slice.snap").want(t, 2, "wants what changed")
	do(t, dir, "ci", "slice.snap", "--module", "same.wasm", "--max-diff", "few", "--max-fuel", "more").want(t, 2, `max-diff "few"`, `max-fuel "more"`)
	do(t, dir, "ci", "same.wasm", "--module", "same.wasm").want(t, 2, "not a snapshot archive")
}

// The commands of docs/ci.md work, with the names that a reader puts in.
func TestCIPage(t *testing.T) {
	l := sliced(t, 300)
	do(t, l.dir, "stop", "p.yaml").want(t, 0)
	write(t, l.dir, "new.wasm", string(cases.Upgrade("v1", cases.UpgradeFails, 99_999_999)))
	ran := 0
	for _, block := range blocks(t, "../../docs/ci.md", "sh") {
		for line := range strings.Lines(block) {
			line = strings.NewReplacer("pipeline.yaml", "p.yaml", " ID ", " mid ").Replace(strings.TrimSpace(line))
			do(t, l.dir, strings.Fields(strings.TrimPrefix(line, "millrace "))...).want(t, 0)
			ran++
		}
	}
	if ran != 2 {
		t.Errorf("%d commands ran, expected 2", ran)
	}
}
