package jobtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/abi/abitest"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/guests/cases"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/state"
)

// canarying is an upgrading whose steps are written down: which version each record has to come from.
type canarying struct {
	*upgrading
	base, other string // versions in force and of the canary
	slots       state.Range
	want        []string // by record
}

func newCanarying(t *testing.T, settings string, parallelism int, policy string) *canarying {
	t.Helper()
	c := &canarying{upgrading: newUpgrading(t, settings, parallelism, policy), base: "v1"}
	c.feed.keys = 60
	c.upgrading.send(c.feed.keys)
	c.settle()
	c.want = make([]string, c.sent)
	for i := range c.want {
		c.want[i] = "v1"
	}
	return c
}

// send pushes records whose version is decided: everything before is read, so that no step can come between.
func (c *canarying) send(n int) {
	c.T.Helper()
	seed := state.Hasher{Seed: c.latest().Seed}
	for i := c.sent; i < c.sent+n; i++ {
		tag := c.base
		if c.slots.Contains(seed.Hash(upgradeRecord(i, c.feed.keys).Key)) {
			tag = c.other
		}
		c.want = append(c.want, tag)
	}
	c.upgrading.send(n)
	c.settle()
}

func (c *canarying) step(s job.CanaryStep) (checkpoint.ID, error) {
	c.T.Helper()
	ctx, cancel := context.WithTimeout(c.T.Context(), time.Minute)
	defer cancel()
	return c.run.Canary(ctx, s)
}

func (c *canarying) must(s job.CanaryStep) checkpoint.ID {
	c.T.Helper()
	id, err := c.step(s)
	if err != nil {
		c.T.Fatalf("%s to %d: %v", s.Action, s.Slots.Hi, err)
	}
	switch s.Action {
	case job.CanaryShare:
		c.slots = s.Slots
	case job.CanaryPromote:
		c.base, c.slots = c.other, state.Range{}
	case job.CanaryRevert:
		c.slots = state.Range{}
	}
	return id
}

// begin is the first step of a version.
func (c *canarying) begin(tag string, hi uint32) checkpoint.ID {
	c.T.Helper()
	c.other = tag
	v := c.version(cases.Upgrade(tag, cases.UpgradeCounts, 0), c.yaml)
	return c.must(share(&v, hi))
}

func share(v *job.Revision, hi uint32) job.CanaryStep {
	return job.CanaryStep{Action: job.CanaryShare, Slots: state.Range{Hi: hi}, Revision: v}
}

// again starts the pipeline from its file as it is, after a crash.
func (c *canarying) again() {
	c.T.Helper()
	c.run.Crash()
	c.Pipeline(c.yaml)
	c.run = c.Start()
	c.T.Cleanup(c.run.Crash)
	select {
	case <-c.run.Ready():
	case <-c.run.Done():
		_, err := c.run.Wait()
		c.T.Fatalf("the run has ended: %v", err)
	}
}

// end stops the run and holds every record against the version that was to have it.
func (c *canarying) end() {
	c.T.Helper()
	c.feed.End()
	c.Finish(c.run)
	c.check(c.sent)
	for _, l := range c.Lines("out/") {
		var o struct {
			N   int
			Tag string
		}
		if err := json.Unmarshal([]byte(l), &o); err != nil {
			c.T.Fatalf("line %q: %v", l, err)
		}
		if o.Tag != c.want[o.N] {
			c.T.Fatalf("record %d came from %s, expected %s", o.N, o.Tag, c.want[o.N])
		}
	}
}

// share, wider, reverted, again, promoted: each key comes from the version that its slot had at that barrier, with
// one count over both.
func TestACanaryBySlots(t *testing.T) {
	t.Parallel()
	for _, p := range []int{1, 3} {
		c := newCanarying(t, "checkpoint: {interval: 50ms}", p, "stop")
		id := c.begin("v2", 3277)
		c.send(300)
		st := c.run.Stats().Canary
		if st == nil || st.Since != id || st.Hi != 3277 || st.Operators[0].Operator != "count" || st.Operators[0].InForce.Module == st.Operators[0].Candidate.Module {
			t.Fatalf("status %+v", st)
		}
		c.must(share(nil, 40000))
		c.send(300)
		o := c.run.Stats().Canary.Operators[0]
		if o.Candidate.Records == 0 || o.InForce.Records == 0 || o.Candidate.Fuel == 0 || o.Candidate.FuelPerRecord() == 0 {
			t.Errorf("counters %+v", o)
		}
		c.must(job.CanaryStep{Action: job.CanaryRevert})
		c.send(200)
		if c.run.Stats().Canary != nil {
			t.Error("a canary is on after its end")
		}
		c.begin("v3", 20000)
		c.send(200)
		c.must(job.CanaryStep{Action: job.CanaryPromote})
		c.send(200)
		if up := c.run.Stats().Upgrade; up == nil || up.State != job.UpgradeDone || !strings.Contains(up.What, "module") {
			t.Errorf("upgrade %+v, expected the promotion to be done", up)
		}
		c.begin("v4", state.Slots)
		c.send(100)
		c.end()
	}
}

// Whatever was done last is what a start from the pipeline file goes on with, though that names the candidate all the
// time: held back after a revert, with its share while it is on, for all keys once it is promoted.
func TestACanaryOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(*seedFlag, 6))
	c := newCanarying(t, "checkpoint: {interval: 20ms, retain: 3}", 2, "stop")
	version := 1
	for range 25 {
		switch k := rng.IntN(4); {
		case c.slots.Hi == 0:
			version++
			c.begin(fmt.Sprintf("v%d", version), 1+uint32(rng.IntN(state.Slots/2)))
		case k < 2 && c.slots.Hi < state.Slots:
			c.must(share(nil, min(state.Slots, c.slots.Hi+1+uint32(rng.IntN(state.Slots/2)))))
		case k == 2:
			c.must(job.CanaryStep{Action: job.CanaryPromote})
			c.settle()
		default:
			c.must(job.CanaryStep{Action: job.CanaryRevert})
		}
		if rng.IntN(2) == 0 {
			c.again()
		}
		if st := c.run.Stats().Canary; (st != nil) != (c.slots.Hi > 0) || st != nil && st.Hi != c.slots.Hi {
			t.Fatalf("seed %d: status %+v, expected slots up to %d", *seedFlag, st, c.slots.Hi)
		}
		c.send(60 + rng.IntN(200))
		if rng.IntN(3) == 0 {
			c.again()
			c.send(60)
		}
	}
	c.end()
}

// A step whose checkpoint can't be written did not happen, also for the next start.
func TestAStepWithoutACheckpointDidNotHappen(t *testing.T) {
	t.Parallel()
	disk := newFullDisk()
	c := newCanarying(t, "checkpoint: {interval: 0s}", 1, "stop")
	c.run.Crash()
	c.Options = disk.options
	c.run = c.Start()
	t.Cleanup(c.run.Crash)
	<-c.run.Ready() // before, a full disk keeps the job from starting
	c.other = "v2"
	v := c.version(cases.Upgrade("v2", cases.UpgradeCounts, 0), c.yaml)
	fails := func(s job.CanaryStep) {
		t.Helper()
		disk.full.Store(true)
		_, err := c.step(s)
		disk.full.Store(false)
		if err == nil {
			t.Fatalf("%s without a checkpoint was done", s.Action)
		}
	}
	fails(share(&v, 30000))
	c.send(50)
	c.again()
	c.send(100)
	v = c.version(nil, c.yaml)
	c.must(share(&v, 30000))
	c.send(100)
	for _, s := range []job.CanaryStep{share(nil, 50000), {Action: job.CanaryPromote}, {Action: job.CanaryRevert}} {
		fails(s)
		c.send(100)
		c.again()
		c.send(60)
	}
	c.end()
}

// What can't be a canary is refused by name, and so is what can't go on beside one.
func TestWhatCantBeACanary(t *testing.T) {
	t.Parallel()
	c := newCanarying(t, "checkpoint: {interval: 20ms}", 1, "stop")
	refuse := func(what error, text string, s job.CanaryStep) {
		t.Helper()
		if _, err := c.step(s); !errors.Is(err, what) || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, expected %v with %q", err, what, text)
		}
	}
	changed := func(change func(f *abi.Function)) *job.Revision {
		v := c.version(abitest.Redescribe(cases.Upgrade("v2", cases.UpgradeCounts, 0), func(d *abi.Descriptor) { change(&d.Functions[0]) }), c.yaml)
		return &v
	}
	refuse(job.ErrNoCanary, "no canary", job.CanaryStep{Action: job.CanaryPromote})
	refuse(job.ErrNoCanary, "no canary", job.CanaryStep{Action: job.CanaryRevert})
	refuse(job.ErrNotACanary, "runs this file with these modules", share(changed2(c, cases.Upgrade("v1", cases.UpgradeCounts, 0), c.yaml), 9))
	for text, change := range map[string]func(f *abi.Function){
		"state seen is a value, the new module declares a list": func(f *abi.Function) { f.States[0].Kind = abi.StateList },
		"schema version 0 to 1":                                 func(f *abi.Function) { f.States[0].Version = 1 },
		"may grow to 24 bytes":                                  func(f *abi.Function) { f.States[0].MaxBytes = 24 },
		"timers [] become [event]":                              func(f *abi.Function) { f.Timers = []string{"event"} },
		"side outputs [] become [more]":                         func(f *abi.Function) { f.Outputs = []string{"more"} },
	} {
		refuse(job.ErrNotACanary, text, share(changed(change), 9))
	}
	v2 := cases.Upgrade("v2", cases.UpgradeCounts, 0)
	refuse(job.ErrNotACanary, "error policy", share(changed2(c, v2, strings.Replace(c.yaml, "policy: stop", "policy: skip", 1)), 9))
	refuse(job.ErrNotACanary, "parallelism", share(changed2(c, v2, parallel(c.yaml, 1, 2)), 9))
	refuse(job.ErrNotACanary, "slots are 0 to N", job.CanaryStep{Action: job.CanaryShare, Slots: state.Range{Lo: 5, Hi: 9}, Revision: changed2(c, v2, c.yaml)})
	c.begin("v2", 30000)
	c.send(100)
	refuse(job.ErrCanary, "only gets wider", share(nil, 20000))
	refuse(job.ErrCanary, "the pipeline file names another", share(changed2(c, cases.Upgrade("v3", cases.UpgradeCounts, 0), c.yaml), 40000))
	if _, err := c.swap(cases.Upgrade("v3", cases.UpgradeCounts, 0)); !errors.Is(err, job.ErrCanary) || !strings.Contains(err.Error(), "--revert") {
		t.Errorf("an upgrade beside it: %v", err)
	}
	if _, err := c.change(job.Change{Revision: *changed2(c, v2, parallel(c.yaml, 1, 2))}); !errors.Is(err, job.ErrCanary) {
		t.Errorf("another parallelism beside it: %v", err)
	}
	c.send(100)
	c.end()
}

// changed2 is a version whose modules the test gives back when it ends.
func changed2(c *canarying, wasm []byte, yaml string) *job.Revision {
	c.T.Helper()
	v := c.version(wasm, yaml)
	return &v
}

// A candidate that fails is taken out by itself: its records since the newest checkpoint are the other code's, none
// is lost, doubled or skipped, and neither a start nor another step runs it again.
func TestACanaryThatFailsIsTakenOut(t *testing.T) {
	t.Parallel()
	for policy, behaviour := range map[string]byte{"stop": cases.UpgradeTraps, "skip": cases.UpgradeFails} {
		c := newCanarying(t, "checkpoint: {interval: 0s}", 2, policy)
		c.other = "v2"
		v := c.version(cases.Upgrade("v2", behaviour, 5), c.yaml)
		c.must(share(&v, 40000))
		c.slots = state.Range{}
		c.upgrading.send(600)
		c.waitUpgrade(job.UpgradeRolledBack)
		if up := c.run.Stats().Upgrade; !strings.Contains(up.What, "canary of count") || up.Reason == "" {
			t.Errorf("upgrade %+v", up)
		}
		for range 600 {
			c.want = append(c.want, "v1")
		}
		c.send(100)
		if c.run.Stats().Canary != nil {
			t.Error("it is on")
		}
		again := c.version(nil, c.yaml)
		if _, err := c.step(share(&again, 50)); !errors.Is(err, job.ErrRefusedModule) {
			t.Errorf("again: %v", err)
		}
		c.again()
		c.send(100)
		c.end()
	}
}

// A start with another parallelism goes on with the canary: it goes by slots.
func TestACanaryOverAnotherParallelism(t *testing.T) {
	t.Parallel()
	c := newCanarying(t, "checkpoint: {interval: 20ms}", 1, "stop")
	c.begin("v2", 30000)
	c.send(200)
	for _, p := range []int{4, 16, 2} {
		c.yaml = parallel(c.yaml, 1, p)
		c.again()
		c.send(200)
		c.yaml = parallel(c.yaml, p, 1)
	}
	c.yaml = parallel(c.yaml, 1, 2)
	c.must(share(nil, 50000))
	c.send(100)
	c.must(job.CanaryStep{Action: job.CanaryPromote})
	c.send(100)
	c.end()
}

// Back to a snapshot from before ends the canary; back into one has it as it was.
func TestRollbackOfACanary(t *testing.T) {
	t.Parallel()
	c := newCanarying(t, "checkpoint: {interval: 0s, retain: 50}", 2, "stop")
	before := c.settle()
	c.begin("v2", 20000)
	c.send(100)
	within, sent := c.settle(), c.sent
	c.must(share(nil, 60000))
	c.send(100)
	v1 := cases.Upgrade("v1", cases.UpgradeCounts, 0)
	back := func(id checkpoint.ID, hi uint32) {
		t.Helper()
		if _, err := c.change(job.Change{Revision: *changed2(c, v1, c.yaml), Restore: id}); err != nil {
			t.Fatal(err)
		}
		st := c.run.Stats().Canary
		if (st != nil) != (hi > 0) || st != nil && st.Hi != hi {
			t.Fatalf("status %+v, expected slots up to %d", st, hi)
		}
	}
	back(within, 20000)
	c.settle()
	seed := state.Hasher{Seed: c.latest().Seed}
	for i := sent; i < c.sent; i++ { // they came again
		c.want[i] = "v1"
		if (state.Range{Hi: 20000}).Contains(seed.Hash(upgradeRecord(i, c.feed.keys).Key)) {
			c.want[i] = "v2"
		}
	}
	c.check(c.sent)
	back(before, 0)
	for i := range c.want {
		c.want[i] = "v1"
	}
	c.slots = state.Range{}
	c.send(100)
	c.end()
}

// Timers and lists of a key go with its slot: but for the versions' names the output is that of a run without.
func TestACanaryOfTimersAndLists(t *testing.T) {
	t.Parallel()
	plain := timedRun(t, nil)
	got := timedSteps(t, func(u *upgrading, i int) {
		s := job.CanaryStep{Action: job.CanaryShare, Slots: state.Range{Hi: 30000}}
		switch i {
		case 0, 3:
			v := u.version(cases.Upgrade(fmt.Sprintf("v%d", i+2), cases.UpgradeCounts, 0), u.yaml)
			s.Revision = &v
		case 1:
			s.Slots.Hi = 50000
		case 2:
			s = job.CanaryStep{Action: job.CanaryPromote}
		case 4:
			s = job.CanaryStep{Action: job.CanaryRevert}
		}
		u.settle()
		if _, err := u.run.Canary(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		u.settle()
	})
	for _, tag := range []string{"v2", "v5"} {
		if !strings.Contains(got, `"tag":"`+tag+`"`) {
			t.Errorf("nothing came from %s", tag)
		}
	}
	got = regexp.MustCompile(`"tag":"v[25]"`).ReplaceAllString(got, `"tag":"v1"`)
	if d := Diff(got, plain); d != "" || plain == "" {
		t.Error(d)
	}
}
