package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/guests/cases"
)

// newReplayed is a live pipeline with a tagged snapshot, input behind it, and another version in new.wasm: of every 77th
// record it says that it can't do it.
func newReplayed(t *testing.T) *live {
	l := newLive(t)
	waitFor(t, "the first lines", func() bool { return len(published(t, l.dir)) == l.sent })
	do(t, l.dir, "snapshot", "create", "p.yaml", "--tag", "good").want(t, 0)
	l.send(900)
	l.settle("v1")
	do(t, l.dir, "snapshot", "create", "p.yaml", "--tag", "later").want(t, 0)
	write(t, l.dir, "new.wasm", string(cases.Upgrade("v1", cases.UpgradeFails, 77)))
	return l
}

func TestReplayFromASecondTerminal(t *testing.T) {
	l := newReplayed(t)
	do(t, l.dir, "replay", "p.yaml", "--from", "good", "--to", "later").want(t, 0, "900 records", "count, state seen: 5 entries, all as they were", "out: 900 lines, all as they were")
	do(t, l.dir, "replay", "p.yaml", "--from", "good", "--to", "later", "--key", "k3", "--step").want(t, 0, "key k3", "state   seen: ", "output ", "fuel")

	// The 12th record of them is the first that is a multiple of 77 behind 100.
	r := do(t, l.dir, "replay", "p.yaml", "--from", "good", "--module", "new.wasm", "--to", "later")
	r.want(t, 1, "900 records, 0 timers", "in.ndjson:155 (byte", "key k4", "fault", "of 900 records and timers differ")
	var rep struct {
		Operators []struct {
			Records, Differ, Follow int64
			Kinds                   map[string]int64
		}
	}
	e := envelopeOf(t, do(t, l.dir, "replay", "p.yaml", "--from", "good", "--module", "count=new.wasm", "--to", "later", "--json").out)
	if err := json.Unmarshal(e.Data, &rep); err != nil {
		t.Fatalf("%v: %s", err, e.Data)
	}
	want := int64(0)
	for i := 100; i < l.sent; i++ {
		if i%77 == 0 {
			want++
		}
	}
	if len(rep.Operators) != 1 || rep.Operators[0].Kinds["fault"] != want || rep.Operators[0].Differ == 0 || rep.Operators[0].Records != 900 {
		t.Errorf("%+v, expected %d faults", rep, want)
	}
	do(t, l.dir, "replay", "p.yaml").want(t, 2, "wants --from")
	do(t, l.dir, "replay", "p.yaml", "--from", "later", "--to", "good").want(t, 2, "nothing between")
	do(t, l.dir, "replay", "p.yaml", "--from", "good", "--module", "by=new.wasm").want(t, 2, "by has no module")
	l.settle("v1")
	l.stop()
	do(t, l.dir, "snapshot", "verify", "p.yaml").want(t, 0)
	if left, _ := filepath.Glob(filepath.Join(l.dir, ".millrace", "live", "replay", "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestShadowFromASecondTerminal(t *testing.T) {
	l := newReplayed(t)
	stop := l.feed()
	do(t, l.dir, "shadow", "p.yaml", "--module", "new.wasm", "--records", "500").want(t, 1, "records and timers differ, --max-diff allows 0")
	do(t, l.dir, "shadow", "p.yaml", "--module", "new.wasm", "--records", "500", "--max-diff", "100%").want(t, 0, "differ ", "fault")
	do(t, l.dir, "shadow", "p.yaml", "--max-diff", "x").want(t, 2, "expected a number, or a share")
	do(t, l.dir, "shadow", "p.yaml", "--module", "new.wasm", "--promote").want(t, 2, "the pipeline file's own modules")
	do(t, l.dir, "shadow", "p.yaml", "--promote", "--records", "100").want(t, 2, "nothing to promote")

	// What stays within is put into force; what does not, is not.
	l.module(cases.Upgrade("v2", cases.UpgradeCounts, 0))
	do(t, l.dir, "shadow", "p.yaml", "--promote", "--records", "200").want(t, 1, "output")
	l.module(cases.Upgrade("v1", cases.UpgradeCounts, 7))
	do(t, l.dir, "shadow", "p.yaml", "--promote", "--records", "200").want(t, 0, "differ    0", "swap", "done: the next checkpoint is complete")
	stop()
	do(t, l.dir, "status", "p.yaml").want(t, 0, "upgrade", "done, at checkpoint")
	l.stop()
}

// TestKilledReplayLeavesOneFolder: what a killed replay leaves is removed by the next, and the job is as it was.
func TestKilledReplayLeavesOneFolder(t *testing.T) {
	l := newReplayed(t)
	c := command(l.dir, "shadow", "p.yaml", "--module", "new.wasm", "--max-diff", "100%")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	folders := func() []string {
		found, _ := filepath.Glob(filepath.Join(l.dir, ".millrace", "live", "replay", "*"))
		return found
	}
	waitFor(t, "the fork", func() bool { return len(folders()) == 1 })
	time.Sleep(50 * time.Millisecond)
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	if n := len(folders()); n != 1 {
		t.Fatalf("%d folders", n)
	}
	do(t, l.dir, "replay", "p.yaml", "--from", "good", "--to", "later").want(t, 0, "all as they were")
	if left := folders(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	l.settle("v1")
	l.stop()
	do(t, l.dir, "snapshot", "verify", "p.yaml").want(t, 0)
}

// TestReplayRefusesWhatIsGone: a source that gives its records once is refused by name.
func TestReplayRefusesWhatIsGone(t *testing.T) {
	dir := project(t, strings.Replace(countPipeline, "    source: file\n    path: in.txt\n", "    source: stdin\n", 1))
	c := command(dir, "run", "p.yaml")
	c.Stdin = strings.NewReader("a\nb\n")
	if r := finish(t, c); r.code != 0 {
		t.Fatal(r.err)
	}
	do(t, dir, "replay", "p.yaml", "--from", "latest", "--limit", "5").want(t, 2, "what is taken from a stdin is gone")
	do(t, dir, "shadow", "p.yaml", "--for", "1s").want(t, 2, "what is taken from a stdin is gone")
}

// TestReplayDocs runs the commands of docs/replay.md; those that exit 1 say so.
func TestReplayDocs(t *testing.T) {
	l := newReplayed(t)
	ran := 0
	for _, block := range blocks(t, "../../docs/replay.md", "sh") {
		for line := range strings.Lines(block) {
			line, comment, _ := strings.Cut(line, "#")
			args, ok := strings.CutPrefix(strings.TrimSpace(line), "millrace ")
			if !ok {
				t.Errorf("no test runs %q", line)
				continue
			}
			code := 0
			if strings.Contains(comment, "exits 1") {
				code = 1
			}
			if strings.Contains(args, "shadow") { // it waits for input
				if strings.Contains(args, "--promote") {
					l.module(cases.Upgrade("v1", cases.UpgradeCounts, 9))
				}
				stop := l.feed()
				do(t, l.dir, strings.Fields(args)...).want(t, code)
				stop()
			} else {
				do(t, l.dir, strings.Fields(args)...).want(t, code)
			}
			ran++
		}
	}
	if ran < 8 {
		t.Errorf("%d commands found", ran)
	}
	l.stop()
	if _, err := os.Stat(filepath.Join(l.dir, "out")); err != nil {
		t.Error(err)
	}
}

// feed adds records until it is stopped.
func (l *live) feed() (stop func()) {
	done, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for {
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
				l.sendQuietly()
			}
		}
	}()
	return func() {
		close(done)
		<-over
	}
}
