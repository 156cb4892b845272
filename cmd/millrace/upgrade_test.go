package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/abi/abitest"
	"github.com/millrace-io/millrace/guests/cases"
)

// live is a pipeline that follows a file, whose module counts per key.
const livePipeline = `name: live
linger: 0ms
checkpoint: {interval: 50ms, retain: 50}
operators:
  - {id: in, source: file, path: in.ndjson, follow: true, fields: {key: string, n: int64}}
  - {id: by, key_by: key}
  - id: count
    process: {module: count.wasm, function: count}
    parallelism: 2
  - {id: out, sink: file, path: out/}
`

type live struct {
	t    *testing.T
	dir  string
	run  *exec.Cmd
	err  *bytes.Buffer
	sent int
}

func newLive(t *testing.T) *live {
	t.Helper()
	l := &live{t: t, dir: t.TempDir()}
	write(t, l.dir, "p.yaml", livePipeline)
	l.module(cases.Upgrade("v1", cases.UpgradeCounts, 0))
	l.send(100)
	l.run, l.err = background(t, l.dir)
	return l
}

func (l *live) module(wasm []byte) { write(l.t, l.dir, "count.wasm", string(wasm)) }

func (l *live) send(n int) {
	l.t.Helper()
	f, err := os.OpenFile(filepath.Join(l.dir, "in.ndjson"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		l.t.Fatal(err)
	}
	defer f.Close()
	for range n {
		fmt.Fprintf(f, "{\"key\":\"k%d\",\"n\":%d}\n", l.sent%5, l.sent)
		l.sent++
	}
}

// settle waits until everything sent is published, and checks it: per key the counts go up by one.
func (l *live) settle(tags string) {
	l.t.Helper()
	waitFor(l.t, fmt.Sprintf("%d lines", l.sent), func() bool { return len(published(l.t, l.dir)) == l.sent })
	parts, err := filepath.Glob(filepath.Join(l.dir, "out", "*.ndjson"))
	if err != nil {
		l.t.Fatal(err)
	}
	byKey := map[string]map[uint64]string{}
	for _, p := range parts {
		b, err := os.ReadFile(p)
		if err != nil {
			l.t.Fatal(err)
		}
		for s := range strings.Lines(string(b)) {
			var o struct {
				Key, Tag string
				Count    uint64
			}
			if err := json.Unmarshal([]byte(s), &o); err != nil {
				l.t.Fatalf("%q: %v", s, err)
			}
			if byKey[o.Key] == nil {
				byKey[o.Key] = map[uint64]string{}
			}
			if _, twice := byKey[o.Key][o.Count]; twice {
				l.t.Fatalf("key %s has count %d twice", o.Key, o.Count)
			}
			byKey[o.Key][o.Count] = o.Tag
		}
	}
	for k, counts := range byKey {
		var seen []string
		for i := uint64(1); i <= uint64(len(counts)); i++ {
			tag, ok := counts[i]
			if !ok {
				l.t.Fatalf("key %s lacks count %d", k, i)
			}
			if len(seen) == 0 || seen[len(seen)-1] != tag {
				seen = append(seen, tag)
			}
		}
		if got := strings.Join(seen, " "); got != tags {
			l.t.Fatalf("key %s has versions %q, expected %q", k, got, tags)
		}
	}
}

func TestUpgradeFromASecondTerminal(t *testing.T) {
	l := newLive(t)
	do(t, l.dir, "upgrade", "p.yaml").want(t, 0, "nothing to change")
	l.module(cases.Upgrade("v2", cases.UpgradeCounts, 0))
	l.send(50)
	do(t, l.dir, "upgrade", "p.yaml").want(t, 0, "swap", "count: module", "sources never stopped", "done: the next checkpoint is complete")
	l.send(50)
	l.settle("v1 v2")
	do(t, l.dir, "status", "p.yaml").want(t, 0, "upgrade", "done, at checkpoint")

	// What does not fit is refused; what is no module is the business of another verb.
	l.module(abitest.Redescribe(cases.Upgrade("v3", cases.UpgradeCounts, 0), func(d *abi.Descriptor) { d.Functions[0].States[0].Kind = abi.StateList }))
	do(t, l.dir, "upgrade", "p.yaml").want(t, 2, "state seen is a value, the new module declares a list")
	l.module([]byte("no module"))
	do(t, l.dir, "upgrade", "p.yaml").want(t, 2, "module refused")
	l.module(cases.Upgrade("v2", cases.UpgradeCounts, 0))
	change(t, l.dir, "parallelism: 2", "parallelism: 3")
	do(t, l.dir, "upgrade", "p.yaml").want(t, 2, "parallelism 2 becomes 3", "millrace diff and apply")

	// That verb wants the plan that was seen.
	r := do(t, l.dir, "diff", "p.yaml")
	r.want(t, 0, "restart", "count: parallelism 2 becomes 3")
	do(t, l.dir, "apply", "p.yaml").want(t, 2, "--plan wants the hash")
	do(t, l.dir, "apply", "p.yaml", "--plan", "0123456789ab").want(t, 2, "the plan is out of date")
	do(t, l.dir, "apply", "p.yaml", "--plan", planIn(t, r.out)).want(t, 0, "started anew in", "done")
	l.send(50)
	l.settle("v1 v2")
	l.stop()
}

// planIn is the hash that diff printed.
func planIn(t *testing.T, out string) string {
	t.Helper()
	m := regexp.MustCompile(`plan ([0-9a-f]{12})`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("no plan in %q", out)
	}
	return m[1]
}

func (l *live) stop() {
	l.t.Helper()
	do(l.t, l.dir, "stop", "p.yaml").want(l.t, 0)
	_ = l.run.Wait()
}

// A version that traps is taken back by itself; a later start with it is refused by name.
func TestUpgradeThatTrapsIsTakenBack(t *testing.T) {
	l := newLive(t)
	bad := cases.Upgrade("v2", cases.UpgradeTraps, 0)
	l.module(bad)
	upgraded := make(chan struct{})
	go func() {
		for {
			select {
			case <-upgraded:
				return
			case <-time.After(2 * time.Millisecond):
				l.sendQuietly()
			}
		}
	}()
	r := do(t, l.dir, "upgrade", "p.yaml")
	close(upgraded)
	if r.code != 1 || !strings.Contains(r.err, "the old code runs") && !strings.Contains(r.err, "the change was given up") {
		t.Fatalf("exit %d: %s%s", r.code, r.out, r.err)
	}
	do(t, l.dir, "upgrade", "p.yaml").want(t, 2, "was taken out after an upgrade", "this version traps")
	do(t, l.dir, "status", "p.yaml").want(t, 0, "this version traps")
	l.stop()
	do(t, l.dir, "run", "p.yaml").want(t, 2, "was taken out after an upgrade", "--retry-refused")
}

// sendQuietly adds records without counting them.
func (l *live) sendQuietly() {
	f, err := os.OpenFile(filepath.Join(l.dir, "in.ndjson"), os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return
	}
	defer f.Close()
	for i := range 20 {
		fmt.Fprintf(f, "{\"key\":\"q%d\",\"n\":%d}\n", i%5, i)
	}
}

func TestRollbackFromASecondTerminal(t *testing.T) {
	l := newLive(t)
	l.settle("v1")
	r := do(t, l.dir, "snapshot", "create", "p.yaml", "--tag", "good")
	r.want(t, 0)
	l.module(cases.Upgrade("v2", cases.UpgradeCounts, 0))
	do(t, l.dir, "upgrade", "p.yaml").want(t, 0, "done")
	l.send(100)
	l.settle("v1 v2")
	do(t, l.dir, "rollback", "p.yaml", "nothing").want(t, 2)
	do(t, l.dir, "rollback", "p.yaml", "good").want(t, 0, "withdrawn", "runs from checkpoint")
	l.settle("v1")
	do(t, l.dir, "status", "p.yaml").want(t, 0, "the rollback to checkpoint")
	l.stop()
}

// A version that keeps its state otherwise rewrites it; one that can't is refused with the key.
func TestUpgradeThatMigrates(t *testing.T) {
	l := newLive(t)
	l.settle("v1")
	schema1 := func(behaviour byte, number int) []byte {
		return abitest.Redescribe(cases.Upgrade("v2", behaviour, number), func(d *abi.Descriptor) { d.Functions[0].States[0].Version = 1 })
	}
	l.module(schema1(cases.UpgradeStays, 2))
	do(t, l.dir, "upgrade", "p.yaml").want(t, 2, `failed for 1 of 5 entries, the first is key "k2"`)
	l.send(10)
	l.settle("v1")
	l.module(schema1(cases.UpgradeCounts, 0))
	do(t, l.dir, "upgrade", "p.yaml").want(t, 0, "restart", "state seen goes from schema version 0 to 1", "migrated        count: 5 entries of state seen", "done")
	l.stop()
}

// The commands of docs/upgrade.md, in their order, over a pipeline that runs.
func TestUpgradePage(t *testing.T) {
	l := newLive(t)
	plan, ran := "", 0
	for _, block := range blocks(t, "../../docs/upgrade.md", "sh") {
		for line := range strings.Lines(block) {
			line = strings.TrimSpace(line)
			args, ok := strings.CutPrefix(line, "bin/millrace ")
			if !ok {
				t.Errorf("no test runs %q", line)
				continue
			}
			switch {
			case args == "run p.yaml &": // newLive did
				continue
			case args == "upgrade p.yaml":
				l.module(cases.Upgrade("v2", cases.UpgradeCounts, 0))
			case strings.HasPrefix(args, "upgrade p.yaml --probation"):
				l.send(10)
				l.settle("v1 v2")
				l.module(cases.Upgrade("v3", cases.UpgradeCounts, 0))
			case args == "diff p.yaml":
				l.send(10)
				change(t, l.dir, "parallelism: 2", "parallelism: 4")
			case strings.HasPrefix(args, "snapshot create"):
				l.settle("v1 v2 v3")
			}
			r := do(t, l.dir, strings.Fields(strings.Replace(args, "HASH", plan, 1))...)
			r.want(t, 0)
			if strings.HasPrefix(args, "diff") {
				plan = planIn(t, r.out)
			}
			ran++
		}
	}
	if ran != 7 {
		t.Errorf("%d commands ran, expected 7", ran)
	}
	l.send(20)
	l.settle("v1 v2 v3")
	l.stop()
}
