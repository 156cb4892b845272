package file

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/operatortest"
)

func sourceNode(dir string, paths ...string) *operators.Node {
	return &operators.Node{ID: "in", Kind: operators.NodeSource, Parallelism: 1, Source: &operators.SourceNode{
		Connector: "file", Format: "ndjson", File: &operators.FileSource{Dir: dir, Paths: paths}}}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestLinesOfFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "b.ndjson", "{\"n\":3}\r\n\n{\"n\":4}")
	write(t, dir, "a.ndjson", "{\"n\":1}\n{\"n\":2}\n")
	write(t, dir, "c.ndjson", "")
	r := operatortest.OpenSource(t, NewSource(sourceNode(dir, "*.ndjson")), operatortest.Context(t, "in", "")).Drain(10)
	if got := r.Out.Values(); !slices.Equal(got, []string{`{"n":1}`, `{"n":2}`, `{"n":3}`, `{"n":4}`}) || r.Status != operators.PollEnd {
		t.Errorf("got %q", got)
	}
	last := r.Out.Records[3].Pos
	if d := r.Source.Describe(last); d != "b.ndjson:3 (byte 10)" {
		t.Errorf("position %+v is described as %q", last, d)
	}
	for _, p := range r.Source.Positions() {
		if !p.Finished {
			t.Errorf("not finished: %+v", p)
		}
	}
}

// TestASourceThatIsNotOpenDescribesNothing: a record that fails in another task may come from a source whose
// first task opens late; the name has to come from one that is open.
func TestASourceThatIsNotOpenDescribesNothing(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.ndjson", "{\"n\":1}\n")
	s := NewSource(sourceNode(dir, "a.ndjson"))
	if d := s.Describe(abi.Position{}); d != "" {
		t.Errorf("before it is open: %q", d)
	}
	r := operatortest.OpenSource(t, s, operatortest.Context(t, "in", ""))
	if d := r.Source.Describe(abi.Position{}); d != "a.ndjson:1 (byte 0)" {
		t.Errorf("open: %q", d)
	}
	if d := r.Source.Describe(abi.Position{Split: 7}); d != "" {
		t.Errorf("a split that is not there: %q", d)
	}
}

func bigInput(t *testing.T, dir string, files, lines int, seed uint64) (names []string) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	for f := range files {
		var b strings.Builder
		at := int64(1000)
		for i := range lines {
			at += rnd.Int64N(40)
			fmt.Fprintf(&b, "{\"t\":%d,\"k\":\"k%d\",\"i\":%d,\"pad\":%q}\n", at-rnd.Int64N(60), rnd.IntN(9), i, strings.Repeat("p", rnd.IntN(200)))
		}
		name := fmt.Sprintf("in-%d.ndjson", f)
		write(t, dir, name, b.String())
		names = append(names, name)
	}
	return names
}

// TestBatchesNeverMatter: whatever the batch size, and wherever the job is stopped and restored, records,
// keys, positions and marks are the same at the same places.
func TestBatchesNeverMatter(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	dir := t.TempDir()
	n := sourceNode(dir, bigInput(t, dir, 3, 1500, seed)...)
	n.Source.Time = &operators.TimeSettings{Field: "t", OutOfOrderness: 30 * time.Millisecond}
	n.Source.Key = &operators.KeyByNode{Fields: []string{"k"}}
	want := operatortest.OpenSource(t, NewSource(n), operatortest.Context(t, "in", "")).Drain(256).Out
	if len(want.Records) != 4500 || len(want.Hashes) != 4500 || len(want.Marks) < 20 {
		t.Fatalf("%d records, %d marks", len(want.Records), len(want.Marks))
	}
	rnd := rand.New(rand.NewPCG(seed, 2))
	for round := range 5 {
		var got operatortest.Collected
		var restored []checkpoint.OperatorSnapshot
		for end := false; !end; {
			ctx := operatortest.Context(t, "in", "")
			ctx.Restored = restored
			r := operatortest.OpenSource(t, NewSource(n), ctx)
			for range 1 + rnd.IntN(30) {
				if err := r.Poll(1 + rnd.IntN(100)); err != nil {
					t.Fatal(err)
				}
				if end = r.Status == operators.PollEnd; end {
					break
				}
			}
			restored = []checkpoint.OperatorSnapshot{{Operator: "in", Splits: r.Source.Positions()}}
			for _, m := range r.Out.Marks {
				got.Marks = append(got.Marks, operatortest.Mark{Records: m.Records + len(got.Records), Watermark: m.Watermark})
			}
			got.Records = append(got.Records, r.Out.Records...)
			got.Hashes = append(got.Hashes, r.Out.Hashes...)
			r.Source.Close()
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d, round %d: other records or marks (%d records, %d marks; want %d, %d)", seed, round, len(got.Records), len(got.Marks), len(want.Records), len(want.Marks))
		}
	}
}

// TestSplitsOfTasks: each file belongs to one task, also after a restart with another parallelism.
func TestSplitsOfTasks(t *testing.T) {
	dir := t.TempDir()
	n := sourceNode(dir, bigInput(t, dir, 5, 20, 7)...)
	var got []string
	var restored []checkpoint.OperatorSnapshot
	for _, p := range []int{2, 3} {
		var next []checkpoint.OperatorSnapshot
		for task := range p {
			ctx := operatortest.Context(t, "in", "")
			ctx.Task, ctx.Parallelism, ctx.Restored = task, p, restored
			r := operatortest.OpenSource(t, NewSource(n), ctx)
			if p == 2 {
				if err := r.Poll(11); err != nil {
					t.Fatal(err)
				}
			} else {
				r.Drain(50)
			}
			for _, rec := range r.Out.Records {
				got = append(got, fmt.Sprintf("%d:%d", rec.Pos.Split, rec.Pos.Offset))
			}
			next = append(next, checkpoint.OperatorSnapshot{Operator: "in", Splits: r.Source.Positions()})
		}
		restored = next
	}
	slices.Sort(got)
	if len(got) != 100 || len(slices.Compact(got)) != 100 {
		t.Errorf("%d records, %d distinct", len(got), len(slices.Compact(got)))
	}
}

func TestLongLines(t *testing.T) {
	dir := t.TempDir()
	fits, long := strings.Repeat("f", abi.MaxRecordBytes), strings.Repeat("x", abi.MaxRecordBytes+1)
	huge := strings.Repeat("h", 3*abi.MaxRecordBytes)
	write(t, dir, "a", strings.Join([]string{"1", fits, long, "2", huge, "3", huge}, "\n"))
	n := sourceNode(dir, "a")
	n.Source.Format = "lines"
	n.Source.OnError = &operators.ErrorPolicy{Policy: operators.PolicyDeadLetter}
	r := operatortest.OpenSource(t, NewSource(n), operatortest.Context(t, "in", "")).Drain(100)
	if got := r.Out.Values(); !slices.Equal(got, []string{"1", fits, "2", "3"}) {
		t.Errorf("%d records", len(got))
	}
	var sizes []string
	for i := range r.Rejected.Records {
		var b abi.Batch
		b.Append(&r.Rejected.Records[i])
		rec, d := operators.SplitDeadLetter(b.Frame(0))
		sizes = append(sizes, strings.Fields(d.Error)[2])
		if len(rec.Value) != clipBytes || d.Kind != operators.KindMalformed {
			t.Errorf("dead letter %+v with %d bytes", d, len(rec.Value))
		}
	}
	if want := []string{fmt.Sprint(len(long)), fmt.Sprint(len(huge)), fmt.Sprint(len(huge))}; !slices.Equal(sizes, want) {
		t.Errorf("rejected lines of %v bytes, want %v", sizes, want)
	}
}

func TestErrorPolicies(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.ndjson", "{\"k\":\"a\",\"t\":1}\n{\"k\":\n{\"k\":null,\"t\":2}\n{\"t\":3}\n{\"k\":\"\",\"t\":4}\n")
	for _, policy := range []string{"stop", "skip", "dead_letter"} {
		n := sourceNode(dir, "a.ndjson")
		n.Source.Time = &operators.TimeSettings{Field: "t"}
		n.Source.OnError = &operators.ErrorPolicy{Policy: policy}
		n.Source.Key = &operators.KeyByNode{ID: "by-k", Fields: []string{"k"}, Null: operators.ErrorPolicy{Policy: policy}}
		src := NewSource(n)
		r := operatortest.OpenSource(t, src, operatortest.Context(t, "in", ""))
		if policy == "stop" {
			err := r.Poll(100)
			var re *operators.RecordError
			if !errors.As(err, &re) || re.Position != "a.ndjson:2 (byte 16)" || !strings.Contains(err.Error(), "invalid JSON at byte 6") {
				t.Errorf("got %v", err)
			}
			continue
		}
		r.Drain(100)
		if len(r.Out.Records) != 2 || r.Out.Records[1].Key == nil {
			t.Errorf("%s: records %+v", policy, r.Out.Records)
		}
		if n := src.Counters(); n["skipped"]+n["dead letters"] != 3 {
			t.Errorf("%s: counters %v", policy, n)
		}
		if policy == "dead_letter" {
			var ops, values []string
			for i := range r.Rejected.Records {
				var b abi.Batch
				b.Append(&r.Rejected.Records[i])
				rec, d := operators.SplitDeadLetter(b.Frame(0))
				ops, values = append(ops, d.Operator), append(values, string(rec.Value))
			}
			if !slices.Equal(ops, []string{"in", "by-k", "by-k"}) || values[0] != `{"k":` || values[2] != `{"t":3}` {
				t.Errorf("dead letters of %v: %q", ops, values)
			}
		}
	}
}

func TestChangedInputIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		follow bool
		ok     bool
	}{
		"the same":        {"11\n22\n33\n", false, true},
		"shorter":         {"11\n", false, false},
		"other bytes":     {"91\n22\n33\n", false, false},
		"longer":          {"11\n22\n33\n44\n", false, false},
		"longer followed": {"11\n22\n33\n44\n", true, true},
		"cut followed":    {"11\n", true, false},
	} {
		dir := t.TempDir()
		write(t, dir, "a", "11\n22\n33\n")
		n := sourceNode(dir, "a")
		n.Source.File.Follow = c.follow
		r := operatortest.OpenSource(t, NewSource(n), operatortest.Context(t, "in", ""))
		if err := r.Poll(2); err != nil {
			t.Fatal(err)
		}
		ctx := operatortest.Context(t, "in", "")
		ctx.Restored = []checkpoint.OperatorSnapshot{{Splits: r.Source.Positions()}}
		r.Source.Close()
		write(t, dir, "a", c.text)
		err := NewSource(n).Open(ctx)
		if (err == nil) != c.ok || err != nil && (!errors.Is(err, operators.ErrInputChanged) || !strings.Contains(err.Error(), "a has") && !strings.Contains(err.Error(), "of a are")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFollow: a line counts once its newline is there; what is added is read; nothing is read twice
// after a restart, also when nothing had come at all (C025).
func TestFollow(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a", "1\n2")
	write(t, dir, "b", "")
	n := sourceNode(dir, "a", "b")
	n.Source.File.Follow = true
	r := operatortest.OpenSource(t, NewSource(n), operatortest.Context(t, "in", "")).Drain(10)
	if got := r.Out.Values(); !slices.Equal(got, []string{"1"}) || r.Status != operators.PollIdle {
		t.Fatalf("got %q, status %v", got, r.Status)
	}
	add(t, dir, "a", "2\n")
	add(t, dir, "b", "b1\n")
	r.Await(3, 10)
	if got := r.Out.Values(); !slices.Equal(got, []string{"1", "22", "b1"}) && !slices.Equal(got, []string{"1", "b1", "22"}) {
		t.Fatalf("got %q", got)
	}
	ctx := operatortest.Context(t, "in", "")
	ctx.Restored = []checkpoint.OperatorSnapshot{{Splits: r.Source.Positions()}}
	r.Source.Close()
	r = operatortest.OpenSource(t, NewSource(n), ctx).Drain(10)
	if len(r.Out.Records) != 0 {
		t.Fatalf("read again: %q", r.Out.Values())
	}
	add(t, dir, "b", "b2\n")
	if got := r.Await(1, 10).Out.Values(); !slices.Equal(got, []string{"b2"}) {
		t.Errorf("got %q", got)
	}
	r.Source.Close()
}

func add(t *testing.T, dir, name, text string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func TestNotAFile(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]string{"gone": "there is no such file", "*.gone": "matches no file", "/dev/null": "is a device", ".": "is a folder"} {
		err := NewSource(sourceNode(dir, path)).Open(operatortest.Context(t, "in", ""))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func BenchmarkLines(b *testing.B) {
	dir := b.TempDir()
	var text strings.Builder
	const lines = 200_000
	for i := range lines {
		fmt.Fprintf(&text, "{\"ts\":%d,\"key\":\"key-%07d\",\"amount\":%d.25}\n", 1700000000000+i, i%100_000, 100+i%900)
	}
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte(text.String()), 0o644); err != nil {
		b.Fatal(err)
	}
	n := sourceNode(dir, "a")
	n.Source.Fields = []abi.Field{{Name: "ts", Type: abi.TypeTime}, {Name: "key", Type: abi.TypeString}, {Name: "amount", Type: abi.TypeFloat64}}
	n.Source.Time = &operators.TimeSettings{Field: "ts"}
	n.Source.Key = &operators.KeyByNode{Fields: []string{"key"}}
	for _, form := range []string{"raw", "row"} {
		n.Schema = nil
		if form == "row" {
			n.Schema = n.Source.Fields
		}
		b.Run(form, func(b *testing.B) {
			var batch abi.Batch
			cpu := cpuTime()
			for b.Loop() {
				s := NewSource(n)
				if err := s.Open(operatortest.Context(b, "in", dir)); err != nil {
					b.Fatal(err)
				}
				total := 0
				for st := operators.PollMore; st != operators.PollEnd; {
					batch.Reset()
					var err error
					if st, err = s.Poll(&batch, 256); err != nil {
						b.Fatal(err)
					}
					total += batch.Len()
				}
				if total != lines {
					b.Fatal(total)
				}
				s.Close()
			}
			b.ReportMetric(float64((cpuTime()-cpu).Nanoseconds())/float64(b.N)/lines, "cpu-ns/line")
		})
	}
}

// cpuTime is what the process has used of its cores: other programs on the machine do not show in it.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
