package jobtest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/guests/cases"
	"github.com/millrace-io/millrace/host/job"
)

func (u *upgrading) change(c job.Change) (checkpoint.ID, error) {
	u.T.Helper()
	ctx, cancel := context.WithTimeout(u.T.Context(), time.Minute)
	defer cancel()
	return u.run.Change(ctx, c)
}

// mustChange changes the pipeline as soon as the change before is no longer on trial.
func (u *upgrading) mustChange(c job.Change) {
	u.T.Helper()
	u.settle()
	if _, err := u.change(c); err != nil {
		u.T.Fatal(err)
	}
}

func parallel(yaml string, from, to int) string {
	return strings.Replace(yaml, fmt.Sprintf("parallelism: %d", from), fmt.Sprintf("parallelism: %d", to), 1)
}

// A running job is rescaled 1, 4, 2, 16: counts go on, nothing is lost, doubled or reordered.
func TestLiveRescale(t *testing.T) {
	t.Parallel()
	u := newUpgrading(t, "checkpoint: {interval: 20ms}", 1, "stop")
	u.feed.keys = 50
	yaml := u.yaml
	for _, p := range []int{4, 2, 16} {
		u.send(500)
		u.mustChange(job.Change{Revision: u.version(nil, parallel(yaml, 1, p))})
		if up := u.run.Stats().Upgrade; up.Millis == 0 {
			t.Errorf("upgrade %+v, expected its time", up)
		}
		u.send(300)
	}
	u.finish().wantTags(t, "v1")
}

// C026: what a changed pipeline would lose is refused by name before anything stops; with drop it is done, and
// a renamed operator goes on at its counts.
func TestC026ChangesWhileItRuns(t *testing.T) {
	t.Parallel()
	u := newUpgrading(t, "checkpoint: {interval: 20ms}", 2, "stop")
	u.send(200)
	u.settle()
	renamed := strings.Replace(u.yaml, "id: count", "id: tally", 1)
	_, err := u.change(job.Change{Revision: u.version(nil, renamed)})
	if !errors.Is(err, job.ErrUnfit) || !strings.Contains(err.Error(), "operator count: is removed, with its state (--drop count allows it)") {
		t.Errorf("renamed without a mapping: %v", err)
	}
	u.send(100)
	rev := u.version(nil, renamed)
	rev.Renamed = map[string]string{"count": "tally"}
	u.mustChange(job.Change{Revision: rev})
	u.send(100)
	// A stateless operator in between changes nothing.
	between := strings.Replace(renamed, "  - id: tally\n", "  - {id: by-again, key_by: key}\n  - id: tally\n", 1)
	u.mustChange(job.Change{Revision: u.version(nil, between)})
	u.send(100)
	keyed := strings.Replace(renamed, "key_by: key", "key_by: n", 1)
	if _, err := u.change(job.Change{Revision: u.version(nil, keyed)}); !errors.Is(err, job.ErrUnfit) {
		t.Errorf("another key: %v", err)
	}
	u.finish().wantTags(t, "v1")
}

// A changed pipeline whose code fails before its first checkpoint is taken back as a whole.
func TestAChangeThatFailsIsTakenBack(t *testing.T) {
	t.Parallel()
	u := newUpgrading(t, "checkpoint: {interval: 0s}", 1, "stop")
	u.send(200)
	u.settle()
	rev := u.version(cases.Upgrade("v2", cases.UpgradeTraps, 0), parallel(u.yaml, 1, 3))
	if _, err := u.change(job.Change{Revision: rev}); err != nil {
		t.Fatal(err)
	}
	u.send(50)
	u.waitUpgrade(job.UpgradeRolledBack)
	if n := len(u.run.Running().Graph.Nodes); u.run.Running().Graph.Nodes[n-2].Parallelism == 3 {
		t.Error("the changed graph is in force")
	}
	u.finish().wantTags(t, "v1")
}

// Back to an older checkpoint with its code: what came after it is withdrawn and made anew.
func TestRollbackToACheckpoint(t *testing.T) {
	t.Parallel()
	u := newUpgrading(t, "checkpoint: {interval: 0s, retain: 20}", 2, "stop")
	u.send(300)
	at := u.settle()
	if _, err := u.swap(cases.Upgrade("v2", cases.UpgradeCounts, 0)); err != nil {
		t.Fatal(err)
	}
	u.send(300)
	u.settle()
	u.check(600)
	after, err := u.run.OutputAfter(at)
	if err != nil || len(after) == 0 {
		t.Errorf("output after %d: %v, %v", at, after, err)
	}
	old := u.version(cases.Upgrade("v1", cases.UpgradeCounts, 0), u.yaml)
	if _, err := u.change(job.Change{Revision: old, Restore: at}); err != nil {
		t.Fatal(err)
	}
	u.finish().wantTags(t, "v1")
}

// timers and lists move with their keys: the output is that of a run that was not changed.
func TestLiveRescaleOfTimersAndLists(t *testing.T) {
	t.Parallel()
	plain := timedRun(t, nil)
	got := timedRun(t, []int{4, 2, 16, 1})
	if d := Diff(got, plain); d != "" {
		t.Error(d)
	}
	if plain == "" {
		t.Error("nothing came out")
	}
}

// timedRun runs the upgrade case's timed function over a slow feed, rescaling meanwhile.
func timedRun(t *testing.T, parallelisms []int) string {
	t.Helper()
	return timedSteps(t, func(u *upgrading, i int) {
		if i < len(parallelisms) {
			u.mustChange(job.Change{Revision: u.version(nil, parallel(u.yaml, 1, parallelisms[i]))})
		}
	})
}

// timedSteps runs it with something done after each fifth of the feed.
func timedSteps(t *testing.T, step func(u *upgrading, i int)) string {
	t.Helper()
	u := newUpgrading(t, "checkpoint: {interval: 10ms}", 1, "stop")
	u.run.Crash()
	u.yaml = strings.Replace(strings.Replace(u.yaml, "function: count", "function: timed", 1), "{key: string, n: int64}}", "{key: string, n: int64, at: timestamp}, time: {field: at}}", 1)
	u.yaml = strings.Replace(u.yaml, "name: upgraded", "name: timed", 1)
	u.Pipeline(u.yaml)
	u.feed = &upgradeFeed{u.Feed("in"), 40}
	u.run = u.Start()
	t.Cleanup(u.run.Crash)
	next := 0
	push := func(n int) {
		for range n {
			r := upgradeRecord(next, u.feed.keys)
			var row abi.RowBuilder
			row.Reset(2)
			row.SetString(0, string(r.Key))
			row.SetInt64(1, int64(next))
			r.Value, r.Time = row.Bytes(), int64(next*3)
			u.feed.Push(r)
			next++
		}
	}
	for i := range 5 {
		push(1000)
		step(u, i)
	}
	u.feed.End()
	u.Finish(u.run)
	lines := u.Lines("out/")
	type out struct {
		Key string
		At  int64
	}
	slices.SortStableFunc(lines, func(a, b string) int {
		var x, y out
		if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
			t.Fatalf("line %q or %q", a, b)
		}
		return cmp.Compare(x.Key, y.Key)
	})
	return strings.Join(lines, "\n")
}
