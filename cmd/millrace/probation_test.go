package main

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"github.com/millrace-io/millrace/guests/cases"
	"github.com/millrace-io/millrace/host/control"
)

// A process killed in the middle of a probation leaves nothing published, and the next goes on with the hold.
func TestProbationAcrossAKill(t *testing.T) {
	l := newLive(t)
	l.settle("v1")
	l.module(cases.Upgrade("v2", cases.UpgradeCounts, 0))
	do(t, l.dir, "upgrade", "p.yaml", "--probation", "400", "--wait", "0s").want(t, 0,
		"holds           output for 400 checkpoints: it comes up to 20s later", "on probation, output is held for")
	l.send(50)
	status := func() (in control.Info) {
		r := do(t, l.dir, "status", "p.yaml", "--json")
		var e struct{ Data control.Info }
		if err := json.Unmarshal([]byte(r.out), &e); err != nil {
			t.Fatalf("%v: %s", err, r.out)
		}
		return e.Data
	}
	waitFor(t, "checkpoints on probation", func() bool { return status().Upgrade.Held < 395 })
	do(t, l.dir, "snapshot", "create", "p.yaml").want(t, 3, "a savepoint of code on probation would outlive it")
	do(t, l.dir, "upgrade", "p.yaml").want(t, 0, "nothing to change")
	if err := l.run.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = l.run.Wait()
	if n := len(published(t, l.dir)); n != 100 {
		t.Fatalf("%d lines are published, expected the 100 of the old code", n)
	}
	write(t, l.dir, "fork.yaml", strings.NewReplacer("name: live", "name: fork", "out/", "forked/").Replace(livePipeline))
	do(t, l.dir, "snapshot", "fork", "p.yaml", "latest", "--to", "fork.yaml").want(t, 2, "its code is on probation since checkpoint")
	l.run, l.err = background(t, l.dir)
	waitFor(t, "the hold to go on", func() bool { u := status().Upgrade; return u != nil && u.Held > 0 && u.Held < 395 })
	do(t, l.dir, "status", "p.yaml").want(t, 0, "held", "output since checkpoint")
	if n := len(published(t, l.dir)); n != 100 {
		t.Fatalf("%d lines are published, expected the 100 of the old code", n)
	}
	// The old module again: what was held is discarded.
	l.module(cases.Upgrade("v1", cases.UpgradeCounts, 0))
	l.stop()
	l.run, l.err = background(t, l.dir)
	l.settle("v1")
	if !strings.Contains(l.err.String(), "what was held back is discarded") {
		t.Errorf("the run says %s", l.err)
	}
	l.stop()
}

// The pipeline file makes it the rule: explain says what it costs, and that it can't be where a sink prints at once.
func TestProbationOfThePipelineFile(t *testing.T) {
	l := newLive(t)
	l.settle("v1")
	change(t, l.dir, "retain: 50}", "retain: 50, probation: 3}")
	do(t, l.dir, "explain", "p.yaml").want(t, 0, "out: probation of 3 checkpoints (after an upgrade output is held back, and comes up to 150ms later)")
	l.module(cases.Upgrade("v2", cases.UpgradeCounts, 0))
	l.send(10)
	do(t, l.dir, "diff", "p.yaml").want(t, 0, "holds           output for 3 checkpoints")
	do(t, l.dir, "upgrade", "p.yaml").want(t, 0, "holds           output for 3 checkpoints", "done: what was held is published")
	l.send(10)
	l.settle("v1 v2")
	l.module(cases.Upgrade("v3", cases.UpgradeCounts, 0))
	do(t, l.dir, "upgrade", "p.yaml", "--probation", "-1").want(t, 0, "done: the next checkpoint is complete")
	change(t, l.dir, "parallelism: 2", "parallelism: 3")
	do(t, l.dir, "apply", "p.yaml", "--plan", "0").want(t, 2, "this change can't be on probation", "parallelism 2 becomes 3", "--probation -1 does without")
	change(t, l.dir, "sink: file, path: out/", "sink: stdout")
	do(t, l.dir, "explain", "p.yaml").want(t, 0, "no probation (upgrades are refused: sink out (stdout) publishes at once")
	change(t, l.dir, "sink: stdout", "sink: file, path: out/")
	l.stop()
}
