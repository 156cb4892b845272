package job

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint/evolve"
	"github.com/millrace-io/millrace/operators"
)

// ChangeKind says what it takes to put a difference into force.
type ChangeKind string

// Kinds of changes, mildest first.
const (
	ChangeSwap     ChangeKind = "swap"           // at a barrier, while everything goes on
	ChangeRestart  ChangeKind = "restart"        // the tasks start anew from a checkpoint, in the same process
	ChangeBreaking ChangeKind = "state-breaking" // state has no taker, or can't be read: has to be allowed by name, or can't be
)

// Difference is one difference between a pipeline that runs and another.
type Difference struct {
	Kind     ChangeKind `json:"kind"`
	Operator string     `json:"operator,omitempty"` // empty: the pipeline's own settings
	What     string     `json:"what"`
	// Drop: --drop of the operator allows it. Breaking ones without are not possible at all.
	Drop bool `json:"drop,omitempty"`
	// Migrate names states whose values the new module rewrites.
	Migrate []string `json:"migrate,omitempty"`
	// Module is the digest of the new module, where that is what changed.
	Module string `json:"module,omitempty"`
}

// Side is one of two pipelines that are compared: a checked graph, and the digests of the modules by operator.
type Side struct {
	Graph   *operators.Graph
	Digests map[string]string
	// Saves and Loads are the operators whose modules can hand their variables over, and take them.
	Saves, Loads map[string]bool
}

// Compare lists what differs between two pipelines, in the order of the new one, then what is gone. renamed
// maps ids of old to ids of now.
func Compare(before, after Side, renamed map[string]string) []Difference {
	old, now := before.Graph, after.Graph
	c := &comparison{old: old, now: now, digests: [2]map[string]string{before.Digests, after.Digests}, saves: before.Saves, loads: after.Loads, renamed: renamed, was: map[string]*operators.Node{}}
	for _, n := range old.Nodes {
		c.was[c.name(n.ID)] = n
	}
	c.settings()
	for _, n := range now.Nodes {
		o := c.was[n.ID]
		if o == nil {
			c.add(ChangeRestart, n.ID, "is new")
			continue
		}
		if o.ID != n.ID {
			c.add(ChangeRestart, n.ID, "takes over from %s", o.ID)
		}
		c.node(o, n)
	}
	for _, o := range old.Nodes {
		if !slices.ContainsFunc(now.Nodes, func(n *operators.Node) bool { return n.ID == c.name(o.ID) }) {
			c.gone(o)
		}
	}
	return c.out
}

// Hardest is the kind of the hardest of differences; empty: there is none.
func Hardest(ds []Difference) ChangeKind {
	kind := ChangeKind("")
	rank := func(k ChangeKind) int {
		return slices.Index([]ChangeKind{"", ChangeSwap, ChangeRestart, ChangeBreaking}, k)
	}
	for _, d := range ds {
		if rank(d.Kind) > rank(kind) {
			kind = d.Kind
		}
	}
	return kind
}

type comparison struct {
	old, now *operators.Graph
	digests  [2]map[string]string
	saves    map[string]bool // of old
	loads    map[string]bool // of now
	renamed  map[string]string
	was      map[string]*operators.Node // old nodes by their id in now
	out      []Difference
}

func (c *comparison) name(old string) string { return cmp.Or(c.renamed[old], old) }

func (c *comparison) add(kind ChangeKind, operator, format string, args ...any) {
	c.out = append(c.out, Difference{Kind: kind, Operator: operator, What: fmt.Sprintf(format, args...)})
}

func (c *comparison) settings() {
	o, n := c.old, c.now
	checkpoints := o.Checkpoint
	checkpoints.Probation = n.Checkpoint.Probation // read at an upgrade, by nothing that runs
	if o.Name != n.Name {
		c.add(ChangeBreaking, "", "the pipeline %s is another job than %s", n.Name, o.Name)
	}
	for _, s := range []struct {
		name    string
		was, is any
	}{{"checkpoint", checkpoints, n.Checkpoint}, {"memory", o.MemoryBytes, n.MemoryBytes}, {"state", o.StateKind, n.StateKind},
		{"batch", o.BatchMax, n.BatchMax}, {"linger", o.Linger, n.Linger}} {
		if !reflect.DeepEqual(s.was, s.is) {
			c.add(ChangeRestart, "", "%s changes", s.name)
		}
	}
}

// gone is an operator that is no longer in the pipeline.
func (c *comparison) gone(o *operators.Node) {
	if !holds(o) {
		c.add(ChangeRestart, o.ID, "is removed")
		return
	}
	c.out = append(c.out, Difference{Kind: ChangeBreaking, Operator: o.ID, What: "is removed, with its state", Drop: true})
}

// holds says that an operator has something in checkpoints that would be lost without it. What a sink has
// there is published before the operator goes.
func holds(n *operators.Node) bool {
	return n.Source != nil || n.Window != nil || n.Guest != nil && n.Guest.Fn != nil && len(n.Guest.Fn.States)+len(n.Guest.Fn.Timers) > 0
}

// node compares an operator with what it was.
func (c *comparison) node(o, n *operators.Node) {
	if o.Kind != n.Kind {
		if holds(o) {
			c.out = append(c.out, Difference{Kind: ChangeBreaking, Operator: n.ID, What: fmt.Sprintf("was a %s with state, is a %s", o.Kind, n.Kind)})
			return
		}
		c.add(ChangeRestart, n.ID, "was a %s, is a %s", o.Kind, n.Kind)
		return
	}
	if was, is := keyOf(c.old, o), keyOf(c.now, n); was != "" && was != is && holds(o) && o.Source == nil {
		c.add(ChangeBreaking, n.ID, "has state by key %s, its records would come by key %s", was, cmp.Or(is, "none"))
	}
	if o.Parallelism != n.Parallelism {
		c.add(ChangeRestart, n.ID, "parallelism %d becomes %d", o.Parallelism, n.Parallelism)
	}
	if n.Guest != nil && o.Guest != nil {
		c.guest(o, n)
	}
	if n.Window != nil && o.Window != nil {
		c.window(o, n)
	}
	if !reflect.DeepEqual(c.plain(o, true), c.plain(n, false)) {
		c.add(ChangeRestart, n.ID, "its settings change")
	}
}

// window compares the modules of a window's functions: they change with a restart.
func (c *comparison) window(o, n *operators.Node) {
	for _, g := range n.Window.GuestNodes("") {
		was, is := c.digests[0][o.ID+g.ID], c.digests[1][n.ID+g.ID]
		if was != "" && was != is {
			c.add(ChangeRestart, n.ID, "the module of %s %.12s becomes %.12s", g.ID[1:], was, is)
		}
	}
}

// plain is a node as JSON without what is compared by itself or does not matter.
func (c *comparison) plain(n *operators.Node, old bool) any {
	p := *n
	p.Line, p.Parallelism, p.ID = 0, 0, ""
	p.Inputs = slices.Clone(n.Inputs)
	if old {
		for i := range p.Inputs {
			p.Inputs[i].From = c.name(p.Inputs[i].From)
		}
		p.PushedInto = c.name(p.PushedInto)
	}
	if n.Guest != nil {
		g := *n.Guest
		g.Module, g.Digest, g.Function, g.Index, g.Fn, g.Describe, g.DropOld = "", "", "", 0, nil, nil, nil
		g.Memory, g.Fuel, g.Clock, g.OnError, g.Unchecked = 0, 0, "", operators.ErrorPolicy{}, false
		p.Guest = &g
	}
	b, err := json.Marshal(&p)
	if err != nil {
		panic(fmt.Sprintf("job: node %s: %v", n.ID, err))
	}
	return string(b)
}

// guest compares what a module's function is and keeps.
func (c *comparison) guest(o, n *operators.Node) {
	was, is := o.Guest, n.Guest
	var what []string
	wasDigest, isDigest := c.digests[0][o.ID], c.digests[1][n.ID]
	if wasDigest != isDigest {
		what = append(what, fmt.Sprintf("module %.12s becomes %.12s", wasDigest, isDigest))
	}
	if was.Function != is.Function {
		what = append(what, fmt.Sprintf("function %s becomes %s", was.Function, is.Function))
	}
	if was.Memory != is.Memory || was.Fuel != is.Fuel || was.Clock != is.Clock || was.OnError != is.OnError {
		what = append(what, "its limits, clock or error policy change")
	}
	if len(what) == 0 && was.Module == is.Module {
		return
	}
	d := Difference{Kind: ChangeSwap, Operator: n.ID, What: strings.Join(what, ", ")}
	if len(what) == 0 {
		d.What = fmt.Sprintf("module file %s becomes %s, with the same bytes", was.Module, is.Module)
	}
	if wasDigest != isDigest {
		d.Module = isDigest
	}
	if (was.Instances > 0 || is.Instances > 0) && d.Module != "" {
		c.memory(&d, o, n)
	}
	if was.Fn != nil && is.Fn != nil {
		d.judge(was.Fn, is.Fn, is.DropOld)
	}
	c.out = append(c.out, d)
}

// memory judges another module over instances whose memory is state.
func (c *comparison) memory(d *Difference, o, n *operators.Node) {
	switch was, is := o.Guest.Instances, n.Guest.Instances; {
	case was == 0:
		d.harden(ChangeRestart, "its memory becomes state, in %d instances", is)
	case is == 0:
		d.harden(ChangeBreaking, "its memory is state, of which the new module keeps nothing")
	case !c.saves[o.ID] || !c.loads[n.ID]:
		d.harden(ChangeBreaking, "its memory is state, which another module can't go on with: %s", wayOut)
	default:
		d.harden(ChangeRestart, "its memory is state, which the old module saves and the new one loads")
	}
}

// harden makes a difference of at least a kind, with the reason.
func (d *Difference) harden(kind ChangeKind, format string, args ...any) {
	if Hardest([]Difference{{Kind: kind}, {Kind: d.Kind}}) == kind {
		d.Kind = kind
	}
	d.What += "; " + fmt.Sprintf(format, args...)
}

// judge compares two functions in what the host keeps for them.
func (d *Difference) judge(was, is *abi.Function, drop []string) {
	if !slices.Equal(was.Timers, is.Timers) {
		d.harden(ChangeRestart, "timers %v become %v", was.Timers, is.Timers)
	}
	for _, s := range is.States {
		i := slices.IndexFunc(was.States, func(o abi.StateDescriptor) bool { return o.Name == s.Name })
		if i < 0 {
			d.harden(ChangeRestart, "state %s is new", s.Name)
			continue
		}
		d.state(was.States[i], s)
	}
	for _, o := range was.States {
		if slices.ContainsFunc(is.States, func(s abi.StateDescriptor) bool { return s.Name == o.Name }) {
			continue
		}
		if slices.Contains(drop, o.Name) {
			d.harden(ChangeRestart, "state %s is dropped, as drop_states says", o.Name)
		} else {
			d.harden(ChangeBreaking, "state %s has no taker: declare it, or name it in drop_states", o.Name)
		}
	}
}

func (d *Difference) state(was, is abi.StateDescriptor) {
	switch {
	case was.Kind != is.Kind:
		d.harden(ChangeBreaking, "state %s is a %s, the new module declares a %s: give it another name", is.Name, was.Kind, is.Kind)
	case is.Version < was.Version:
		d.harden(ChangeBreaking, "state %s has schema version %d, the new module declares %d: millrace rollback goes back", is.Name, was.Version, is.Version)
	case is.Version > was.Version:
		d.Migrate = append(d.Migrate, is.Name)
		d.harden(ChangeRestart, "state %s goes from schema version %d to %d", is.Name, was.Version, is.Version)
	case bound(is) < bound(was):
		d.harden(ChangeBreaking, "state %s may hold values of %d bytes, the new module declares at most %d", is.Name, bound(was), bound(is))
	case bound(is) > bound(was):
		d.harden(ChangeRestart, "state %s may grow to %d bytes", is.Name, bound(is))
	}
	if is.Version != was.Version || is.Kind != was.Kind {
		return
	}
	switch v, why := evolve.State(&was, &is); v {
	case evolve.Refused:
		d.harden(ChangeBreaking, "state %s: %s", is.Name, why)
	case evolve.Convert:
		d.harden(ChangeRestart, "state %s: %s", is.Name, why)
	}
	if !reflect.DeepEqual(was.TTL, is.TTL) {
		d.harden(ChangeRestart, "the TTL of state %s changes", is.Name)
	}
	if !is.TTL.Equal(was.TTL) {
		d.harden(ChangeRestart, "state %s lives for %v, before for %v", is.Name, is.TTL, was.TTL)
	}
}

func bound(s abi.StateDescriptor) int { return cmp.Or(s.MaxBytes, abi.MaxStateValueBytes) }
