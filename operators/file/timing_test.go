package file

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/operatortest"
)

// TestAlignedFiles: with align the files of a task are read together, in the order of their times up to a
// batch, instead of one after the other.
func TestAlignedFiles(t *testing.T) {
	dir := t.TempDir()
	const lines, batch, align = 2000, 10, 500
	for f := range 3 {
		var b strings.Builder
		for i := range lines / (f + 1) {
			fmt.Fprintf(&b, "{\"t\":%d}\n", 10*i*(f+1))
		}
		write(t, dir, fmt.Sprintf("in-%d.ndjson", f), b.String())
	}
	n := sourceNode(dir, "in-*.ndjson")
	n.Source.Time = &operators.TimeSettings{Field: "t", Align: align * time.Millisecond}
	out := operatortest.OpenSource(t, NewSource(n), operatortest.Context(t, "in", "")).Drain(batch).Out
	reached := map[uint32]int64{}
	for i, r := range out.Records {
		reached[r.Pos.Split] = r.Time
		for s := range uint32(3) {
			if at := reached[s]; r.Time > at+align+batch*30 && at < 10*lines-60 {
				t.Fatalf("record %d: split %d is at %d, split %d at %d", i, r.Pos.Split, r.Time, s, at)
			}
		}
	}
	if want := lines + lines/2 + lines/3; len(out.Records) != want {
		t.Errorf("%d records, expected %d", len(out.Records), want)
	}
	for i, m := range out.Marks { // together they never hold a window for the length of a file
		if m.Records < 20*batch && m.Watermark > 10*lines/2 {
			t.Errorf("mark %d: watermark %d after %d records", i, m.Watermark, m.Records)
		}
	}
}

// TestFollowedFileIdle: a followed file is idle at the end of its last line, not in the midst of one, and
// what is appended then makes it active again.
func TestFollowedFileIdle(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.ndjson", "{\"t\":5000}\n")
	write(t, dir, "b.ndjson", "{\"t\":1000}\n{\"t\":")
	n := sourceNode(dir, "a.ndjson", "b.ndjson")
	n.Source.File.Follow = true
	n.Source.Time = &operators.TimeSettings{Field: "t", Idle: 500 * time.Millisecond}
	ctx := operatortest.Context(t, "in", "")
	clk := ctx.Clock.(*operatortest.Clock)
	src := NewSource(n)
	r := operatortest.OpenSource(t, src, ctx)
	defer src.Close()
	to := func(from, to int64) {
		for now := from; now <= to; now += 100 {
			clk.Set(now)
			r.Drain(10)
		}
	}
	to(0, 2000)
	if w := src.Intake().Watermark(); w != 999 {
		t.Fatalf("b has a part of a line, the watermark is %d", w)
	}
	f, err := os.OpenFile(filepath.Join(dir, "b.ndjson"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	appendText := func(s string) {
		if _, err := f.WriteString(s); err != nil {
			t.Fatal(err)
		}
	}
	appendText("1100}\n")
	to(2100, 2500)
	if w := src.Intake().Watermark(); w != 1099 {
		t.Fatalf("b is not idle yet, the watermark is %d", w)
	}
	to(2600, 3000)
	if !src.Intake().Idle() {
		t.Error("both files are quiet and it is not idle")
	}
	if w := src.Intake().Watermark(); w != 4999 { // that of a, as if a had become idle last
		t.Errorf("the watermark is %d", w)
	}
	appendText("{\"t\":7000}\n")
	to(3100, 3200)
	if w := src.Intake().Watermark(); w != 6999 || src.Intake().Idle() {
		t.Errorf("b is back alone: the watermark is %d, idle %v", w, src.Intake().Idle())
	}
	if p := src.Positions(); !p[0].Idle || p[1].Idle || p[0].Mark != 4999 || p[0].Ahead != 2000 {
		t.Errorf("positions %+v", p)
	}
	if n := len(r.Out.Records); n != 4 || r.Out.Records[3].Time == abi.NoTime {
		t.Errorf("%d records", n)
	}
}
