package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/guests/cases"
	"github.com/millrace-io/millrace/host/control"
	"github.com/millrace-io/millrace/state"
)

// era is what ran between two steps: the candidate has the keys of the slots below hi.
type era struct {
	base, other string // tags
	hi          uint32
}

// byEras lets a key's versions follow each other as the eras have them for its slot. An era may have had none of its
// records.
func (t *trial) byEras(key string) func(tag string) bool {
	seed, err := t.seed()
	if err != nil {
		t.fail("%v", err)
	}
	slots := func(e era) state.Range { return state.Range{Hi: e.hi} }
	hash := state.Hasher{Seed: seed}.Hash([]byte(key))
	at := 0
	return func(tag string) bool {
		for i := at; i < len(t.eras); i++ {
			e := t.eras[i]
			if is := e.base; slots(e).Contains(hash) && e.other == tag || !slots(e).Contains(hash) && is == tag {
				at = i
				return true
			}
		}
		return false
	}
}

// seed is that of the job's key hash.
func (t *trial) seed() (uint64, error) {
	s, err := snapstore.Open(filepath.Join(t.dir, ".millrace", "upgrades", "snapshots"), snapstore.Options{ReadOnly: true})
	if err != nil {
		return 0, err
	}
	defer s.Close()
	id, err := s.Resolve("latest")
	if err != nil {
		return 0, err
	}
	m, err := s.Load(id)
	if err != nil {
		return 0, err
	}
	return m.Seed, nil
}

// canaryTrial runs one pipeline through steps of canaries.
func (o *options) canaryTrial(number uint64, steps int) (*tally, error) {
	t, err := o.begin("canary", number)
	if err != nil {
		return nil, err
	}
	c := &canaries{trial: t, base: t.module, tags: map[string]string{}, now: era{base: t.tag()}}
	c.name()
	t.eras = []era{c.now}
	for i := 0; i < o.perRun && len(t.Failures) == 0 && t.Canaries < steps; i++ {
		c.step()
		t.Canaries++
		if len(t.Failures) == 0 && t.rng.IntN(8) == 0 {
			c.kill()
		}
	}
	t.end()
	fmt.Fprintf(os.Stderr, "%s: %d steps, %d kills, %d taken out, %d records, %d failures\n", filepath.Base(t.dir), t.Canaries, t.Kills, t.TakenBack, t.Records, len(t.Failures))
	return t.result()
}

// canaries is what a trial of them knows.
type canaries struct {
	*trial
	base []byte            // module in force
	tags map[string]string // of modules, by digest
	now  era
}

// version makes the next version's module the candidate.
func (c *canaries) version(behaviour byte, number int) {
	c.module = c.next(behaviour, number)
	c.name()
}

func (c *canaries) name() {
	sum := sha256.Sum256(c.module)
	c.tags[hex.EncodeToString(sum[:])] = c.tag()
}

// step is the next one: a canary begins, gets wider, is promoted or reverted; sometimes the process is killed at it,
// sometimes the candidate is one that fails.
func (c *canaries) step() {
	point := ""
	if c.rng.IntN(3) == 0 {
		point = []string{"K21", "K22"}[c.rng.IntN(2)]
	}
	after := c.now
	args := []string{"canary", "p.yaml"}
	switch k := c.rng.IntN(6); {
	case c.now.hi == 0 && k == 0:
		c.fails()
		return
	case c.now.hi == 0:
		c.version(cases.UpgradeCounts, 0)
		percent := 1 + c.rng.IntN(60)
		after.other, after.hi = c.tag(), uint32((state.Slots*percent+99)/100)
		args = append(args, "--share", fmt.Sprintf("%d%%", percent))
	case k < 3 && c.now.hi < state.Slots:
		after.hi += 1 + uint32(c.rng.IntN(int(state.Slots-c.now.hi)))
		args = append(args, "--slots", fmt.Sprintf("0-%d", after.hi-1))
	case k < 4:
		after = era{base: c.now.other}
		args = append(args, "--promote")
	default:
		after = era{base: c.now.base}
		args = append(args, "--revert")
	}
	if point != "" {
		c.armed(point + ":1:kill")
	}
	if err := c.write(); err != nil {
		c.fail("%v", err)
	}
	if len(c.Failures) > 0 {
		return
	}
	// Output of the next era may be there before the command returns.
	c.eras = append(c.eras, after)
	a := c.command(args...)
	switch {
	case point == "" && a.code != 0:
		c.fail("%s: exit %d: %s", strings.Join(args, " "), a.code, tail(a.text))
		return
	case point != "" && a.code == 0 && args[2] != "--promote":
		c.fail("%s with a kill at %s: exit 0: %s", strings.Join(args, " "), point, tail(a.text))
		return
	case point != "":
		if !c.killed() {
			return
		}
		c.start("")
	}
	c.became(after, point != "")
}

// became holds what the pipeline says against a step; or: it may also be as before.
func (c *canaries) became(after era, or bool) {
	is, err := c.status()
	switch {
	case err != nil:
		c.fail("%v", err)
		return
	case is == c.short(after):
		if c.now = after; after.hi == 0 {
			c.settled(after)
		}
	case or && is == c.short(c.now):
		c.eras = append(c.eras, c.now)
	default:
		c.fail("it runs %s, expected %s%s", is, c.short(after), map[bool]string{true: " or " + c.short(c.now)}[or])
	}
}

// settled is where no canary is on: what is in force may be in the file again, or not.
func (c *canaries) settled(e era) {
	if e.base == c.tag() {
		c.base = c.module
	} else if c.rng.IntN(2) == 0 {
		c.module = c.base
		if err := c.write(); err != nil {
			c.fail("%v", err)
		}
	}
}

// short says what an era has on.
func (c *canaries) short(e era) string {
	if e.hi == 0 {
		return fmt.Sprintf("%s alone", e.base)
	}
	return fmt.Sprintf("%s and %s below %d", e.base, e.other, e.hi)
}

// status asks what is on, in the words of short.
func (c *canaries) status() (string, error) {
	a := c.command("status", "p.yaml", "--json")
	var in struct{ Data control.Info }
	if err := json.Unmarshal([]byte(a.text), &in); err != nil || a.code != 0 || len(in.Data.Modules) != 1 {
		return "", fmt.Errorf("status: exit %d, %w: %s", a.code, err, tail(a.text))
	}
	e := era{base: c.tags[in.Data.Modules[0].Digest]}
	if on := in.Data.Canary; on != nil {
		e.other, e.hi = c.tags[on.Operators[0].Candidate.Module], on.Hi
	}
	return c.short(e), nil
}

// kill ends the process at any time: nothing of what is on changes, also with another parallelism.
func (c *canaries) kill() {
	time.Sleep(time.Duration(c.rng.IntN(40)) * time.Millisecond)
	if err := c.cmd.Process.Kill(); err != nil {
		c.fail("%v", err)
		return
	}
	if !c.killed() {
		return
	}
	c.parallelism = 1 + c.rng.IntN(4) // slots are the same
	if err := c.write(); err != nil {
		c.fail("%v", err)
		return
	}
	c.start("")
	c.became(c.now, false)
}

// fails is a candidate that traps after a while: it is taken out by itself.
func (c *canaries) fails() {
	c.version(cases.UpgradeTraps, c.rng.IntN(200))
	if err := c.write(); err != nil {
		c.fail("%v", err)
		return
	}
	before := c.now
	c.eras = append(c.eras, era{base: before.base, other: c.tag(), hi: 30000}, before)
	a := c.command("canary", "p.yaml", "--slots", "0-29999")
	if a.code != 0 && !strings.Contains(a.text, "given up") {
		c.fail("a candidate that traps: exit %d: %s", a.code, tail(a.text))
		return
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		is, err := c.status()
		if err == nil && is == c.short(before) {
			break
		}
		if c.dead() || time.Now().After(end) {
			c.fail("a candidate that traps was not taken out: %s, %v: %s", is, err, tail(c.talk.String()))
			return
		}
	}
	c.TakenBack++
}
