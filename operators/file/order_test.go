package file

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint/crashpoint"
	"github.com/millrace-io/millrace/operators/operatortest"
)

// logDisk writes down what is done to the disk.
type logDisk struct {
	osDisk
	root string
	log  func(string)
}

type logFile struct {
	writeFile
	name string
	log  func(string)
}

func (d logDisk) short(path string) string { return strings.TrimPrefix(path, d.root+"/") }

func (d logDisk) openAt(path string, size int64) (writeFile, error) {
	d.log(fmt.Sprintf("open %s at %d", d.short(path), size))
	f, err := d.osDisk.openAt(path, size)
	return logFile{f, d.short(path), d.log}, err
}

func (d logDisk) rename(from, to string) error {
	d.log("rename " + d.short(from) + " " + d.short(to))
	return d.osDisk.rename(from, to)
}

func (d logDisk) syncDir(path string) error {
	d.log("sync folder " + d.short(path))
	return d.osDisk.syncDir(path)
}

func (f logFile) Write(b []byte) (int, error) {
	f.log(fmt.Sprintf("write %d bytes", len(b)))
	return f.writeFile.Write(b)
}

func (f logFile) Sync() error {
	f.log("sync " + f.name)
	return f.writeFile.Sync()
}

// TestOrderOnDisk pins what happens in which order: everything of a checkpoint is durable before its
// snapshot is handed over, renames come after Complete, and the crash points lie between.
func TestOrderOnDisk(t *testing.T) {
	for path, want := range map[string][]string{
		"out/": {
			"open stage/part-0000-00000000.ndjson at 0", "write 3 bytes", crashpoint.MidDelta, "write 3 bytes",
			"open stage/part-0000-00000001.ndjson at 0", "write 1 bytes", crashpoint.MidDelta, "write 2 bytes",
			crashpoint.AfterFlush, crashpoint.AfterWrite, "sync stage/part-0000-00000000.ndjson", crashpoint.AfterWrite,
			"sync stage/part-0000-00000001.ndjson", "sync folder stage", crashpoint.AfterSync,
			"snapshot",
			"rename stage/part-0000-00000000.ndjson out/part-0000-00000000.ndjson", crashpoint.BetweenRenames,
			"rename stage/part-0000-00000001.ndjson out/part-0000-00000001.ndjson", crashpoint.AfterRename, "sync folder out",
		},
		"out/all.ndjson": {
			"open stage/all.ndjson.staged at 0", "write 3 bytes", crashpoint.MidDelta, "write 3 bytes",
			"write 1 bytes", crashpoint.MidDelta, "write 2 bytes",
			crashpoint.AfterFlush, crashpoint.AfterWrite, "sync stage/all.ndjson.staged", "sync folder stage", crashpoint.AfterSync,
			"snapshot",
			"rename stage/all.ndjson.staged out/all.ndjson", crashpoint.AfterRename, "sync folder out",
		},
	} {
		dir := t.TempDir()
		var got []string
		log := func(s string) { got = append(got, s) } // one goroutine at a time: each step waits for the one before
		n := sinkNode(dir, path)
		n.Sink.PartBytes = 5
		s := NewSink(n)
		s.disk = logDisk{root: dir, log: log}
		ctx := operatortest.Context(t, "out", dir)
		ctx.Crash = log
		h := operatortest.New(t, s, ctx)
		h.Push(line("12345"))
		if err := s.flush(); err != nil {
			t.Fatal(err)
		}
		h.Push(line("67"))
		h.Watermark(abi.MaxWatermark)
		h.Barrier(1)
		log("snapshot")
		h.Complete(1)
		h.Close()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\ngot  %q\nwant %q", path, got, want)
		}
	}
}

func TestSinkAllocatesNothing(t *testing.T) {
	dir := t.TempDir()
	s := NewSink(sinkNode(dir, "out/"))
	if err := s.Open(operatortest.Context(t, "out", filepath.Join(dir, "x"))); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var b abi.Batch
	for range 256 {
		r := line(`{"key":"k0000001","count":17}`)
		b.Append(&r)
	}
	if n := testing.AllocsPerRun(100, func() {
		if err := s.Batch(0, &b, nil); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations per batch", n)
	}
}

func TestSourceAllocatesNothing(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a", strings.Repeat("{\"k\":\"a\",\"t\":12}\n", 100_000))
	n := sourceNode(dir, "a")
	n.Source.Time = flightsNode(dir, "a.ndjson").Source.Time
	n.Source.Time.Field = "t"
	n.Source.Key = keyOf("k")
	s := NewSource(n)
	if err := s.Open(operatortest.Context(t, "in", dir)); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var b abi.Batch
	if n := testing.AllocsPerRun(100, func() {
		b.Reset()
		if _, err := s.Poll(&b, 256); err != nil || b.Len() != 256 {
			t.Fatal(err, b.Len())
		}
	}); n > 0 {
		t.Errorf("%v allocations per batch", n)
	}
}
