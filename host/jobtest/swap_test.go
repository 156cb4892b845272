package jobtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/abi/abitest"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/guests/cases"
	"github.com/millrace-io/millrace/host/job"
)

// upgradeText is a pipeline of the upgrade case; its module is upgrade.wasm in the world's folder.
const upgradeText = `name: upgraded
linger: 0ms
%s
operators:
  - {id: in, source: file, path: none.ndjson, follow: true, fields: {key: string, n: int64}}
  - {id: by, key_by: key}
  - id: count
    process: {module: upgrade.wasm, function: count}
    parallelism: %d
    on_error: {policy: %s}
  - {id: out, sink: file, path: out/}
`

// upgrading is a world whose input a test pushes and whose module it changes.
type upgrading struct {
	*World
	feed *upgradeFeed
	run  *Run
	sent int
	yaml string
}

// upgradeFeed pushes numbered records of some keys as rows.
type upgradeFeed struct {
	*Feed
	keys int
}

func newUpgrading(t *testing.T, settings string, parallelism int, policy string) *upgrading {
	t.Helper()
	dir := tempDir(t)
	write := func(name string, b []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("upgrade.wasm", cases.Upgrade("v1", cases.UpgradeCounts, 0))
	write("none.ndjson", nil)
	w := &World{T: t, Dir: dir, Sources: map[string][][]abi.Record{}, Feeds: map[string]*Feed{}}
	u := &upgrading{World: w, yaml: fmt.Sprintf(upgradeText, settings, parallelism, policy)}
	w.Pipeline(u.yaml)
	u.feed = &upgradeFeed{w.Feed("in"), 7}
	u.run = w.Start()
	t.Cleanup(u.run.Crash)
	return u
}

// send pushes n more records.
func (u *upgrading) send(n int) {
	u.T.Helper()
	for range n {
		u.feed.Push(upgradeRecord(u.sent, u.feed.keys))
		u.sent++
	}
}

func upgradeRecord(i, keys int) abi.Record {
	key := fmt.Sprintf("k%d", i%keys)
	var row abi.RowBuilder
	row.Reset(2)
	row.SetString(0, key)
	row.SetInt64(1, int64(i))
	return abi.Record{Key: []byte(key), Time: int64(i), Value: row.Bytes()}
}

// settle waits until everything pushed is read and committed.
func (u *upgrading) settle() checkpoint.ID {
	u.T.Helper()
	return u.Checkpoint(u.run)
}

// version makes another version of the pipeline with a module.
func (u *upgrading) version(wasm []byte, yaml string) job.Revision {
	u.T.Helper()
	if wasm != nil {
		if err := os.WriteFile(filepath.Join(u.Dir, "upgrade.wasm"), wasm, 0o644); err != nil {
			u.T.Fatal(err)
		}
	}
	g, err := u.Parse(yaml)
	if err != nil {
		u.T.Fatalf("pipeline: %v", err)
	}
	v := job.Revision{Graph: g}
	if err := v.Compile(u.T.Context(), u.run.Running().Modules, u.options().Module); err != nil {
		u.T.Fatal(err)
	}
	return v
}

func (u *upgrading) swap(wasm []byte) (checkpoint.ID, error) {
	u.T.Helper()
	ctx, cancel := context.WithTimeout(u.T.Context(), time.Minute)
	defer cancel()
	return u.run.Swap(ctx, job.Swap{Revision: u.version(wasm, u.yaml)})
}

// finish stops the run and checks what it has committed.
func (u *upgrading) finish() *versions {
	u.T.Helper()
	u.feed.End()
	u.Finish(u.run)
	return u.check(u.sent)
}

// versions is what the committed outputs say per key.
type versions struct {
	lines int
	tags  map[string][]string // of each key, each change of the tag
}

// check holds the committed lines against the records sent: per key the counts go up by one, the numbers are
// those that were sent, none is missing.
func (u *upgrading) check(sent int) *versions {
	u.T.Helper()
	s := &versions{tags: map[string][]string{}}
	counts := map[string]uint64{}
	for _, l := range u.Lines("out/") {
		var o struct {
			Key      string
			Count, N uint64
			Tag      string
		}
		if err := json.Unmarshal([]byte(l), &o); err != nil {
			u.T.Fatalf("line %q: %v", l, err)
		}
		s.lines++
		counts[o.Key]++
		var k uint64
		fmt.Sscanf(o.Key, "k%d", &k)
		if want := k + (counts[o.Key]-1)*uint64(u.feed.keys); o.Count != counts[o.Key] || o.N != want {
			u.T.Fatalf("key %s: line %q, expected count %d of record %d", o.Key, l, counts[o.Key], want)
		}
		if t := s.tags[o.Key]; len(t) == 0 || t[len(t)-1] != o.Tag {
			s.tags[o.Key] = append(t, o.Tag)
		}
	}
	if s.lines != sent {
		u.T.Fatalf("%d lines, %d records were sent", s.lines, sent)
	}
	return s
}

// wantTags says which tags each key had, one after the other.
func (s *versions) wantTags(t *testing.T, want string) {
	t.Helper()
	for k, tags := range s.tags {
		if got := strings.Join(tags, " "); got != want {
			t.Errorf("key %s has versions %q, expected %q", k, got, want)
		}
	}
}

// The module of a running job changes at a barrier: no record is lost, doubled or reordered, and the version
// changes once per key.
func TestSwapAtABarrier(t *testing.T) {
	t.Parallel()
	for _, p := range []int{1, 3} {
		u := newUpgrading(t, "checkpoint: {interval: 50ms}", p, "stop")
		u.send(500)
		u.settle()
		u.send(300)
		id, err := u.swap(cases.Upgrade("v2", cases.UpgradeCounts, 0))
		if err != nil {
			t.Fatal(err)
		}
		u.send(400)
		u.settle()
		if up := u.run.Stats().Upgrade; up == nil || up.State != job.UpgradeDone || up.Checkpoint != id {
			t.Errorf("upgrade %+v, expected it done at %d", up, id)
		}
		s := u.finish()
		s.wantTags(t, "v1 v2")
	}
}

// The version changes many times while records flow.
func TestSwapsWhileRecordsFlow(t *testing.T) {
	t.Parallel()
	u := newUpgrading(t, "checkpoint: {interval: 5ms}", 2, "stop")
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				u.send(20)
			}
		}
	}()
	// Every version gets every key, however slow the machine is.
	seen := func() {
		for from := u.feed.polled(); u.feed.polled() < from+int64(2*u.feed.keys); {
			time.Sleep(time.Millisecond)
		}
	}
	seen()
	want := []string{"v1"}
	for i := 2; i < 8; i++ {
		tag := fmt.Sprintf("v%d", i)
		want = append(want, tag)
		for {
			_, err := u.swap(cases.Upgrade(tag, cases.UpgradeCounts, 0))
			if errors.Is(err, job.ErrBusy) {
				time.Sleep(time.Millisecond)
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		seen()
	}
	close(stop)
	<-stopped
	u.finish().wantTags(t, strings.Join(want, " "))
}

// A version that traps before the next checkpoint is taken back by itself, and is not run again unasked.
func TestATrapTakesTheSwapBack(t *testing.T) {
	t.Parallel()
	u := newUpgrading(t, "checkpoint: {interval: 0s}", 2, "stop")
	u.send(100)
	u.settle()
	bad := cases.Upgrade("v2", cases.UpgradeTraps, 5)
	id, err := u.swap(bad)
	if err != nil {
		t.Fatal(err)
	}
	u.send(200)
	u.waitUpgrade(job.UpgradeRolledBack)
	if up := u.run.Stats().Upgrade; up.Checkpoint != id || !strings.Contains(up.Reason, "this version traps") {
		t.Errorf("upgrade %+v, expected it taken back to %d, with the reason", up, id)
	}
	if _, err := u.swap(bad); !errors.Is(err, job.ErrRefusedModule) {
		t.Errorf("the same version again: %v", err)
	}
	if _, err := u.swap(cases.Upgrade("v3", cases.UpgradeCounts, 0)); err != nil {
		t.Fatal(err)
	}
	u.send(50)
	u.finish().wantTags(t, "v1 v3")

	// A start from the pipeline file with the refused module is refused too, by name.
	u.version(bad, u.yaml)
	u.Pipeline(u.yaml)
	if err := u.Fail("was taken out after an upgrade", "--retry-refused", "this version traps"); !errors.Is(err, job.ErrRefusedModule) {
		t.Errorf("%v", err)
	}
}

// waitUpgrade waits for the state of the last upgrade.
func (u *upgrading) waitUpgrade(want job.UpgradeState) {
	u.T.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if up := u.run.Stats().Upgrade; up != nil && up.State == want {
			return
		}
		select {
		case <-u.run.Done():
			_, err := u.run.Wait()
			u.T.Fatalf("the run has ended: %v", err)
		default:
		}
		if time.Now().After(end) {
			u.T.Fatalf("upgrade %+v, expected %s", u.run.Stats().Upgrade, want)
		}
	}
}

// A version that fails too many records under a policy that lets them pass is taken back, and none of them
// is skipped in the end.
func TestAnErrorRateTakesTheSwapBack(t *testing.T) {
	t.Parallel()
	u := newUpgrading(t, "checkpoint: {interval: 0s}", 1, "skip")
	u.send(100)
	u.settle()
	if _, err := u.swap(cases.Upgrade("v2", cases.UpgradeFails, 10)); err != nil {
		t.Fatal(err)
	}
	u.send(200)
	u.waitUpgrade(job.UpgradeRolledBack)
	if up := u.run.Stats().Upgrade; !strings.Contains(up.Reason, "may") {
		t.Errorf("reason %q", up.Reason)
	}
	u.finish().wantTags(t, "v1")
}

// C029: what does not fit the state is refused by name while the old version goes on.
func TestC029SwapsThatDoNotFit(t *testing.T) {
	t.Parallel()
	u := newUpgrading(t, "checkpoint: {interval: 20ms}", 1, "stop")
	u.send(100)
	state := func(change func(s *abi.StateDescriptor)) []byte {
		return abitest.Redescribe(cases.Upgrade("v2", cases.UpgradeCounts, 0), func(d *abi.Descriptor) { change(&d.Functions[0].States[0]) })
	}
	for _, c := range []struct {
		name string
		wasm []byte
		want string
	}{
		{"other kind", state(func(s *abi.StateDescriptor) { s.Kind = abi.StateList }), "state seen is a value, the new module declares a list"},
		{"smaller", state(func(s *abi.StateDescriptor) { s.MaxBytes = 8 }), "values of 16 bytes, the new module declares at most 8"},
		{"gone", state(func(s *abi.StateDescriptor) { s.Name = "other" }), "state seen has no taker"},
		{"lower version", state(func(s *abi.StateDescriptor) { s.Version = -1 }), "schema version"},
	} {
		_, err := u.swap(c.wasm)
		if !errors.Is(err, job.ErrUnfit) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, expected %q", c.name, err, c.want)
		}
		u.send(10)
		u.settle()
	}
	if _, err := u.swap(state(func(s *abi.StateDescriptor) { s.MaxBytes = 24 })); !errors.Is(err, job.ErrNeedsRestart) {
		t.Errorf("greater bound: %v", err)
	}
	u.finish().wantTags(t, "v1")
}

// A swap whose checkpoint can't be written did not happen: the old code goes on from the one before.
func TestASwapWithoutACheckpointDidNotHappen(t *testing.T) {
	t.Parallel()
	disk := newFullDisk()
	u := newUpgradingWith(t, disk.options)
	u.send(100)
	u.settle()
	u.send(50)
	v := u.version(cases.Upgrade("v2", cases.UpgradeCounts, 0), u.yaml)
	disk.full.Store(true)
	_, err := u.run.Swap(t.Context(), job.Swap{Revision: v})
	disk.full.Store(false)
	if err == nil {
		t.Fatal("a swap without a checkpoint was done")
	}
	u.send(50)
	u.finish().wantTags(t, "v1")
}

func newUpgradingWith(t *testing.T, options func(*job.Options)) *upgrading {
	t.Helper()
	u := newUpgrading(t, "checkpoint: {interval: 0s}", 1, "stop")
	u.run.Crash()
	u.Options = options
	u.run = u.Start()
	t.Cleanup(u.run.Crash)
	return u
}
