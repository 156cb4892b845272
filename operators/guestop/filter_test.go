package guestop

import (
	"slices"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/operatortest"
)

// A filter reads the fields it declares; what it keeps goes on with all of them, between the same marks.
func TestAFilterKeepsTheFieldsItDoesNotRead(t *testing.T) {
	delay := abi.Field{Name: "delay", Type: abi.TypeInt64}
	m := &fakeModule{fn: abi.Function{Name: "f", Kind: abi.FunctionFilter, Input: []abi.Field{delay}}}
	m.user = func(c *fakeCall) *Fault {
		row, err := abi.CheckRow(c.frame.Value(), m.fn.Input)
		if err != nil {
			t.Error(err)
		}
		if d, _ := row.Int64(0); d > 5 {
			c.emit(0, string(c.frame.Value()))
		}
		return nil
	}
	op := New(Config{Module: m, Node: &operators.Node{ID: "op", Kind: operators.NodeGuest, Guest: &operators.GuestNode{Fn: &m.fn, Clock: "event",
		Input: []abi.Field{{Name: "origin", Type: abi.TypeString}, delay}, OnError: operators.ErrorPolicy{Policy: operators.PolicyStop}}}})
	h := operatortest.New(t, op, operatortest.Context(t, "op", ""))
	t.Cleanup(func() { _ = op.Close() })
	var b abi.Batch
	var rows []string
	for i, d := range []int64{9, 1, 7, 8} {
		var r abi.RowBuilder
		r.Reset(2)
		r.SetString(0, "ABQ")
		r.SetInt64(1, d)
		rows = append(rows, string(r.Bytes()))
		b.Append(&abi.Record{Time: int64(i), Key: []byte("k"), Value: r.Bytes(), Pos: abi.Position{Offset: uint64(i)}})
		if i == 2 {
			b.Mark(1)
		}
	}
	if err := op.Batch(0, &b, h); err != nil {
		t.Fatal(err)
	}
	got := h.Output(0)
	var values []string
	for _, r := range got.Records {
		values = append(values, string(r.Value))
	}
	if want := []string{rows[0], rows[2], rows[3]}; !slices.Equal(values, want) || len(got.Marks) != 1 || got.Marks[0].Records != 2 {
		t.Errorf("kept %q with marks %v, want %q", values, got.Marks, want)
	}
}
