package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/millrace-io/millrace/operators/stateview"
)

// stateRow is a row as printed.
type stateRow struct {
	Operator, State string
	Key             string
	Value           json.RawMessage
	Timer           *struct{ Domain, Name, At string }
}

func stateRows(t *testing.T, out string) (rows []stateRow) {
	t.Helper()
	for line := range strings.Lines(out) {
		var r stateRow
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		rows = append(rows, r)
	}
	return rows
}

// counted runs the word count over some lines to its end.
func counted(t *testing.T, lines, words int) string {
	t.Helper()
	dir := project(t, countPipeline)
	text, _ := numbered(lines, words)
	write(t, dir, "in.txt", text)
	do(t, dir, "run", "p.yaml").want(t, 0)
	return dir
}

func TestStateOfASnapshot(t *testing.T) {
	dir := counted(t, 1000, 100)
	do(t, dir, "state", "list").want(t, 0, "count", "total", "value", "u64")
	r := do(t, dir, "state", "get", "--key", "word7", "p.yaml")
	r.want(t, 0)
	if r.out != `{"operator":"count","state":"total","key":"word7","value":10}`+"\n" {
		t.Errorf("%s", r.out)
	}
	do(t, dir, "state", "get", "--key", "word7", "--raw").want(t, 0, `"key_base64":"d29yZDc="`, `"value_base64":"CgAAAAAAAAA="`)
	do(t, dir, "state", "get", "--key", "nothere").want(t, 1, "key nothere has nothing")
	do(t, dir, "state", "get").want(t, 2, "key")
	do(t, dir, "state", "gte").want(t, 2, `did you mean "get"?`)
	do(t, dir, "state", "get", "--key", "x", "--operator", "cuont").want(t, 2, "cuont", "there are count.total")
	do(t, dir, "state", "get", "--key", "x", "--snapshot", "99").want(t, 2, "99")
	do(t, dir, "state", "get", "--key", "x", "--snapshot", "notag").want(t, 2, "notag")
	do(t, dir, "state", "scan", "--limit", "-1").want(t, 2, "-1")
	do(t, dir, "state", "scan", "--after", "x!").want(t, 2, "after")
	do(t, dir, "state", "list", "nothere").want(t, 2, "no state in")

	r = do(t, dir, "state", "scan", "--limit", "0")
	r.want(t, 0)
	all := stateRows(t, r.out)
	if len(all) != 100 {
		t.Fatalf("%d rows", len(all))
	}
	for _, x := range all {
		if string(x.Value) != "10" || x.Operator != "count" {
			t.Errorf("%+v", x)
		}
	}
	r = do(t, dir, "state", "scan", "--prefix", "word9", "--limit", "0")
	if rows := stateRows(t, r.out); len(rows) != 11 {
		t.Errorf("%d rows begin with word9", len(rows))
	}
	var paged []string
	for after := ""; ; {
		args := []string{"state", "scan", "--limit", "7", "--json"}
		if after != "" {
			args = append(args, "--after", after)
		}
		var page statePage
		if err := json.Unmarshal(envelopeOf(t, do(t, dir, args...).out).Data, &page); err != nil {
			t.Fatal(err)
		}
		for _, row := range page.Rows {
			paged = append(paged, string(row))
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if want := strings.Split(strings.TrimSpace(do(t, dir, "state", "scan", "--limit", "0").out), "\n"); !slices.Equal(paged, want) {
		t.Errorf("%d rows in pages, %d in one", len(paged), len(want))
	}
	do(t, dir, "state", "stats").want(t, 0, "count.total (value)", "100 of 100 keys", "values", "p50 8", "slots", "large key")
}

func TestStateExport(t *testing.T) {
	dir := counted(t, 500, 50)
	do(t, dir, "state", "export", "--out", "a.ndjson").want(t, 0, "50 rows")
	do(t, dir, "state", "export", "--out", "a.ndjson").want(t, 2, "a.ndjson")
	do(t, dir, "state", "export", "--out", "b.parquet", "--json").want(t, 0, `"format":"parquet"`, `"rows":50`)
	do(t, dir, "state", "export", "--out", "c.parquet").want(t, 0)
	do(t, dir, "state", "export", "--format", "csv").want(t, 2, "csv", "parquet")
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if string(read("a.ndjson")) != do(t, dir, "state", "export").out {
		t.Error("the file and stdout differ")
	}
	if !bytes.Equal(read("b.parquet"), read("c.parquet")) {
		t.Error("two exports of one snapshot differ")
	}
	rows, err := parquet.ReadFile[stateview.ParquetRow](filepath.Join(dir, "b.parquet"))
	if err != nil || len(rows) != 50 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	lines := stateRows(t, string(read("a.ndjson")))
	for i, r := range rows {
		if r.Key != fmt.Sprintf("%q", lines[i].Key) || *r.Value != "10" || string(r.RawKey) != lines[i].Key || len(r.RawValue) != 8 || r.At != nil {
			t.Errorf("row %d: %+v, line %+v", i, r, lines[i])
		}
	}
}

const patchPipeline = `name: slow
checkpoint: {interval: 50ms}
operators:
  - {id: made, source: generator, kind: sequence, records: 6000, rate: 4000, keys: 10}
  - id: count
    process: {module: wordcount.wasm, function: count}
  - {id: out, sink: file, path: out/}
`

// A patch changes a new snapshot only, and a run from that shows it.
func TestStatePatch(t *testing.T) {
	dir := stopped(t, patchPipeline)
	before := do(t, dir, "state", "scan", "--limit", "0", "--operator", "count").out
	rows := stateRows(t, before)
	if len(rows) != 10 {
		t.Fatalf("%d keys", len(rows))
	}
	key, other := rows[0].Key, rows[1].Key
	write(t, dir, "bad.ndjson", `{"operator":"count","state":"total","key":"x","value":-1}
{"operator":"count","state":"total","key":"nothere","delete":true}
{"operator":"cuont","state":"total","key":"x","value":1}

{"operator":"count","state":"total","key":"x","value":1,"vlaue":2}
{"operator":"count","state":"total","key":"x","value":1}
{"operator":"count","state":"total","key":"x","value":2}
not json
`)
	r := do(t, dir, "state", "patch", "--from", "bad.ndjson", "--json")
	var data struct{ Problems []stateview.Problem }
	if err := json.Unmarshal(envelopeOf(t, r.out).Data, &data); err != nil || r.code != 2 {
		t.Fatalf("exit %d, %v: %s", r.code, err, r.out)
	}
	var lines []int
	for _, p := range data.Problems {
		lines = append(lines, p.Line)
	}
	if !slices.Equal(lines, []int{1, 2, 3, 5, 7, 8}) {
		t.Errorf("problems in lines %v: %v", lines, data.Problems)
	}
	do(t, dir, "state", "patch", "--from", "bad.ndjson").want(t, 2, "bad.ndjson:1: value of count.total", "bad.ndjson:7: line 6 changes the same")
	write(t, dir, "good.ndjson", fmt.Sprintf(`{"operator":"count","state":"total","key":%q,"value":1000000}
{"operator":"count","state":"total","key":%q,"delete":true}
`, key, other))
	snapshots := do(t, dir, "snapshot", "list").out
	do(t, dir, "state", "patch", "--from", "good.ndjson", "--dry-run").want(t, 0, "1 entries set, 1 removed would do")
	if after := do(t, dir, "snapshot", "list").out; after != snapshots {
		t.Errorf("a dry run left\n%s", after)
	}
	r = do(t, dir, "state", "patch", "--from", "good.ndjson", "--tag", "fixed", "--note", "why", "--json")
	r.want(t, 0)
	var done patched
	if err := json.Unmarshal(envelopeOf(t, r.out).Data, &done); err != nil || done.Snapshot == 0 || done.Set != 1 || done.Removed != 1 {
		t.Fatalf("%s: %v", r.out, err)
	}
	do(t, dir, "state", "patch", "--from", "good.ndjson", "--tag", "fixed").want(t, 2, "fixed")
	if now := do(t, dir, "state", "scan", "--limit", "0", "--operator", "count").out; now != before {
		t.Error("the newest snapshot is another now")
	}
	do(t, dir, "state", "get", "--key", key, "--operator", "count", "--snapshot", "fixed").want(t, 0, `"value":1000000}`)
	do(t, dir, "state", "get", "--key", other, "--operator", "count", "--snapshot", fmt.Sprint(done.Snapshot)).want(t, 1)
	do(t, dir, "run", "p.yaml", "--restore", fmt.Sprint(done.Snapshot)).want(t, 0, "complete")
	got := stateRows(t, do(t, dir, "state", "scan", "--limit", "0", "--operator", "count").out)
	for _, x := range got {
		var n int
		if err := json.Unmarshal(x.Value, &n); err != nil {
			t.Fatal(err)
		}
		switch {
		case x.Key == key && n <= 1000000, x.Key == other && n >= 600, x.Key != key && x.Key != other && n != 600:
			t.Errorf("%+v", x)
		}
	}
	if len(got) != 10 {
		t.Errorf("%d keys", len(got))
	}
}

// Beside a run, state is read from its newest checkpoint, and asked of its tasks; a patch has to wait.
func TestStateOfARunningPipeline(t *testing.T) {
	dir := project(t, strings.Replace(slowPipeline, "records: 6000\n    rate: 4000", "records: 60000\n    rate: 3000", 1))
	c := command(dir, "run", "p.yaml", "--query", "127.0.0.1:0")
	stderr, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	said := make(chan string, 1)
	go func() {
		var all bytes.Buffer
		buf := make([]byte, 4096)
		for {
			n, err := stderr.Read(buf)
			all.Write(buf[:n])
			if m := regexp.MustCompile(`http://[^/]+/`).FindString(all.String()); m != "" {
				select {
				case said <- m:
				default:
				}
			}
			if err != nil {
				return
			}
		}
	}()
	base := <-said
	waitFor(t, "output", func() bool { return len(published(t, dir)) > 0 })
	r := do(t, dir, "state", "scan", "--operator", "count", "--limit", "0")
	r.want(t, 0)
	rows := stateRows(t, r.out)
	if len(rows) == 0 {
		t.Fatal("no rows")
	}
	key := rows[0].Key
	last := 0.0
	for range 30 { // each reads another checkpoint, while the run drops old ones
		rows := stateRows(t, do(t, dir, "state", "get", "--operator", "count", "--key", key).out)
		var n float64
		if len(rows) != 1 || json.Unmarshal(rows[0].Value, &n) != nil || n < last {
			t.Fatalf("%+v after %v", rows, last)
		}
		last = n
	}
	do(t, dir, "state", "get", "--live", "--operator", "count", "--state", "total", "--key", key).want(t, 0, "live, behind snapshot", `"value":`)
	do(t, dir, "state", "scan", "--live", "--operator", "count").want(t, 2, "one key")
	do(t, dir, "state", "get", "--live", "--operator", "cuont", "--key", key).want(t, 2, "cuont")
	write(t, dir, "patch.ndjson", r.out)
	do(t, dir, "state", "patch", "--from", "patch.ndjson").want(t, 3, "locked by process")
	queryOverHTTP(t, base, key)
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
}

func queryOverHTTP(t *testing.T, base, key string) {
	t.Helper()
	get := func(path string) (int, string, []byte) {
		resp, err := http.Get(base + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, resp.Header.Get("Content-Type"), b
	}
	page := func(path string) (p stateview.Page) {
		code, _, b := get(path)
		if err := json.Unmarshal(b, &p); err != nil || code != 200 {
			t.Fatalf("%s: %d %s", path, code, b)
		}
		return p
	}
	p := page("v1/state/count/total?key=" + key)
	if len(p.Rows) != 1 || !p.Consistent || p.Snapshot == 0 {
		t.Errorf("%+v", p)
	}
	if p := page("v1/state/count/total?live=true&key=" + key); len(p.Rows) != 1 || p.Consistent {
		t.Errorf("live: %+v", p)
	}
	if p := page("v1/state/count/total?key=nothere"); len(p.Rows) != 0 {
		t.Errorf("%+v", p)
	}
	n, next := 0, ""
	for {
		p := page("v1/state/count/total?limit=3&after=" + next)
		n += len(p.Rows)
		if next = p.Next; next == "" {
			break
		}
	}
	if n != 10 {
		t.Errorf("%d rows in pages", n)
	}
	for path, want := range map[string]int{"v1/state/cuont/total?key=a": 404, "v1/state/count/total?kye=a": 400, "v1/state/count/total?limit=0": 400,
		"v1/other": 404, "v1/state/count/total?after=!": 400} {
		if code, kind, b := get(path); code != want || kind != "application/problem+json" {
			t.Errorf("%s: %d %s %s", path, code, kind, b)
		}
	}
	resp, err := http.Post(base+"v1/state/count/total", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 404 {
		t.Errorf("POST: %s", resp.Status)
	}
}

func TestQueryAddress(t *testing.T) {
	dir := project(t, countPipeline)
	write(t, dir, "in.txt", "a\n")
	do(t, dir, "run", "p.yaml", "--query", "0.0.0.0:0").want(t, 2, "0.0.0.0:0", "this machine alone")
	do(t, dir, "run", "p.yaml", "--query", "nonsense").want(t, 2, "nonsense")
}

// The commands of docs/state.md, in order.
func TestStateDocument(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "examples", "wordcount"), os.DirFS("../../examples/wordcount")); err != nil {
		t.Fatal(err)
	}
	for _, left := range []string{"out", ".millrace"} {
		if err := os.RemoveAll(filepath.Join(dir, "examples", "wordcount", left)); err != nil {
			t.Fatal(err)
		}
	}
	ran := 0
	for _, block := range blocks(t, "../../docs/state.md", "sh") {
		for line := range strings.Lines(block) {
			args, ok := strings.CutPrefix(strings.TrimSpace(line), "bin/millrace ")
			if !ok {
				t.Fatalf("no test runs %q", line)
			}
			do(t, dir, strings.Fields(args)...).want(t, 0)
			ran++
		}
	}
	if ran < 10 {
		t.Errorf("%d commands found", ran)
	}
}

// Windows and timers in the middle of a stream, decoded by what the snapshot keeps of them.
func TestStateOfWindows(t *testing.T) {
	dir := project(t, `name: slow
checkpoint: {interval: 50ms}
operators:
  - {id: made, source: generator, kind: payments, format: ndjson, records: 20000, rate: 4000}
  - {id: by, key_by: card}
  - id: sums
    window: {type: tumbling, size: 1h}
    aggregates: {n: count}
  - {id: out, sink: file, path: out/}
`)
	c := command(dir, "run", "p.yaml")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	waitFor(t, "windows", func() bool { return do(t, dir, "state", "scan", "--state", "windows", "p.yaml").out != "" })
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	r := do(t, dir, "state", "scan", "--state", "windows", "--limit", "0", "p.yaml")
	r.want(t, 0)
	total := 0
	for _, row := range stateRows(t, r.out) {
		var v struct {
			Windows []struct {
				Start, End string
				Aggregates struct{ N int }
			}
		}
		if err := json.Unmarshal(row.Value, &v); err != nil || len(v.Windows) == 0 {
			t.Fatalf("%s: %v", row.Value, err)
		}
		for _, w := range v.Windows {
			if !strings.HasSuffix(w.Start, ":00:00.000Z") || w.Aggregates.N < 1 {
				t.Errorf("%+v", w)
			}
			total += w.Aggregates.N
		}
	}
	if total == 0 {
		t.Error("no records in windows")
	}
	key := stateRows(t, r.out)[0].Key
	write(t, dir, "patch.ndjson", fmt.Sprintf(`{"operator":"sums","state":"windows","key":%q,"value":{"windows":[]}}`, key))
	do(t, dir, "state", "patch", "--from", "patch.ndjson", "p.yaml").want(t, 2, "only all windows of a key can be deleted")
	write(t, dir, "patch.ndjson", fmt.Sprintf(`{"operator":"sums","state":"windows","key":%q,"delete":true}`, key))
	do(t, dir, "state", "patch", "--from", "patch.ndjson", "--tag", "without", "p.yaml").want(t, 0)
	do(t, dir, "state", "get", "--state", "windows", "--key", key, "--snapshot", "without", "p.yaml").want(t, 1)
	do(t, dir, "state", "get", "--state", "windows", "--key", key, "p.yaml").want(t, 0)
}
