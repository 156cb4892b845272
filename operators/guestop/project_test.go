package guestop

import (
	"testing"

	"github.com/millrace-io/millrace/abi"
)

// TestListsAreText: a function that declares text reads a window's JSON list as it is, and nothing else.
func TestListsAreText(t *testing.T) {
	from := []abi.Field{{Name: "n", Type: abi.TypeInt64}, {Name: "ids", Type: abi.TypeJSON}}
	to := []abi.Field{{Name: "ids", Type: abi.TypeString}}
	p, err := newProjection(from, to)
	if err != nil {
		t.Fatal(err)
	}
	var b abi.RowBuilder
	b.Reset(2)
	b.SetInt64(0, 5)
	b.SetString(1, "[1,2]")
	out, err := p.project(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	row, err := abi.CheckRow(out, to)
	if s, _ := row.Bytes(0); err != nil || string(s) != "[1,2]" {
		t.Errorf("%q, %v", s, err)
	}
	if _, err := newProjection(to, from[1:]); err == nil {
		t.Error("text was taken for JSON")
	}
}
