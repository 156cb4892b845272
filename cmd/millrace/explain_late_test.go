package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const hourMS = 3_600_000

// lateFlights counts over the sample, with nothing of the product: flights out of order, more than delay
// behind the greatest date so far, those of them whose UTC day had ended by then, and the furthest.
func lateFlights(t *testing.T, file string, delay int64) (records, behind, late, dropped, furthest int64) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../../examples/flights/data", file))
	if err != nil {
		t.Fatal(err)
	}
	most := int64(0)
	for in := json.NewDecoder(bytes.NewReader(b)); in.More(); records++ {
		var f struct{ Date int64 }
		if err := in.Decode(&f); err != nil {
			t.Fatal(err)
		}
		lag := most - f.Date
		if most = max(most, f.Date); lag <= 0 {
			continue
		}
		behind++
		furthest = max(furthest, lag)
		if lag > delay {
			late++
			if dayEnd := (f.Date/(24*hourMS) + 1) * 24 * hourMS; dayEnd <= most-delay {
				dropped++
			}
		}
	}
	return records, behind, late, dropped, furthest
}

const latePipeline = `name: late
operators:
  - id: flights
    source: file
    path: DATA
    format: ndjson
    fields: {origin: string, date: timestamp}
    time: {field: date, out_of_orderness: DELAYh}
  - id: by-origin
    key_by: origin
  - id: daily
    window: {type: tumbling, size: 24h}
    aggregates: {flights: count}
  - id: out
    sink: file
    path: out/
`

func TestExplainSaysWhatWouldBeLate(t *testing.T) {
	for _, file := range []string{"flights.ndjson", "flights-by-report.ndjson"} {
		for _, hours := range []int64{0, 1, 16} {
			t.Run(fmt.Sprint(file, " ", hours, "h"), func(t *testing.T) {
				data, err := filepath.Abs("../../examples/flights/data/" + file)
				if err != nil {
					t.Fatal(err)
				}
				dir := t.TempDir()
				write(t, dir, "p.yaml", strings.NewReplacer("DATA", data, "DELAY", fmt.Sprint(hours)).Replace(latePipeline))
				var p plan
				e := envelopeOf(t, do(t, dir, "explain", "p.yaml", "--late", "--json").out)
				if err := json.Unmarshal(e.Data, &p); err != nil || len(p.Input) != 1 || len(p.Input[0].Splits) != 1 || len(p.Input[0].Windows) != 1 {
					t.Fatalf("%s: %v", e.Data, err)
				}
				in := p.Input[0]
				records, behind, late, dropped, furthest := lateFlights(t, file, hours*hourMS)
				if in.Records != records || in.Splits[0].Behind != behind || in.Late != late || in.Windows[0].Late != dropped || in.Furthest != furthest || in.Timeless != 0 {
					t.Errorf("explain has %+v, counted: %d records, %d behind, %d late, %d dropped, furthest %d", in, records, behind, late, dropped, furthest)
				}
				if strings.Contains(file, "report") && hours == 1 && (late != 599 || dropped == 0 || furthest != 15*hourMS+28*60_000) {
					t.Errorf("%d late, %d dropped, furthest %d: not the sample", late, dropped, furthest)
				}
				for _, left := range []string{"out", ".millrace"} {
					if _, err := os.Stat(filepath.Join(dir, left)); err == nil {
						t.Errorf("explain left %s", left)
					}
				}
				if got := lateInRun(t, dir); got != dropped {
					t.Errorf("%d were late in the run, %d were foretold", got, dropped)
				}
			})
		}
	}
}

// lateInRun runs the pipeline and returns how many records its window had for late.
func lateInRun(t *testing.T, dir string) int64 {
	t.Helper()
	var res struct {
		Stats struct {
			Operators []struct {
				ID       string
				Counters map[string]int64
			}
		}
	}
	e := envelopeOf(t, do(t, dir, "run", "p.yaml", "--json").out)
	if err := json.Unmarshal(e.Data, &res); err != nil {
		t.Fatal(err)
	}
	for _, o := range res.Stats.Operators {
		if o.ID == "daily" {
			return o.Counters["late"]
		}
	}
	t.Fatalf("no operator daily: %s", e.Data)
	return 0
}

func TestExplainLateInWords(t *testing.T) {
	dir := project(t, `name: late
operators:
  - id: a
    source: file
    path: [a.ndjson, b.ndjson]
    format: ndjson
    fields: {at: timestamp, k: string}
    time: {field: at}
  - id: per-second
    window: {type: tumbling, size: 1s}
    aggregates: {n: count}
    lateness: 2s
  - id: late
    sink: file
    path: late/
    from: per-second.late
  - id: out
    sink: blackhole
    from: per-second
`)
	write(t, dir, "a.ndjson", "{\"at\":1000,\"k\":\"x\"}\n{\"at\":9000,\"k\":\"x\"}\n{\"at\":7500,\"k\":\"x\"}\n{\"at\":1500,\"k\":\"x\"}\nrubbish\n")
	write(t, dir, "b.ndjson", "{\"at\":100,\"k\":\"x\"}\n{\"k\":\"x\"}\n")
	do(t, dir, "explain", "--late", "p.yaml").want(t, 0,
		"a: 5 records, besides 1 that can't be read, 1 without time, at most 2 late with out_of_orderness 0s; out_of_orderness 7.5s would do",
		"a.ndjson: 4 records, 2 out of order, 2 late, the furthest 7.5s behind", "b.ndjson: 1 records, 0 out of order",
		"per-second: with lateness 2s, at most 1 of them would be sent to its output late")
}

func TestExplainLateRefusesWhatCanNotBeReadTwice(t *testing.T) {
	for text, want := range map[string]string{
		"{id: in, source: stdin}":                             "what is taken from a stdin is gone",
		"{id: in, source: tcp, address: 'localhost:9'}":       "what is taken from a tcp is gone",
		"{id: in, source: generator, kind: payments}":         "it has no end",
		"{id: in, source: file, path: no.txt, format: lines}": "no.txt",
	} {
		dir := t.TempDir()
		write(t, dir, "p.yaml", "name: n\noperators:\n  - "+text+"\n  - {id: out, sink: blackhole}\n")
		do(t, dir, "explain", "p.yaml").want(t, 0)
		do(t, dir, "explain", "p.yaml", "--late").want(t, 2, want)
	}
}

// The whole three million flights, where MILLRACE_FLIGHTS says that they are: the counts are those that their
// source's description has, made by other means.
func TestExplainLateOverAllFlights(t *testing.T) {
	folder := os.Getenv("MILLRACE_FLIGHTS")
	if folder == "" {
		t.Log("MILLRACE_FLIGHTS is not set: only the sample was read")
		return
	}
	for file, want := range map[string][]string{
		"flights-3m.parquet": {"3,000,000 records", "0 late with out_of_orderness 1h", "all are in order"},
		"flights-by-report.parquet": {"3,000,000 records", "393,205 late with out_of_orderness 1h", "out_of_orderness 28h would do (the furthest is 27h43m0s behind)",
			"2,951,853 out of order"},
	} {
		abs, err := filepath.Abs(filepath.Join(folder, file))
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		write(t, dir, "p.yaml", strings.NewReplacer("DATA", abs, "DELAY", "1", "ndjson", "parquet").Replace(latePipeline))
		do(t, dir, "explain", "p.yaml", "--late").want(t, 0, want...)
	}
}
