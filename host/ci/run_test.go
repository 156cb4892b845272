package ci_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/checkpoint/archive"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/host/ci"
	"github.com/millrace-io/millrace/host/clock"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/host/record"
	"github.com/millrace-io/millrace/host/worker"
	"github.com/millrace-io/millrace/operators/spec"
)

var ctx = context.Background()

// The two modules do the same but for records of Japan, of which old knows the exchange rate.
const pipeline = `name: payments
checkpoint: {interval: 1h}
operators:
  - id: payments
    source: file
    path: payments.ndjson
    format: ndjson
    follow: true
    fields: {country: string, amount: int64, at: int64}
    time: {field: at, out_of_orderness: 1s}
  - {id: by-country, key_by: country}
  - {id: totals, process: {module: old.wasm, function: per_country}, parallelism: 2}
  - {id: out, sink: file, path: out/}
`

// payment is a line of input.
func payment(b *bytes.Buffer, country string, amount int, at int64) {
	fmt.Fprintf(b, "{\"country\":%q,\"amount\":%d,\"at\":%d}\n", country, amount, at)
}

// sliceOf runs a pipeline over before, and exports its savepoint with what follows. What it ran on is gone then.
func sliceOf(t *testing.T, before int, lines []byte) (slice string) {
	t.Helper()
	dir := t.TempDir()
	for to, from := range map[string]string{"old.wasm": "backfill.wasm"} {
		wasm, err := os.ReadFile(filepath.Join("../../examples/backfill", from))
		if err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, to), wasm)
	}
	input, file := filepath.Join(dir, "payments.ndjson"), filepath.Join(dir, "p.yaml")
	put(t, file, []byte(pipeline))
	first := 0
	for range before {
		first += 1 + bytes.IndexByte(lines[first:], '\n')
	}
	put(t, input, lines[:first])
	mods, err := worker.NewModules(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	defer mods.Close()
	g, err := spec.Load(file, spec.Options{Modules: mods})
	if err != nil {
		t.Fatal(err)
	}
	g.File = file
	w := worker.NewLocal(worker.Options{})
	defer w.Close()
	if err := w.Deploy(ctx, worker.Deploy{Graph: g, StateDir: filepath.Join(dir, "state")}); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		s, err := w.Stats(ctx)
		if err != nil || time.Now().After(end) {
			t.Fatalf("%d of %d records read; %v", s.Read, before, err)
		}
		if s.Read == int64(before) {
			break
		}
	}
	p, err := w.Savepoint(ctx, job.SavepointRequest{Stop: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	put(t, input, lines)
	store, err := snapstore.Open(filepath.Join(dir, "state", "snapshots"), snapstore.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	m, err := store.Load(p.ID)
	if err != nil {
		t.Fatal(err)
	}
	slice = filepath.Join(t.TempDir(), "slice.snap")
	err = archive.ExportInputFile(ctx, snapstore.Disk{}, slice, store, p.ID, archive.Sealing{}, func(ctx context.Context, to io.Writer) error {
		_, err := record.Write(ctx, to, record.Options{Graph: g, From: m, Clock: clock.Wall{}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	return slice
}

func put(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// forgetful is the module that has lost Japan.
func forgetful(t *testing.T) []ci.Module {
	t.Helper()
	path, err := filepath.Abs("../../examples/backfill/rushed/rushed.wasm")
	if err != nil {
		t.Fatal(err)
	}
	return []ci.Module{{Path: path}}
}

func run(t *testing.T, slice string, modules []ci.Module) *ci.Report {
	t.Helper()
	r, err := ci.Run(ctx, ci.Options{Slice: slice, Modules: modules, WorkDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Operators) != 1 || r.Operators[0].ID != "totals" {
		t.Fatalf("compared: %+v", r.Operators)
	}
	return r
}

func text(r *ci.Report, p ci.Policy) string {
	r.Judge(&p)
	var b bytes.Buffer
	r.Text(&b)
	r.Markdown(&b)
	return b.String()
}

// sample is the first one of a kind.
func sample(r *ci.Report, kind string) ci.Sample {
	for _, s := range r.Operators[0].Samples {
		if s.Kind == kind {
			return s
		}
	}
	return ci.Sample{}
}

// TestPlantedDifferences: one record in 100,000 is one that the versions treat differently, in state alone: no hour
// ends. It is found and named by place and key.
func TestPlantedDifferences(t *testing.T) {
	const records, planted = 200_000, 100_000
	var lines bytes.Buffer
	for i := range records {
		country := []string{"BR", "DE", "FR", "US"}[i%4]
		if i%planted == planted-7 {
			country = "JP"
		}
		payment(&lines, country, 100+i%77, int64(1000+i))
	}
	slice := sliceOf(t, 500, lines.Bytes())
	r := run(t, slice, forgetful(t))
	o := r.Operators[0]
	if r.Slice.Records != records-500 || o.Records != records-500 || o.Differ["state"] != 2 || o.Differ["output"]+o.Differ["fault"]+o.Differ["timer"] != 0 {
		t.Fatalf("%+v, differ %v, expected 2 of %d in state", r.Slice, o.Differ, records-500)
	}
	text(r, ci.Policy{})
	s := sample(r, "state")
	if s.Key != `"JP"` && s.Key != "JP" || !strings.HasPrefix(s.Position, "payments.ndjson:99994 (byte ") || r.Within || !strings.HasPrefix(s.Of, "hours") {
		t.Errorf("within %v: %+v", r.Within, s)
	}
	if text(r, ci.Policy{Limits: ci.Limits{MaxDiff: "2"}}); !r.Within {
		t.Errorf("beyond a policy of 2: %q", r.Beyond)
	}
	if text(r, ci.Policy{Limits: ci.Limits{Allow: []string{"state"}}}); !r.Within {
		t.Errorf("beyond a policy that allows state: %q", r.Beyond)
	}
}

// TestOutputsThatDiffer: at the end of an hour a timer gives what differs.
func TestOutputsThatDiffer(t *testing.T) {
	var lines bytes.Buffer
	for i := range 4000 {
		payment(&lines, []string{"BR", "DE", "JP", "US"}[i%4], 1000, int64(i)*2000)
	}
	slice := sliceOf(t, 100, lines.Bytes())
	r := run(t, slice, forgetful(t))
	out := text(r, ci.Policy{})
	if again := text(run(t, slice, forgetful(t)), ci.Policy{}); again != out {
		t.Errorf("another report of the same slice:\n%s\n%s", out, again)
	}
	o, s := r.Operators[0], sample(r, "output")
	if o.Differ["output"] != 2 || o.Timers != 8 || !strings.Contains(s.Before, `"country":"JP"`) || !strings.Contains(s.After, `"cents":`) || s.Before == s.After {
		t.Errorf("%d timers, differ %v; %+v", o.Timers, o.Differ, s)
	}
}

// TestFuelAlone: where there is no record of Japan the versions differ in their work at most.
func TestFuelAlone(t *testing.T) {
	var lines bytes.Buffer
	for i := range 3000 {
		payment(&lines, []string{"BR", "DE", "FR", "US"}[i%4], 1000, int64(i)*2000)
	}
	r := run(t, sliceOf(t, 100, lines.Bytes()), forgetful(t))
	text(r, ci.Policy{})
	o, s := r.Operators[0], sample(r, "fuel")
	if o.Differ["fuel"] == 0 || len(o.Differ) != 1 || !r.Within || !strings.HasPrefix(s.Position, "payments.ndjson:") || s.Key == "" || s.Before == s.After {
		t.Errorf("differ %v, within %v; %+v", o.Differ, r.Within, s)
	}
	// Which of the two takes more is up to the compiler: the one that does is beyond a limit of nothing.
	text(r, ci.Policy{Limits: ci.Limits{MaxFuel: "+0%"}})
	if r.Within == (o.Ratio() > 1) {
		t.Errorf("fuel %v, within +0%%: %v", o.Ratio(), r.Within)
	}
}

// TestSlicesThatAreNone: damage in the input is named with its block, a slice without input says what is missing.
func TestSlicesThatAreNone(t *testing.T) {
	var lines bytes.Buffer
	for i := range 3000 {
		payment(&lines, "DE", 1000+i*i%977, int64(i)*20)
	}
	slice := sliceOf(t, 100, lines.Bytes())
	data, err := os.ReadFile(slice)
	if err != nil {
		t.Fatal(err)
	}
	bad := bytes.Clone(data)
	bad[bytes.Index(bad, []byte("MRINPUT1"))+2000] ^= 1
	broken := filepath.Join(t.TempDir(), "broken.snap")
	put(t, broken, bad)
	_, err = ci.Run(ctx, ci.Options{Slice: broken, Modules: forgetful(t), WorkDir: t.TempDir()})
	if !errors.Is(err, record.ErrDamaged) || !strings.Contains(err.Error(), "block 1") {
		t.Errorf("damaged: %v", err)
	}
	_, err = ci.Run(ctx, ci.Options{Slice: slice, Modules: []ci.Module{{Operator: "sums", Path: forgetful(t)[0].Path}}, WorkDir: t.TempDir()})
	if !errors.Is(err, ci.ErrRefused) || !strings.Contains(err.Error(), `no operator "sums"; those with modules are totals`) {
		t.Errorf("an operator that is not there: %v", err)
	}
	other := strings.Replace(pipeline, "key_by: country", "key_by: amount", 1)
	_, err = ci.Run(ctx, ci.Options{Slice: slice, Modules: forgetful(t), File: "/elsewhere/p.yaml", Text: []byte(other), WorkDir: t.TempDir()})
	if !errors.Is(err, record.ErrOther) || !strings.Contains(err.Error(), "the key [country], the pipeline wants [amount]") {
		t.Errorf("another key: %v", err)
	}
}
