package jobtest

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/abi/abitest"
	"github.com/millrace-io/millrace/guests/cases"
	"github.com/millrace-io/millrace/host/job"
)

// schema1 is a version of the upgrade case whose state seen has schema version 1.
func schema1(tag string, behaviour byte, number int) []byte {
	return abitest.Redescribe(cases.Upgrade(tag, behaviour, number), func(d *abi.Descriptor) { d.Functions[0].States[0].Version = 1 })
}

// lastCounts is the newest count of each key.
func (u *upgrading) lastCounts() map[string]uint64 {
	u.T.Helper()
	last := map[string]uint64{}
	for _, l := range u.Lines("out/") {
		var o struct {
			Key   string
			Count uint64
		}
		if err := json.Unmarshal([]byte(l), &o); err != nil {
			u.T.Fatal(err)
		}
		last[o.Key] = o.Count
	}
	return last
}

// C029: a module with a higher schema version rewrites the state, once, in the next snapshot only; a function
// that fails for one key stops the upgrade while the old version goes on.
func TestC029Migration(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"memory", "disk"} {
		u := newUpgrading(t, "checkpoint: {interval: 0s, retain: 20}\nstate: "+kind, 2, "stop")
		u.send(70) // of 7 keys, 10 each
		at := u.settle()

		_, err := u.change(job.Change{Revision: u.version(schema1("v2", cases.UpgradeStays, 3), u.yaml)})
		var failed *job.MigrationError
		if !errors.As(err, &failed) || !errors.Is(err, job.ErrUnfit) || !strings.Contains(err.Error(), `failed for 1 of 7 entries, the first is key "k3"`) ||
			!strings.Contains(err.Error(), "this version does not like key k3") {
			t.Fatalf("one key that fails: %v", err)
		}
		u.send(70)
		u.settle()
		u.check(140).wantTags(t, "v1")

		if _, err := u.swap(schema1("v2", cases.UpgradeCounts, 0)); !errors.Is(err, job.ErrNeedsRestart) {
			t.Errorf("a migration in place: %v", err)
		}
		u.mustChange(job.Change{Revision: u.version(schema1("v2", cases.UpgradeCounts, 0), u.yaml)})
		if up := u.run.Stats().Upgrade; len(up.Migrated) != 1 || up.Migrated[0].Entries != 7 {
			t.Errorf("upgrade %+v, expected 7 entries", up)
		}
		u.send(7)
		u.settle()
		for k, n := range u.lastCounts() {
			if n != 41 { // 20 doubled, and one
				t.Errorf("key %s: count %d, expected 41", k, n)
			}
		}
		// Migrated once: a restart finds version 1.
		u.run.Crash()
		u.Pipeline(u.yaml)
		u.run = u.Start()
		u.send(7)
		u.settle()
		if n := u.lastCounts()["k0"]; n != 42 {
			t.Errorf("after a restart: count %d, expected 42", n)
		}
		// The old snapshot is as it was.
		old := u.version(cases.Upgrade("v1", cases.UpgradeCounts, 0), u.yaml)
		if _, err := u.change(job.Change{Revision: old, Restore: at}); err != nil {
			t.Fatal(err)
		}
		u.finish().wantTags(t, "v1")
	}
}

// A list's elements are rewritten too, and timers stay.
func TestMigrationOfAList(t *testing.T) {
	t.Parallel()
	u := newUpgrading(t, "checkpoint: {interval: 0s}", 2, "stop")
	u.run.Crash()
	u.yaml = strings.Replace(strings.Replace(u.yaml, "name: upgraded", "name: listed", 1), "function: count", "function: timed", 1)
	u.yaml = strings.Replace(u.yaml, "n: int64}}", "n: int64, at: timestamp}, time: {field: at}}", 1)
	u.Pipeline(u.yaml)
	u.feed = &upgradeFeed{u.Feed("in"), 4}
	u.run = u.Start()
	t.Cleanup(func() { u.run.Crash() })
	u.send(8) // two of each key, all before the timer at 1000
	u.settle()
	wasm := abitest.Redescribe(cases.Upgrade("v2", cases.UpgradeCounts, 0), func(d *abi.Descriptor) { d.Functions[1].States[1].Version = 1 })
	u.mustChange(job.Change{Revision: u.version(wasm, u.yaml)})
	u.feed.End()
	u.Finish(u.run)
	lines := u.Lines("out/")
	if len(lines) != 4 {
		t.Fatalf("%d lines, expected a timer of each of 4 keys: %q", len(lines), lines)
	}
	for _, l := range lines {
		var o struct {
			Key         string
			Listed, Sum uint64
		}
		if err := json.Unmarshal([]byte(l), &o); err != nil {
			t.Fatal(err)
		}
		k := uint64(o.Key[1] - '0')
		if want := ^k + ^(k + 4); o.Listed != 2 || o.Sum != want {
			t.Errorf("line %s, expected 2 elements with sum %d", l, want)
		}
	}
}
