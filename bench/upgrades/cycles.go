package main

import (
	"fmt"
	"strings"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/abi/abitest"
	"github.com/millrace-io/millrace/guests/cases"
)

// swapCycle is one change of the module.
func (t *trial) swapCycle() {
	switch k := t.rng.IntN(20); {
	case k < 8:
		t.swap()
	case k < 12:
		t.swapKilled([]string{"K21", "K22"}[t.rng.IntN(2)])
	case k < 14:
		t.traps()
	case k < 16:
		t.unfit()
	case k < 18 && t.schema == 0:
		t.migrates()
	default:
		t.rollsBack()
	}
}

// swap is the plain case.
func (t *trial) swap() {
	t.module = t.next(cases.UpgradeCounts, 0)
	t.good[t.tag()] = true
	t.must(0, "done", "upgrade")
}

// must writes the files, runs a command about them and holds its exit code and text.
func (t *trial) must(code int, text string, args ...string) {
	if err := t.write(); err != nil {
		t.fail("%v", err)
		return
	}
	a := t.command(append(args[:1:1], append([]string{"p.yaml"}, args[1:]...)...)...)
	if a.code != code || !strings.Contains(a.text, text) {
		t.fail("%s of %s: exit %d, expected %d and %q: %s", args[0], t.tag(), a.code, code, text, tail(a.text))
	}
}

// swapKilled kills the process at a point of the swap: what goes on is one of the two versions, as a whole.
func (t *trial) swapKilled(point string) {
	old := t.module
	t.armed(point + ":1:kill")
	if len(t.Failures) > 0 {
		return
	}
	t.module = t.next(cases.UpgradeCounts, 0)
	t.good[t.tag()] = true
	if err := t.write(); err != nil {
		t.fail("%v", err)
		return
	}
	if a := t.command("upgrade", "p.yaml"); a.code == 0 {
		t.fail("upgrade with a kill at %s: exit 0: %s", point, tail(a.text))
		return
	}
	if !t.killed() {
		return
	}
	// Who starts it again may have either file: the new one, or, before the swap's checkpoint, the old one.
	if point == "K21" && t.rng.IntN(2) == 0 {
		t.module = old
		if err := t.write(); err != nil {
			t.fail("%v", err)
			return
		}
	}
	t.start("")
}

// traps is a version that is taken back by itself.
func (t *trial) traps() {
	old := t.module
	t.module = t.next(cases.UpgradeTraps, t.rng.IntN(10))
	t.good[t.tag()] = true // what came before the trap may have been committed by a checkpoint that was quicker
	if err := t.write(); err != nil {
		t.fail("%v", err)
		return
	}
	a := t.command("upgrade", "p.yaml")
	switch {
	case !strings.Contains(a.text, "the old code runs") && !strings.Contains(a.text, "given up"):
		// The trial was over before the trap: from then on it is a fault like any other, which ends the run.
		<-t.done
		if !strings.Contains(t.talk.String(), "this version traps") {
			t.fail("a version that traps ended the pipeline otherwise: %s", tail(t.talk.String()))
			return
		}
		t.module = t.next(cases.UpgradeCounts, 0)
		t.good[t.tag()] = true
		if err := t.write(); err != nil {
			t.fail("%v", err)
			return
		}
		t.start("")
		return
	case a.code != 1:
		t.fail("upgrade to a version that traps: exit %d, expected 1: %s", a.code, tail(a.text))
	default:
		delete(t.good, t.tag())
		t.TakenBack++
	}
	t.module = old
	if err := t.write(); err != nil {
		t.fail("%v", err)
	}
}

// unfit is a version that does not fit the state, or is no module of this contract.
func (t *trial) unfit() {
	old := t.module
	t.module = abitest.Redescribe(t.next(cases.UpgradeCounts, 0), func(d *abi.Descriptor) {
		if t.rng.IntN(2) == 0 {
			d.ABI = 99
		} else {
			d.Functions[0].States[0].Kind = abi.StateList
		}
	})
	t.must(2, "", "upgrade")
	t.Refused++
	t.module = old
	if err := t.write(); err != nil {
		t.fail("%v", err)
	}
}

// migrates is a version that rewrites the state; every other time one key can't be, at first.
func (t *trial) migrates() {
	t.schema = 1
	if t.rng.IntN(2) == 0 {
		t.module = t.next(cases.UpgradeStays, t.rng.IntN(keys))
		t.must(2, "failed for 1 of", "upgrade")
		t.Refused++
	}
	t.module = t.next(cases.UpgradeCounts, 0)
	t.good[t.tag()] = true
	t.must(0, "migrated", "upgrade")
	t.Migrated++
}

// rollsBack goes to another version and back to a savepoint with the code that made it.
func (t *trial) rollsBack() {
	tag := "before-" + t.tag()
	old, schema := t.module, t.schema
	if a := t.command("snapshot", "create", "p.yaml", "--tag", tag); a.code != 0 {
		t.fail("savepoint: exit %d: %s", a.code, tail(a.text))
		return
	}
	t.swap()
	bad := t.tag()
	t.must(0, "runs from checkpoint", "rollback", tag)
	t.RolledBack++
	delete(t.good, bad)
	t.module, t.schema = old, schema
	if err := t.write(); err != nil {
		t.fail("%v", err)
	}
}

// scaleCycle is one change of the parallelism, live or by a savepoint.
func (t *trial) scaleCycle() {
	old := t.parallelism
	for t.parallelism == old {
		t.parallelism = []int{1, 2, 3, 4, 16}[t.rng.IntN(5)]
	}
	switch t.rng.IntN(4) {
	case 0:
		t.restartFrom("")
	case 1:
		t.restartFrom([]string{"K19:1:kill", "K20:1:kill"}[t.rng.IntN(2)])
	case 2:
		t.apply("K22:1:kill")
	default:
		t.apply("")
	}
}

// restartFrom stops with a savepoint and starts with the other parallelism, killed once on the way.
func (t *trial) restartFrom(plan string) {
	if a := t.command("stop", "p.yaml", "--savepoint", fmt.Sprintf("scale-%d", t.Scales)); a.code != 0 {
		t.fail("stop with a savepoint: exit %d: %s", a.code, tail(a.text))
		return
	}
	<-t.done
	if err := t.write(); err != nil {
		t.fail("%v", err)
		return
	}
	t.start(plan)
	if plan != "" && t.dead() && t.killed() {
		t.start("")
	}
}

// apply changes the parallelism live.
func (t *trial) apply(plan string) {
	if plan != "" {
		t.armed(plan)
	}
	if err := t.write(); err != nil {
		t.fail("%v", err)
		return
	}
	d := t.command("diff", "p.yaml")
	m := planLine.FindStringSubmatch(d.text)
	if d.code != 0 || m == nil {
		t.fail("diff: exit %d: %s", d.code, tail(d.text))
		return
	}
	a := t.command("apply", "p.yaml", "--plan", m[1])
	switch {
	case plan == "" && a.code != 0:
		t.fail("apply: exit %d: %s", a.code, tail(a.text))
	case plan != "" && t.killed():
		t.start("")
	}
}
