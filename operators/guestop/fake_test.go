package guestop

import (
	"encoding/binary"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/operatortest"
	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/backend"
	"github.com/millrace-io/millrace/state/ordered"
	"github.com/millrace-io/millrace/state/statetest"
)

// fakeModule is a guest written in Go against the call block: what an SDK does, without an engine.
type fakeModule struct {
	fn     abi.Function
	user   func(c *fakeCall) *Fault
	guests []*fakeGuest
}

func (m *fakeModule) Digest() string { return "fake" }
func (m *fakeModule) Descriptor() *abi.Descriptor {
	return &abi.Descriptor{Functions: []abi.Function{m.fn}}
}
func (m *fakeModule) New(env Env, _ InstanceOptions) (Guest, error) {
	g := &fakeGuest{m: m, env: env}
	m.guests = append(m.guests, g)
	return g, nil
}

type fakeGuest struct {
	m      *fakeModule
	env    Env
	in     []byte
	out    []byte
	cursor int
	yield  bool
	resets int
	calls  []int // records done in each call, -1: fault
}

// fakeCall is what the user's function sees of one record.
type fakeCall struct {
	g       *fakeGuest
	kind    uint32
	i       int
	frame   abi.Frame
	key     int
	pending []byte
}

func (g *fakeGuest) word(at int) int { return int(binary.LittleEndian.Uint32(g.in[at:])) }

func (g *fakeGuest) In(n int) ([]byte, error) {
	if len(g.in) < n {
		g.in = append(g.in, make([]byte, n-len(g.in))...)
	}
	return g.in, nil
}

func (g *fakeGuest) Call(n int, first uint32) Outcome {
	g.out, g.yield = g.out[:0], false
	count, offsets, keys := g.word(abi.BlockN), g.word(abi.BlockOffsets), g.word(abi.BlockKeys)
	for i := int(first); ; i++ {
		if i == count || g.yield {
			g.cursor = -1
			g.calls = append(g.calls, i)
			return Outcome{Consumed: uint32(i), Yielded: i < count}
		}
		g.cursor = i
		f, _, err := abi.NextFrame(g.in[g.word(offsets+4*i):n])
		if err != nil {
			panic(err)
		}
		c := &fakeCall{g: g, kind: uint32(g.word(abi.BlockKind)), i: i, frame: f}
		if keys != 0 {
			c.key = g.word(keys + 4*i)
		}
		if fault := g.m.user(c); fault != nil {
			fault.Record = i
			g.calls = append(g.calls, -1)
			return Outcome{Fault: fault}
		}
		g.out = append(g.out, c.pending...)
	}
}

func (g *fakeGuest) Out() []byte  { return g.out }
func (g *fakeGuest) Cursor() int  { return g.cursor }
func (g *fakeGuest) Yield()       { g.yield = true }
func (g *fakeGuest) Reset() error { g.resets++; return nil }
func (g *fakeGuest) Stop()        {}
func (g *fakeGuest) Close() error { return nil }

// emit is an output of the current record.
func (c *fakeCall) emit(output uint8, value string) {
	c.pending = abi.AppendRecord(c.pending, &abi.Record{Time: c.frame.Time(), Key: c.frame.Key(), Value: []byte(value), Output: output,
		Cause: uint32(c.i), Pos: c.frame.Pos()})
}

// cell is the prefetched value of state s for the current key.
func (c *fakeCall) cell(s int) []byte {
	states := c.g.word(abi.BlockStates)
	base, stride := c.g.word(states+8*s), c.g.word(states+8*s+4)
	return c.g.in[base+c.key*stride : base+(c.key+1)*stride]
}

// count adds one to a u64 in state s and returns it.
func (c *fakeCall) count(s int) uint64 {
	cell := c.cell(s)
	n := uint64(1)
	if cell[4]&abi.CellPresent != 0 {
		n += binary.LittleEndian.Uint64(cell[abi.CellHeader:])
	}
	binary.LittleEndian.PutUint64(cell[abi.CellHeader:], n)
	binary.LittleEndian.PutUint32(cell, 8)
	binary.LittleEndian.PutUint32(cell[4:], abi.CellPresent|abi.CellChanged)
	return n
}

// open makes the operator over a fake function and a real backend, in a harness.
func open(t *testing.T, m *fakeModule, policy string) (*operatortest.Harness, *Op) {
	t.Helper()
	op := New(Config{
		Node: &operators.Node{ID: "op", Kind: operators.NodeGuest, Guest: &operators.GuestNode{Fn: &m.fn, Keyed: m.fn.Keyed,
			OnError: operators.ErrorPolicy{Policy: policy}, Clock: "event"}},
		Module: m,
		OpenKeyed: func(ctx *operators.Context, ds []state.Descriptor) (state.Keyed, error) {
			return backend.Open(backend.Config{Operator: ctx.Operator, Descriptors: ds, Range: ctx.Range, Hasher: ctx.Hasher,
				Budget: ctx.Budget, Dir: ctx.WorkDir, Kind: ctx.StateKind, Objects: statetest.NewObjects(t.TempDir()),
				NewOrdered: func(c state.PartConfig) (backend.OrderedPart, error) { return ordered.Open(c, nil) },
				NewTimers:  func(c state.PartConfig) (backend.TimersPart, error) { return ordered.OpenTimers(c, nil) }})
		},
	})
	h := operatortest.New(t, op, operatortest.Context(t, "op", ""))
	t.Cleanup(func() { _ = op.Close() })
	return h, op
}

// state0 is the key of a batch's first record.
func state0(op *Op, b *abi.Batch) state.Key {
	k := b.Frame(0).Key()
	return state.Key{Hash: op.ctx.Hasher.Hash(k), Bytes: k}
}

func frameOf(r *abi.Record) abi.Frame { return abi.Frame(abi.AppendRecord(nil, r)) }
