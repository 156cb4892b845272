package jobtest

import (
	"fmt"
	"math"
	"math/rand"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
)

// punctuatedText is a job whose source gets its watermark from a function, which reads what stands behind "#"
// in a record. The effects guest answers with the watermark it sees; the whole value is the key.
func punctuatedText(settings, module, onError string, parallelism int) string {
	return fmt.Sprintf(`name: punctuated
%s
operators:
  - id: in
    source: file
    path: x
    format: binary
    parallelism: %d
    on_error: %s
    time: {watermarks: punctuated, max_future_skew: off, punctuate: {module: "%s", function: told}}
  - {id: by-key, key_by: {whole: true}}
  - {id: logic, process: {module: "@effects", function: effects}, parallelism: %d}
  - {id: out, sink: file, path: out/, envelope: true}
`, settings, parallelism, onError, module, parallelism)
}

const atTheEnd = "checkpoint: {interval: 0s}"

// told is a record with a number of its own whose function of the source says something, unless it is "".
func told(n int, ms int64, says string) abi.Record {
	v := fmt.Sprintf("wm;log %d", n)
	if says != "" {
		v += "#" + says
	}
	return abi.Record{Time: ms, Value: []byte(v)}
}

// randomTold is n records of one split, and the watermark that each sees.
func randomTold(r *rand.Rand, n int) (records []abi.Record, want []int64, ignored int64) {
	wm := abi.MinWatermark
	for i := range n {
		at := int64(i*3) - int64(r.Intn(40))
		says, next := "", wm
		switch r.Intn(12) {
		case 0, 1:
			next = max(wm, at)
			if says = fmt.Sprint(at); at < wm {
				ignored++
			}
		case 2:
			if says = fmt.Sprint(at - 500); at-500 < wm { // mostly going back
				ignored++
			}
			next = max(wm, at-500)
		case 3:
			if r.Intn(4) == 0 {
				says = fmt.Sprint(int64(math.MaxInt64)) // the end is not for it to say
				ignored++
			}
		}
		records, want = append(records, told(i, at, says)), append(want, wm)
		wm = next
	}
	return records, want, ignored
}

// seen is the watermark that each record saw, by its number.
func (w *World) seen() map[string]string {
	m := map[string]string{}
	for _, l := range w.Envelopes("out/") {
		_, n, _ := strings.Cut(string(*l.Key), "log ")
		n, _, _ = strings.Cut(n, "#")
		m[n] = string(*l.Value)
	}
	return m
}

func (w *World) expectSeen(what string, want []int64) {
	w.T.Helper()
	got := w.seen()
	for i, wm := range want {
		if g := got[fmt.Sprint(i)]; g != fmt.Sprintf("watermark %d", wm) {
			w.T.Fatalf("%s: record %d saw %q, want watermark %d", what, i, g, wm)
		}
	}
}

// TestPunctuatedWatermarks: marks stand right behind the records that gave them, whatever the batches, also
// over a crash; what goes back is ignored and counted. The same in both languages.
func TestPunctuatedWatermarks(t *testing.T) {
	t.Parallel()
	seed := rand.Int63()
	t.Logf("seed %d", seed)
	records, want, ignored := randomTold(rand.New(rand.NewSource(seed)), 4000)
	for _, batch := range []int{1, 7, 64, 1024} {
		module := "@punctuate"
		if batch == 64 {
			module = "@punctuate-go"
		}
		w := New(t, punctuatedText(fmt.Sprintf("%s\nbatch: %d", atTheEnd, batch), module, "stop", 1))
		w.Sources["in"] = [][]abi.Record{records}
		res := w.RunToEnd()
		w.expectSeen(fmt.Sprintf("seed %d, batch %d", seed, batch), want)
		if n := res.Stats.Total("in", operators.CounterIgnored); n != ignored {
			t.Errorf("seed %d, batch %d: %d watermarks were ignored, want %d", seed, batch, n, ignored)
		}

		w = New(t, punctuatedText(fmt.Sprintf("checkpoint: {interval: 10ms}\nbatch: %d", batch), module, "stop", 1))
		w.Sources["in"] = [][]abi.Record{records}
		for _, stop := range []int64{500, 1500, 1000} {
			var polled atomic.Int64
			var r *Run
			started := make(chan struct{})
			w.Polled = func(_ string, n int) {
				if polled.Add(int64(n)) > stop {
					<-started
					r.Cancel()
				}
			}
			r = w.Start()
			close(started)
			_, _ = r.Wait() // it was crashed
		}
		w.Polled = nil
		w.RunToEnd()
		w.expectSeen(fmt.Sprintf("seed %d, batch %d, with crashes", seed, batch), want)
	}
}

// TestPunctuatedFaults: a record at which the function fails goes to the source's policy; the others and their
// watermarks go on.
func TestPunctuatedFaults(t *testing.T) {
	t.Parallel()
	records := []abi.Record{told(0, 1, "10"), told(1, 2, "fail"), told(2, 3, "20"), told(3, 4, "trap"), told(4, 5, "no number"),
		told(5, 6, ""), told(6, 7, "30"), told(7, 8, "")}
	want := map[string]string{"0": "watermark -9223372036854775808", "2": "watermark 10", "5": "watermark 20", "6": "watermark 20", "7": "watermark 30"}
	for _, batch := range []int{1, 3, 1024} {
		for _, policy := range []string{"skip", "{policy: dead_letter, path: dead/}"} {
			w := New(t, punctuatedText(fmt.Sprintf("%s\nbatch: %d", atTheEnd, batch), "@punctuate", policy, 1))
			w.Sources["in"] = [][]abi.Record{records}
			res := w.RunToEnd()
			got := w.seen()
			for n, wm := range want {
				if got[n] != wm {
					t.Errorf("batch %d, %s: record %s saw %q, want %q", batch, policy, n, got[n], wm)
				}
			}
			if len(got) != len(want) {
				t.Errorf("batch %d, %s: %d records came through, want %d", batch, policy, len(got), len(want))
			}
			counter := "skipped"
			if policy != "skip" {
				counter = "dead letters"
				if dead := strings.Join(w.Lines("dead/"), "\n"); !strings.Contains(dead, "function told of") || !strings.Contains(dead, "watermark function") {
					t.Errorf("dead letters: %s", dead)
				}
			}
			if n := res.Stats.Total("in", counter); n != 3 {
				t.Errorf("batch %d: %d %s, want 3", batch, n, counter)
			}
		}
	}
	w := New(t, punctuatedText(atTheEnd, "@punctuate", "stop", 1))
	w.Sources["in"] = [][]abi.Record{records}
	if err := w.Fail("on demand", "function told"); err == nil {
		t.Error("a failing function under policy stop did not stop the job")
	}
}

// TestPunctuatedSplits: the watermark of several splits is the least; each split has its own. At the end every
// timer has fired, at any parallelism.
func TestPunctuatedSplits(t *testing.T) {
	t.Parallel()
	var want []string
	for _, p := range []int{1, 2, 4} {
		for _, batch := range []int{1, 64} {
			w := New(t, punctuatedText(fmt.Sprintf("checkpoint: {interval: 20ms}\nbatch: %d", batch), "@punctuate", "stop", p))
			var splits [][]abi.Record
			for s := range 4 {
				var records []abi.Record
				for i := range 300 {
					ms := int64(10*i + s)
					v := fmt.Sprintf("timer %d t;log %d-%d", ms+25, s, i)
					if i%5 == 4 {
						v += fmt.Sprintf("#%d", ms)
					}
					records = append(records, abi.Record{Time: ms, Value: []byte(v)})
				}
				splits = append(splits, records)
			}
			w.Sources["in"] = splits
			w.RunToEnd()
			var got []string
			for _, l := range w.Envelopes("out/") {
				v, at, _ := strings.Cut(string(*l.Value), " at watermark ")
				var due, wm int64
				if _, err := fmt.Sscan(strings.TrimPrefix(v, "fired "), &due); err != nil {
					t.Fatalf("%q", *l.Value)
				}
				if _, err := fmt.Sscan(at, &wm); err != nil || wm < due || wm%10 == 9 {
					t.Fatalf("%q", *l.Value)
				}
				got = append(got, fmt.Sprintf("%s %s", *l.Key, v))
			}
			slices.Sort(got)
			if want == nil {
				want = got
			}
			if len(got) != 1200 || !slices.Equal(got, want) {
				t.Fatalf("parallelism %d, batch %d: %d timers fired, want %d", p, batch, len(got), len(want))
			}
		}
	}
}
