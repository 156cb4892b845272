package guestop

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/operatortest"
)

// newTestSteps runs an aggregate written in Go against the call block.
func newTestSteps(t *testing.T, user func(c *fakeCall) *Fault) (*Steps, *fakeModule) {
	t.Helper()
	m := &fakeModule{fn: abi.Function{Name: "sum", Kind: abi.FunctionAggregate, Output: []abi.Field{{Name: "n", Type: abi.TypeInt64}},
		States: []abi.StateDescriptor{{Name: "accumulator", Kind: abi.StateValue, MaxBytes: 12}}}, user: user}
	s, err := NewSteps(CallerConfig{Node: &operators.GuestNode{Fn: &m.fn, Function: "sum", Module: "m.wasm"}, Module: m, Context: operatortest.Context(t, "op", "")})
	if err != nil {
		t.Fatal(err)
	}
	s.Reset(0, false)
	return s, m
}

// counting counts records, merges and gives counts, and fails as the record's value says.
func counting(c *fakeCall) *Fault {
	le := binary.LittleEndian
	row := func(n uint64) {
		var b abi.RowBuilder
		b.Reset(1)
		b.SetInt64(0, int64(n))
		c.emit(0, string(b.Bytes()))
	}
	switch c.frame.Output() {
	case abi.StepAdd:
		c.count(0)
		switch string(c.frame.Value()) {
		case "trap":
			return &Fault{Kind: FaultTrap, Message: "as told"}
		case "long":
			le.PutUint32(c.cell(0), 13)
		case "emit":
			row(1)
		}
	case abi.StepMerge:
		for list := c.frame.Value(); len(list) > 0; list = list[4:] {
			other := c.g.in[c.g.word(c.g.word(abi.BlockStates))+int(le.Uint32(list))*c.g.word(c.g.word(abi.BlockStates)+4):]
			for range le.Uint64(other[abi.CellHeader:]) {
				c.count(0)
			}
		}
	case abi.StepResult:
		n := le.Uint64(c.cell(0)[abi.CellHeader:])
		switch {
		case n == 66:
			return nil
		case n == 77:
			row(n)
		case n == 88:
			c.emit(0, "no row")
			return nil
		case n == 99:
			c.emit(1, "on the side")
			return nil
		}
		row(n)
	}
	return nil
}

func number(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

func testRecord(v string) abi.Frame {
	return abi.Frame(abi.AppendRecord(nil, &abi.Record{Key: []byte("k"), Value: []byte(v)}))
}

func TestStepsInOneCall(t *testing.T) {
	s, m := newTestSteps(t, counting)
	a, b := s.New(nil, false), s.New(number(5), true)
	for range 3 {
		_ = s.Add(a, testRecord("x"), false, 0)
	}
	first := s.Result(a, &Fired{Key: []byte("k"), Time: 9, End: 10}, -1)
	s.Merge(a, []byte("k"), 9, []Cell{b}, 1)
	second := s.Result(a, &Fired{Key: []byte("k"), Time: 9, End: 10}, -2)
	failed, err := s.Run(func(int) bool { return true })
	if err != nil || len(failed) != 0 || len(m.guests[0].calls) != 1 {
		t.Fatalf("failed %v, %v, calls %v", failed, err, m.guests[0].calls)
	}
	v, ok := s.Value(a)
	if !ok || binary.LittleEndian.Uint64(v) != 8 || s.Row(first)[8] != 3 || s.Row(second)[8] != 8 {
		t.Errorf("accumulator %x, results %x and %x", v, s.Row(first), s.Row(second))
	}
}

// TestHostileSteps: what a broken or hostile module does costs the step it does it in; the others count.
func TestHostileSteps(t *testing.T) {
	for value, want := range map[string]string{"trap": "as told", "long": "an accumulator of 13 bytes, the function declares at most 12", "emit": "an output of a step that is no result"} {
		s, _ := newTestSteps(t, counting)
		a := s.New(nil, false)
		for i, v := range []string{"x", "x", value} {
			_ = s.Add(a, testRecord(v), false, i)
		}
		b := s.New(nil, false)
		_ = s.Add(b, testRecord("x"), false, 3)
		failed, err := s.Run(func(int) bool { return false })
		if err != nil || len(failed) != 1 || failed[0].Tag != 2 || !strings.Contains(failed[0].Fault.Error(), want) {
			t.Errorf("%s: failed %v, %v", value, failed, err)
		}
		va, _ := s.Value(a)
		vb, _ := s.Value(b)
		if len(va) != 8 || va[0] != 2 || len(vb) != 8 || vb[0] != 1 {
			t.Errorf("%s: accumulators %x and %x", value, va, vb)
		}
	}
	for n, want := range map[uint64]string{66: "no result was written", 77: "several results", 88: "malformed row", 99: "output 1, an aggregate has no side outputs"} {
		s, _ := newTestSteps(t, counting)
		good := s.Result(s.New(number(1), true), &Fired{}, -1)
		s.Result(s.New(number(n), true), &Fired{}, -2)
		again := s.Result(s.New(number(3), true), &Fired{}, -3)
		failed, err := s.Run(func(int) bool { return false })
		if err != nil || len(failed) != 1 || failed[0].Tag != -2 || !strings.Contains(failed[0].Fault.Error(), want) {
			t.Errorf("%d: failed %v, %v", n, failed, err)
		}
		if s.Row(good)[8] != 1 || s.Row(again)[8] != 3 {
			t.Errorf("%d: the other results are %x and %x", n, s.Row(good), s.Row(again))
		}
	}
}

// TestStepsOverManyCalls: what does not fit a block is done in several, and accumulators go on.
func TestStepsOverManyCalls(t *testing.T) {
	s, m := newTestSteps(t, counting)
	var cells []Cell
	for range 100 {
		cells = append(cells, s.New(nil, false))
	}
	const n = 5000
	big := testRecord(strings.Repeat("x", 1000))
	for i := range n {
		_ = s.Add(cells[i%100], big, false, i)
	}
	all := s.New(nil, false)
	s.Merge(all, nil, 0, cells, -1)
	r := s.Result(all, &Fired{}, -1)
	if failed, err := s.Run(func(int) bool { return true }); err != nil || len(failed) != 0 {
		t.Fatal(failed, err)
	}
	if got := binary.LittleEndian.Uint64(s.Row(r)[8:]); got != n || len(m.guests[0].calls) < 5 {
		t.Errorf("%d records counted in %d calls, expected %d", got, len(m.guests[0].calls), n)
	}
}
