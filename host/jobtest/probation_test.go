package jobtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/guests/cases"
	"github.com/millrace-io/millrace/host/job"
)

const probationSettings = "checkpoint: {interval: 1h, retain: 1}"

// probation swaps a module in for k checkpoints on probation.
func (u *upgrading) probation(wasm []byte, k int) (checkpoint.ID, error) {
	u.T.Helper()
	ctx, cancel := context.WithTimeout(u.T.Context(), time.Minute)
	defer cancel()
	return u.run.Swap(ctx, job.Swap{Revision: u.version(wasm, u.yaml), Probation: k})
}

// once makes one checkpoint of everything sent.
func (u *upgrading) once() checkpoint.ID {
	u.T.Helper()
	ctx, cancel := context.WithTimeout(u.T.Context(), time.Minute)
	defer cancel()
	for !u.feed.drained() {
		if ctx.Err() != nil {
			u.T.Fatal("the feed is not read")
		}
		time.Sleep(time.Millisecond)
	}
	id, err := u.run.Checkpoint(ctx)
	if err != nil {
		u.T.Fatalf("checkpoint: %v", err)
	}
	return id
}

// published waits until so many lines are published.
func (u *upgrading) published(n int) {
	u.T.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		got := len(u.Lines("out/"))
		if got == n {
			return
		}
		if got > n || time.Now().After(end) {
			u.T.Fatalf("%d lines are published, expected %d", got, n)
		}
	}
}

// restart opens the same pipeline again.
func (u *upgrading) restart() {
	u.T.Helper()
	u.Pipeline(u.yaml)
	u.run = u.Start()
	<-u.run.Ready()
}

// Output behind the barrier comes with the k-th checkpoint, all of it at once, and none before.
func TestProbationHoldsOutput(t *testing.T) {
	t.Parallel()
	for _, p := range []int{1, 3} {
		u := newUpgrading(t, probationSettings, p, "stop")
		u.send(100)
		u.settle()
		if _, err := u.probation(cases.Upgrade("v2", cases.UpgradeCounts, 0), 3); err != nil {
			t.Fatal(err)
		}
		for left := 3; left > 0; left-- {
			if up := u.run.Stats().Upgrade; up.State != job.UpgradeTrial || up.Held != left {
				t.Errorf("upgrade %+v, expected it on trial with %d checkpoints left", up, left)
			}
			u.published(100)
			u.send(50)
			u.once()
		}
		u.published(250)
		u.waitUpgrade(job.UpgradeDone)
		u.send(20)
		u.settle()
		u.published(270)
		u.finish().wantTags(t, "v1 v2")
	}
}

// Killed after any number of checkpoints the hold goes on where it was: nothing comes early, nothing twice.
func TestProbationAcrossCrashes(t *testing.T) {
	t.Parallel()
	const k = 3
	for step := 0; step <= k; step++ {
		for _, tasks := range []int{1, 2} {
			u := newUpgrading(t, probationSettings, tasks, "stop")
			u.send(100)
			u.settle()
			if _, err := u.probation(cases.Upgrade("v2", cases.UpgradeCounts, 0), k); err != nil {
				t.Fatal(err)
			}
			for range step {
				u.send(50)
				u.once()
			}
			u.send(30) // in no checkpoint
			u.run.Crash()
			u.restart()
			if step < k {
				u.published(100)
			}
			for left := k - step; left > 0; left-- {
				u.published(100)
				u.once()
			}
			u.once()
			u.published(u.sent)
			u.finish().wantTags(t, "v1 v2")
		}
	}
}

// A crash after every single checkpoint.
func TestProbationAcrossManyCrashes(t *testing.T) {
	t.Parallel()
	u := newUpgrading(t, probationSettings, 2, "stop")
	u.send(70)
	u.settle()
	if _, err := u.probation(cases.Upgrade("v2", cases.UpgradeCounts, 0), 4); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		u.run.Crash()
		u.restart()
		u.published(70)
		u.send(35)
		u.once()
	}
	u.run.Crash()
	u.restart()
	u.published(210)
	u.finish().wantTags(t, "v1 v2")
}

// New code that fails late in its probation is taken back to the barrier: nothing that it put out was published, in this
// process or after a crash.
func TestProbationTakesBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		behaviour byte
		number    int
		policy    string
		crash     bool
	}{
		{"trap", cases.UpgradeTraps, 120, "stop", false},
		{"trap behind a crash", cases.UpgradeTraps, 70, "stop", true}, // a new instance counts anew
		{"errors", cases.UpgradeFails, 10, "skip", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			u := newUpgrading(t, probationSettings, 1, c.policy)
			u.send(100)
			u.settle()
			id, err := u.probation(cases.Upgrade("v2", c.behaviour, c.number), 5)
			if err != nil {
				t.Fatal(err)
			}
			if c.policy == "stop" {
				u.send(50)
				u.once()
				if c.crash {
					u.run.Crash()
					u.restart()
				}
				u.send(50)
				u.once()
			}
			u.published(100)
			u.send(100)
			u.waitUpgrade(job.UpgradeRolledBack)
			if up := u.run.Stats().Upgrade; up.Checkpoint != id || up.Reason == "" {
				t.Errorf("upgrade %+v, expected it taken back to %d, with the reason", up, id)
			}
			u.published(100)
			u.send(20)
			u.finish().wantTags(t, "v1")
		})
	}
}

// Whoever goes back while code is on probation discards what it put out: by a rollback, or by a start with other code.
func TestProbationDiscarded(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		u := newUpgrading(t, probationSettings, 2, "stop")
		u.send(100)
		u.settle()
		at, err := u.probation(cases.Upgrade("v2", cases.UpgradeCounts, 0), 3)
		if err != nil {
			t.Fatal(err)
		}
		u.send(50)
		held := u.once()
		after, err := u.run.OutputAfter(at)
		if err != nil || len(after) != 0 {
			t.Errorf("published after %d: %v, %v; expected nothing", at, after, err)
		}
		old := cases.Upgrade("v1", cases.UpgradeCounts, 0)
		if restart {
			u.run.Crash()
			u.version(old, u.yaml)
			u.restart()
			if got := u.run.Stats().Checkpoint; got >= held {
				t.Errorf("it goes on from %d, expected %d", got, at)
			}
		} else if _, err := u.change(job.Change{Revision: u.version(old, u.yaml), Restore: at}); err != nil {
			t.Fatal(err)
		}
		u.published(100)
		u.send(20)
		u.settle()
		u.published(170)
		u.finish().wantTags(t, "v1")
	}
}

// A stop in the middle says what it leaves unpublished; the end of input ends a probation.
func TestProbationStopsAndEnds(t *testing.T) {
	t.Parallel()
	u := newUpgrading(t, probationSettings, 1, "stop")
	u.send(100)
	u.settle()
	if _, err := u.probation(cases.Upgrade("v2", cases.UpgradeCounts, 0), 9); err != nil {
		t.Fatal(err)
	}
	u.send(10)
	u.once()
	for _, stop := range []bool{false, true} {
		_, err := u.run.Savepoint(t.Context(), job.SavepointRequest{Tag: "no", Stop: stop})
		if !errors.Is(err, job.ErrBusy) || !strings.Contains(fmt.Sprint(err), "8 checkpoints are left") {
			t.Errorf("a savepoint of code on probation (stop: %v): %v", stop, err)
		}
	}
	u.run.Stop()
	res, err := u.run.Wait()
	if err != nil || !strings.Contains(strings.Join(res.Warnings, " "), "is held back for 7 more checkpoints") {
		t.Fatalf("%v, %v", res.Warnings, err)
	}
	u.published(100)
	u.restart()
	u.published(100)
	u.finish().wantTags(t, "v1 v2")
}

// Where output can't be held back, or would never be let go, a probation is refused with every reason.
func TestProbationRefused(t *testing.T) {
	t.Parallel()
	u := newUpgrading(t, "checkpoint: {interval: 0s}", 1, "stop")
	u.send(10)
	u.settle()
	_, err := u.probation(cases.Upgrade("v2", cases.UpgradeCounts, 0), 2)
	if !errors.Is(err, job.ErrNoProbation) || !strings.Contains(err.Error(), "checkpoint.interval is 0s") {
		t.Errorf("without checkpoints: %v", err)
	}
	g, err := u.Parse(strings.Replace(u.yaml, "sink: file, path: out/", "sink: stdout", 1))
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(job.ProbationProblems(g, []job.Difference{{Kind: job.ChangeRestart, Operator: "count", What: "parallelism 1 becomes 2"}}), "\n")
	for _, want := range []string{"sink out (stdout) publishes at once", "operator count: parallelism 1 becomes 2: the tasks start anew", "interval is 0s"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nlacks %q", got, want)
		}
	}
	g, err = u.Parse(strings.Replace(strings.Replace(u.yaml, "sink: file, path: out/", "sink: blackhole", 1), "interval: 0s", "interval: 2s", 1))
	if err != nil {
		t.Fatal(err)
	}
	if got := job.ProbationProblems(g, nil); len(got) != 0 {
		t.Errorf("a blackhole: %q", got)
	}
	if d := job.ProbationDelay(g, 3); d != 6*time.Second {
		t.Errorf("delay %v, expected 6s", d)
	}
	u.finish().wantTags(t, "v1")
}
