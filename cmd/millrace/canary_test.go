package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/abi/abitest"
	"github.com/millrace-io/millrace/guests/cases"
	"github.com/millrace-io/millrace/host/control"
)

// start runs the pipeline from its file again.
func (l *live) start() {
	l.t.Helper()
	l.run, l.err = background(l.t, l.dir)
	waitFor(l.t, "an answer", func() bool { return do(l.t, l.dir, "status", "p.yaml").code == 0 })
}

// newest is the versions that the last n records of each key came from, over all keys.
func (l *live) newest(n int) string {
	l.t.Helper()
	waitFor(l.t, fmt.Sprintf("%d lines", l.sent), func() bool { return len(published(l.t, l.dir)) == l.sent })
	parts, err := filepath.Glob(filepath.Join(l.dir, "out", "*.ndjson"))
	if err != nil {
		l.t.Fatal(err)
	}
	tags := map[string]bool{}
	seen := map[int]bool{}
	for _, p := range parts {
		b, err := os.ReadFile(p)
		if err != nil {
			l.t.Fatal(err)
		}
		for s := range strings.Lines(string(b)) {
			var o struct {
				N   int
				Tag string
			}
			if err := json.Unmarshal([]byte(s), &o); err != nil {
				l.t.Fatalf("%q: %v", s, err)
			}
			if seen[o.N] {
				l.t.Fatalf("record %d came twice", o.N)
			}
			if seen[o.N] = true; o.N >= l.sent-n {
				tags[o.Tag] = true
			}
		}
	}
	var all []string
	for _, t := range []string{"v1", "v2", "v3"} {
		if tags[t] {
			all = append(all, t)
		}
	}
	return strings.Join(all, " ")
}

func (l *live) want(n int, tags string) {
	l.t.Helper()
	l.sendKeys(n)
	if got := l.newest(n); got != tags {
		l.t.Fatalf("versions %q, expected %q", got, tags)
	}
}

// sendKeys sends records of many keys, so that every share has some.
func (l *live) sendKeys(n int) {
	l.t.Helper()
	f, err := os.OpenFile(filepath.Join(l.dir, "in.ndjson"), os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		l.t.Fatal(err)
	}
	defer f.Close()
	for range n {
		fmt.Fprintf(f, "{\"key\":\"key-%d\",\"n\":%d}\n", l.sent%200, l.sent)
		l.sent++
	}
}

// A canary from a second terminal: its share, wider, over kills of the process and its snapshots, back, and promoted.
func TestCanaryFromASecondTerminal(t *testing.T) {
	l := newLive(t)
	l.want(200, "v1")
	do(t, l.dir, "canary", "p.yaml").want(t, 0, "no canary is on")
	do(t, l.dir, "canary", "p.yaml", "--revert").want(t, 2, "no canary is on")
	do(t, l.dir, "canary", "p.yaml", "--share", "5%").want(t, 2, "it runs this file with these modules")
	do(t, l.dir, "canary", "p.yaml", "--share", "5").want(t, 2, "expected a percentage")
	do(t, l.dir, "canary", "p.yaml", "--slots", "0-65536").want(t, 2, "expected 0-N")
	do(t, l.dir, "canary", "p.yaml", "--share", "5%", "--promote").want(t, 2, "takes one of")
	l.module(abitest.Redescribe(cases.Upgrade("v2", cases.UpgradeCounts, 0), func(d *abi.Descriptor) { d.Functions[0].States[0].Kind = abi.StateList }))
	do(t, l.dir, "canary", "p.yaml", "--share", "5%").want(t, 2, "that can't be a canary", "state seen is a value, the new module declares a list")

	do(t, l.dir, "snapshot", "create", "p.yaml", "--tag", "before").want(t, 0)
	l.module(cases.Upgrade("v2", cases.UpgradeCounts, 0))
	do(t, l.dir, "canary", "p.yaml", "--share", "20%").want(t, 0, "canary          count: module", "slots 0-13107 (20 %)", "sources never stopped")
	l.want(200, "v1 v2")
	do(t, l.dir, "status", "p.yaml").want(t, 0, "slots 0-13107 (20 %)", "candidate", "fuel per record")
	do(t, l.dir, "canary", "p.yaml", "--slots", "0-40000").want(t, 0, "slots 0-40000 (61 %)")
	do(t, l.dir, "canary", "p.yaml", "--share", "5%").want(t, 2, "only gets wider")
	do(t, l.dir, "upgrade", "p.yaml").want(t, 2, "a canary is on", "--promote", "--revert")
	var in struct{ Data control.Canary }
	if err := json.Unmarshal([]byte(do(t, l.dir, "canary", "p.yaml", "--json").out), &in); err != nil || in.Data.Hi != 40001 || len(in.Data.Operators) != 1 {
		t.Errorf("%v: canary %+v", err, in.Data)
	}
	do(t, l.dir, "snapshot", "create", "p.yaml", "--tag", "within").want(t, 0)
	do(t, l.dir, "snapshot", "show", "p.yaml", "within").want(t, 0, "canary", "slots 0-40000")
	do(t, l.dir, "snapshot", "diff", "p.yaml", "before", "within").want(t, 0, "canary none -> ", "has slots 0-40000")
	write(t, l.dir, "q.yaml", strings.Replace(strings.Replace(livePipeline, "name: live", "name: second", 1), "path: out/", "path: second/", 1))
	do(t, l.dir, "snapshot", "fork", "p.yaml", "within", "--to", "q.yaml").want(t, 0, "operator count has a canary", "runs what its pipeline file names for all keys")

	// Killed and started by the same command, it goes on as it was.
	if err := l.run.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = l.run.Wait()
	l.start()
	do(t, l.dir, "canary", "p.yaml").want(t, 0, "slots 0-40000 (61 %)")
	l.want(200, "v1 v2")
	do(t, l.dir, "canary", "p.yaml", "--revert").want(t, 0, "has ended", "sources never stopped")
	l.want(200, "v1")
	l.stop()
	l.start() // the file still names the candidate
	l.want(200, "v1")
	do(t, l.dir, "canary", "p.yaml", "--share", "50%").want(t, 0)
	do(t, l.dir, "canary", "p.yaml", "--promote").want(t, 0, "done: the next checkpoint is complete")
	l.want(200, "v2")
	do(t, l.dir, "canary", "p.yaml").want(t, 0, "no canary is on")
	l.stop()
	l.start()
	l.want(200, "v2")
	l.module(cases.Upgrade("v3", cases.UpgradeCounts, 0))
	do(t, l.dir, "canary", "p.yaml", "--share", "50%").want(t, 0)
	l.want(200, "v2 v3")
	l.stop()
}

// The commands of docs/canary.md, in their order, over a pipeline that runs.
func TestCanaryPage(t *testing.T) {
	l := newLive(t)
	l.want(200, "v1")
	l.module(cases.Upgrade("v2", cases.UpgradeCounts, 0))
	versions := map[string]string{"--share": "v1 v2", "--revert": "v1", "--promote": "v2"}
	ran := 0
	for _, block := range blocks(t, "../../docs/canary.md", "sh") {
		for line := range strings.Lines(block) {
			args, ok := strings.CutPrefix(strings.TrimSpace(line), "bin/millrace ")
			if !ok {
				t.Errorf("no test runs %q", line)
				continue
			}
			words := strings.Fields(args)
			do(t, l.dir, words...).want(t, 0)
			if ran++; words[0] == "canary" {
				l.want(200, versions[words[2]])
			}
		}
	}
	if ran != 6 {
		t.Errorf("%d commands ran, expected 6", ran)
	}
	l.stop()
}
