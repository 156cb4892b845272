package replay

import (
	"fmt"
	"slices"
	"sync"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
)

// tally counts what differs in one task of an operator. Its own lock lets others read it meanwhile.
type tally struct {
	show   *shower
	limit  int                     // samples of each kind
	tell   func(*Difference) error // nil: nobody
	exact  bool
	window bool // steps are results of a window operator

	ctx     *operators.Context
	mu      sync.Mutex
	op      Operator // counts
	old     fuelSums
	now     fuelSums
	differs map[string]bool // keys whose state differs
	kept    map[Kind]int    // samples by kind
}

func newTally(id, function, old, now string, show *shower, o *Options) *tally {
	return &tally{op: Operator{ID: id, Function: function, Old: old, New: now, Kinds: map[string]int64{}}, show: show, limit: o.Samples,
		exact: o.Batch == 1, differs: map[string]bool{}, kept: map[Kind]int{}}
}

func (t *tally) open(ctx *operators.Context) { t.ctx = ctx }

// missed counts records that the new version did not get any more.
func (t *tally) missed(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.op.NotCompared += int64(n)
}

// stopped notes why the new version can't go on.
func (t *tally) stopped(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.op.Stopped == "" {
		t.op.Stopped = err.Error()
	}
}

// take compares what both versions did with a batch.
func (t *tally) take(old, now *recorder) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count(old)
	if old.same(now) {
		if len(old.calls) == len(now.calls) {
			return t.fuels(old, now)
		}
		t.sums(old, now)
		return nil
	}
	c := compare(old, now)
	t.sums(old, now)
	if t.exact {
		t.fuelOf(c)
	}
	for _, f := range c.order {
		if err := t.finding(c, f); err != nil {
			return err
		}
	}
	return nil
}

func (t *tally) count(r *recorder) {
	for i := range r.steps {
		if r.steps[i].kind == abi.KindRecords {
			t.op.Records++
		} else {
			t.op.Timers++
		}
	}
}

// fuels compares calls of the same records, in which nothing else differs.
func (t *tally) fuels(old, now *recorder) error {
	for i := range old.calls {
		a, b := &old.calls[i], &now.calls[i]
		t.add(old, a, &t.old)
		t.add(now, b, &t.now)
		if a.fuel == b.fuel || a.n == 0 {
			continue
		}
		t.op.FuelOnly++
		t.op.Kinds["fuel"]++
		if t.tell == nil && t.kept[KindFuel] >= t.limit {
			continue
		}
		d := t.difference(old, a.from, KindFuel)
		d.Records, d.OldFuel, d.NewFuel = a.n, a.fuel, b.fuel
		d.Details = []Detail{fuelDetail(a.fuel, b.fuel)}
		if err := t.keep(d); err != nil {
			return err
		}
	}
	return nil
}

// sums adds up the fuel of calls that can't be held against each other one by one.
func (t *tally) sums(old, now *recorder) {
	for i := range old.calls {
		t.add(old, &old.calls[i], &t.old)
	}
	for i := range now.calls {
		t.add(now, &now.calls[i], &t.now)
	}
}

func (t *tally) add(r *recorder, w *work, s *fuelSums) {
	if w.fuel <= s.max {
		s.add(w.fuel, nil)
		return
	}
	s.add(w.fuel, t.whereLater(r, w.from))
}

// fuelOf adds what records of their own calls cost to what differs.
func (t *tally) fuelOf(c *comparison) {
	of := func(r *recorder) map[int]int64 {
		m := map[int]int64{}
		for _, w := range r.calls {
			if w.n == 1 {
				m[w.from] = w.fuel
			}
		}
		return m
	}
	old, now := of(c.old), of(c.now)
	for _, p := range c.pairs {
		a, inOld := old[p.old]
		b, inNow := now[p.now]
		if inOld && inNow && a != b {
			c.add(p, KindFuel)
		}
	}
	for _, f := range c.order {
		f.oldFuel, f.newFuel = -1, -1
		if v, ok := old[f.old]; ok {
			f.oldFuel = v
		}
		if v, ok := now[f.now]; ok {
			f.newFuel = v
		}
	}
}

// finding counts what differs at a cause.
func (t *tally) finding(c *comparison, f *finding) error {
	r, at := c.old, f.old
	if at < 0 {
		r, at = c.now, f.now
	}
	key := r.at(r.steps[at].key)
	follow := key != nil && t.differs[string(key)]
	for _, k := range Kinds {
		if f.kinds&k.Kind != 0 {
			t.op.Kinds[k.Name]++
		}
	}
	switch {
	case f.kinds == KindFuel:
		t.op.FuelOnly++
	case follow:
		t.op.Follow++
	default:
		t.op.Differ++
		if f.kinds&^KindFuel&^KindState&^KindTimer == 0 {
			t.op.StateOnly++
		}
	}
	if f.kinds&(KindState|KindTimer) != 0 && key != nil && !follow {
		t.differs[string(key)] = true
		t.op.Keys++
	}
	if t.tell == nil && (follow || !t.wants(f.kinds)) {
		return nil
	}
	d := t.difference(r, at, f.kinds)
	d.Follow, d.Records, d.OldFuel, d.NewFuel = follow, 1, f.oldFuel, f.newFuel
	d.Details = t.show.details(c, f)
	return t.keep(d)
}

// wants says that there is room for a sample.
func (t *tally) wants(kinds Kind) bool {
	for _, k := range Kinds {
		if kinds&k.Kind != 0 && t.kept[k.Kind] < t.limit && (k.Kind != KindFuel || kinds == KindFuel) {
			return true
		}
	}
	return false
}

// keep tells of a difference, and keeps it if it is one of the first of a kind.
func (t *tally) keep(d *Difference) error {
	if !d.Follow && t.wants(d.Kinds) {
		for _, k := range Kinds {
			if d.Kinds&k.Kind != 0 {
				t.kept[k.Kind]++
			}
		}
		d.Position = d.Where()
		t.op.Samples = append(t.op.Samples, d)
	}
	if t.tell != nil {
		return t.tell(d)
	}
	return nil
}

// difference is about a step; details and fuel are the caller's.
func (t *tally) difference(r *recorder, at int, kinds Kind) *Difference {
	s := &r.steps[at]
	d := &Difference{Operator: t.op.ID, Task: t.ctx.Task, Kinds: kinds, where: t.whereLater(r, at), Pos: s.pos, Timer: s.kind != abi.KindRecords}
	if k := r.at(s.key); k != nil {
		d.Key = append([]byte{}, k...)
		d.KeyRow = t.show.key(k)
	}
	if s.time != abi.NoTime {
		d.Time = &[]int64{s.time}[0]
	}
	if !t.window {
		d.Name = string(r.at(s.name))
	}
	return d
}

// whereLater names a step for people, when it is called: to name a line its file is read.
func (t *tally) whereLater(r *recorder, at int) func() string {
	s := r.steps[at]
	if s.kind == abi.KindRecords {
		describe := t.ctx.Describe
		return func() string { return describe(s.pos) }
	}
	name, key := string(r.at(s.name)), t.show.key(r.at(s.key))
	if t.window {
		return func() string { return fmt.Sprintf("result of key %s at %s", key, timeText(s.time)) }
	}
	return func() string { return timerText(s.kind, name, key, s.time) }
}

// sum adds the tallies of an operator's tasks up.
func sum(ts []*tally, limit int) *Operator {
	var o Operator
	var old, now fuelSums
	o.Kinds = map[string]int64{}
	kept := map[Kind]int{}
	for _, t := range ts {
		t.mu.Lock()
		x := &t.op
		o.ID, o.Function, o.Old, o.New = x.ID, x.Function, x.Old, x.New
		o.Records, o.Timers, o.Differ, o.Follow = o.Records+x.Records, o.Timers+x.Timers, o.Differ+x.Differ, o.Follow+x.Follow
		o.StateOnly, o.FuelOnly, o.Keys, o.NotCompared = o.StateOnly+x.StateOnly, o.FuelOnly+x.FuelOnly, o.Keys+x.Keys, o.NotCompared+x.NotCompared
		for k, n := range x.Kinds {
			o.Kinds[k] += n
		}
		if o.Stopped == "" {
			o.Stopped = x.Stopped
		}
		for _, d := range x.Samples {
			if kept[d.Kinds] < limit {
				kept[d.Kinds]++
				o.Samples = append(o.Samples, d)
			}
		}
		old.merge(&t.old)
		now.merge(&t.now)
		t.mu.Unlock()
	}
	slices.SortStableFunc(o.Samples, func(a, b *Difference) int { // fuel alone last
		switch alone := a.Kinds == KindFuel; {
		case alone == (b.Kinds == KindFuel):
			return 0
		case alone:
			return 1
		}
		return -1
	})
	o.OldFuel, o.NewFuel = old.fuel(), now.fuel()
	return &o
}

// got counts records of a window operator.
func (t *tally) got(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.op.Records += int64(n)
}

// results compares what two window operators gave: of a key, and an output, in order.
func (t *tally) results(old, now *recorder) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old.same(now) {
		return nil
	}
	type place struct {
		key, output string
		n           int
	}
	index := func(r *recorder) map[place]int {
		m, next := map[place]int{}, map[place]int{}
		for i := range r.steps {
			p := place{string(r.at(r.steps[i].key)), string(r.at(r.steps[i].name)), 0}
			p.n = next[p]
			next[place{p.key, p.output, 0}]++
			m[p] = i
		}
		return m
	}
	a, b := index(old), index(now)
	c := &comparison{old: old, now: now, found: map[pair]*finding{}}
	for p, i := range a {
		j, ok := b[p]
		switch {
		case !ok:
			c.add(pair{i, -1}, KindOutput)
		case !equal(old.at(old.outs[i].frame), now.at(now.outs[j].frame)):
			k := KindOutput
			if old.steps[i].fail != now.steps[j].fail {
				k = KindFault
			}
			c.add(pair{i, j}, k)
		}
	}
	for p, j := range b {
		if _, ok := a[p]; !ok {
			c.add(pair{-1, j}, KindOutput)
		}
	}
	c.sort()
	for _, f := range c.order {
		f.oldFuel, f.newFuel = -1, -1
		if err := t.finding(c, f); err != nil {
			return err
		}
	}
	return nil
}
