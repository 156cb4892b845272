package spec

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/operators"
)

const (
	bounded  = "{id: in, source: file, path: in.txt, format: lines}"
	followed = "{id: in, source: file, path: in.txt, format: lines, follow: true}"
)

func modePipeline(settings string, sources ...string) string {
	var ids []string
	text := "name: m\n" + settings + "\noperators:\n"
	for i, s := range sources {
		id := fmt.Sprint("in", i)
		text += "  - " + strings.Replace(s, "id: in,", "id: "+id+",", 1) + "\n"
		ids = append(ids, id)
	}
	return text + "  - {id: all, union: [" + strings.Join(ids, ", ") + "]}\n  - {id: out, sink: blackhole}\n"
}

func TestModeFollowsFromTheInput(t *testing.T) {
	for _, c := range []struct {
		settings string
		sources  []string
		mode     string
		why      string
		interval time.Duration
		batch    int
	}{
		{"", []string{bounded}, "batch", "all input ends", time.Minute, 1024},
		{"mode: auto", []string{bounded, bounded}, "batch", "all input ends", time.Minute, 1024},
		{"", []string{bounded, followed}, "stream", `source "in1" is followed`, time.Second, 256},
		{"", []string{"{id: in, source: tcp, address: 'localhost:9'}"}, "stream", `source "in0" is a socket`, time.Second, 256},
		{"", []string{"{id: in, source: stdin}"}, "stream", `source "in0" can't be read again`, time.Second, 256},
		{"", []string{"{id: in, source: generator, kind: payments}"}, "stream", `source "in0" makes records without end`, time.Second, 256},
		{"", []string{"{id: in, source: generator, kind: payments, records: 5, rate: 10}"}, "stream", `source "in0" goes by the clock`, time.Second, 256},
		{"", []string{"{id: in, source: generator, kind: payments, records: 5}"}, "batch", "all input ends", time.Minute, 1024},
		{"mode: stream", []string{bounded}, "stream", "the file says so", time.Second, 256},
		{"mode: batch", []string{bounded}, "batch", "the file says so", 0, 1024},
		{"mode: batch", []string{"{id: in, source: stdin}"}, "batch", "the file says so", 0, 1024},
		{"mode: batch\ncheckpoint: {retain: 1}\nbatch: 64", []string{bounded}, "batch", "the file says so", 0, 64},
		{"mode: batch\ncheckpoint: {interval: 5s}", []string{bounded}, "batch", "the file says so", 5 * time.Second, 1024},
		{"checkpoint: {interval: 0s}\nbatch: 1", []string{bounded}, "batch", "all input ends", 0, 1},
	} {
		g, err := Parse("m.yaml", []byte(modePipeline(c.settings, c.sources...)), Options{})
		if err != nil {
			t.Errorf("%q %q: %v", c.settings, c.sources, err)
			continue
		}
		if g.Mode != c.mode || g.ModeWhy != c.why || g.Checkpoint.Interval != c.interval || g.BatchMax != c.batch {
			t.Errorf("%q %q: %s (%s), interval %v, batches of %d", c.settings, c.sources, g.Mode, g.ModeWhy, g.Checkpoint.Interval, g.BatchMax)
		}
	}
}

func TestBatchNeedsInputThatEnds(t *testing.T) {
	text := modePipeline("mode: "+operators.ModeBatch, bounded, followed, "{id: in, source: tcp, address: 'localhost:9'}", "{id: in, source: generator, kind: payments}")
	_, err := Parse("m.yaml", []byte(text), Options{})
	ps, ok := err.(Problems)
	if !ok || len(ps) != 4 { // the fourth: the inputs have different fields
		t.Fatalf("problems %v", err)
	}
	for i, want := range []string{`source "in1" is followed`, `source "in2" is a socket`, `source "in3" makes records without end`} {
		if !strings.Contains(ps[i].Message, want) || !strings.Contains(ps[i].Message, "line 2") || ps[i].Line != 5+i {
			t.Errorf("%+v, want %s", ps[i], want)
		}
	}
	if _, err := Parse("m.yaml", []byte(modePipeline("mode: bach", bounded)), Options{}); err == nil || !strings.Contains(err.Error(), "batch") {
		t.Errorf("%v, want the nearest mode", err)
	}
}
