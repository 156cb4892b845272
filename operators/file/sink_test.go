package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/operatortest"
)

func sinkNode(dir, path string) *operators.Node {
	return &operators.Node{ID: "out", Kind: operators.NodeSink, Parallelism: 1, Sink: &operators.SinkNode{
		Connector: "file", Dir: dir, Path: path, Single: !strings.HasSuffix(path, "/"), Format: "ndjson"}}
}

func line(s string) abi.Record { return abi.Record{Time: abi.NoTime, Value: []byte(s)} }

// published is the content of the sink's folder, part after part.
func published(t *testing.T, folder string) (text string, names []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		b, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		text += string(b)
		names = append(names, e.Name())
	}
	return text, names
}

func openSink(t *testing.T, n *operators.Node, dir string, restored ...checkpoint.OperatorSnapshot) *operatortest.Harness {
	t.Helper()
	ctx := operatortest.Context(t, "out", dir)
	ctx.Restored = restored
	return operatortest.New(t, NewSink(n), ctx)
}

func TestPartsArePublishedByCheckpoint(t *testing.T) {
	dir := t.TempDir()
	h := openSink(t, sinkNode(dir, "out/"), dir)
	h.Push(line("1"), line("2"))
	s1 := h.Barrier(1)
	h.Push(line("3"))
	if text, _ := published(t, filepath.Join(dir, "out")); text != "" {
		t.Fatalf("visible before the checkpoint is complete: %q", text)
	}
	if len(s1.Staged) != 1 || s1.Staged[0].Size != 4 || s1.Staged[0].Records != 2 || len(s1.Staged[0].SHA256) != 64 {
		t.Fatalf("snapshot %+v", s1)
	}
	h.Complete(1)
	h.Complete(1)
	if text, names := published(t, filepath.Join(dir, "out")); text != "1\n2\n" || !slices.Equal(names, []string{"part-0000-00000000.ndjson"}) {
		t.Fatalf("published %q in %v", text, names)
	}
	h.Barrier(2)
	h.Barrier(3) // nothing new: no empty part
	h.Complete(3)
	if text, names := published(t, filepath.Join(dir, "out")); text != "1\n2\n3\n" || len(names) != 2 {
		t.Fatalf("published %q in %v", text, names)
	}
	h.Close()
}

// TestPartsAfterAnyCrash stops after every step of a run and restores from the last complete checkpoint:
// what is published at the end is what an undisturbed run gives.
func TestPartsAfterAnyCrash(t *testing.T) {
	const records, perCheckpoint = 18, 6
	var want strings.Builder
	for i := range records {
		fmt.Fprintln(&want, i)
	}
	for _, path := range []string{"out/", "out/all.ndjson"} {
		for crash := 0; crash < 30; crash++ {
			dir := t.TempDir()
			n := sinkNode(dir, path)
			n.Sink.PartBytes = 5
			var last []checkpoint.OperatorSnapshot // of the last complete checkpoint
			next, done := 0, 0
			step := func() bool { done++; return done == crash }
			run := func() (crashed bool) {
				h := openSink(t, n, dir, last...)
				defer h.Close()
				id := checkpoint.ID(next + 1)
				for next < records {
					for range perCheckpoint {
						h.Push(line(fmt.Sprint(next)))
						next++
						if step() {
							return true
						}
					}
					if next == records {
						h.Watermark(abi.MaxWatermark)
					}
					id++
					s := h.Barrier(id)
					if step() {
						return true
					}
					last = []checkpoint.OperatorSnapshot{s}
					if step() {
						return true
					}
					h.Complete(id)
					if step() {
						return true
					}
				}
				return false
			}
			for run() {
				next = 0
				if len(last) > 0 {
					next = int(last[0].Numbers["records"])
				}
			}
			if len(last) > 0 { // a finished job started again only repeats its renames
				openSink(t, n, dir, last...).Close()
			}
			if text, names := published(t, filepath.Join(dir, "out")); text != want.String() {
				t.Fatalf("%s, crash at step %d: published %q in %v", path, crash, text, names)
			}
			if left, _ := os.ReadDir(filepath.Join(dir, "stage")); len(left) != 0 {
				t.Errorf("%s, crash at step %d: %d files left staged", path, crash, len(left))
			}
		}
	}
}

// TestRescaledSink: restored by another number of tasks, every staged part is published once and no
// new part takes an old name.
func TestRescaledSink(t *testing.T) {
	dir := t.TempDir()
	n := sinkNode(dir, "out/")
	snaps := make([]checkpoint.OperatorSnapshot, 3)
	open := func(task, of int, restored []checkpoint.OperatorSnapshot) *operatortest.Harness {
		ctx := operatortest.Context(t, "out", dir)
		ctx.Task, ctx.Parallelism, ctx.Restored = task, of, restored
		return operatortest.New(t, NewSink(n), ctx)
	}
	for task := range 3 {
		h := open(task, 3, nil)
		h.Push(line(fmt.Sprintf("old %d", task)))
		snaps[task] = h.Barrier(1)
		h.Push(line("after the checkpoint"))
		h.Barrier(2)
		h.Close()
	}
	for task := range 2 {
		h := open(task, 2, snaps)
		h.Push(line(fmt.Sprintf("new %d", task)))
		h.Barrier(3)
		h.Complete(3)
		h.Close()
	}
	text, names := published(t, filepath.Join(dir, "out"))
	lines := strings.Fields(strings.ReplaceAll(text, " ", "_"))
	slices.Sort(lines)
	if !slices.Equal(lines, []string{"new_0", "new_1", "old_0", "old_1", "old_2"}) || len(names) != 5 {
		t.Errorf("published %v in %v", lines, names)
	}
}

func TestForeignOutputIsRefused(t *testing.T) {
	for _, c := range []struct{ path, make string }{
		{"out/", "out/part-0000-00000003.ndjson"},
		{"all.ndjson", "all.ndjson"},
		{"out/", "out"},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, c.make)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("theirs"), 0o644); err != nil {
			t.Fatal(err)
		}
		err := NewSink(sinkNode(dir, c.path)).Open(operatortest.Context(t, "out", dir))
		if !errors.Is(err, operators.ErrNotOurs) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s with %s there: %v", c.path, c.make, err)
		}
		if b, _ := os.ReadFile(file); string(b) != "theirs" {
			t.Errorf("%s was changed", c.make)
		}
	}
}

// TestLinkIsRefused: a symbolic link in the place of the output is not written through.
func TestLinkIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/dev/null", filepath.Join(dir, "all.ndjson")); err != nil {
		t.Skip(err)
	}
	err := NewSink(sinkNode(dir, "all.ndjson")).Open(operatortest.Context(t, "out", dir))
	if !errors.Is(err, operators.ErrNotOurs) || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("got %v", err)
	}
}

func TestLostStagedFileIsNamed(t *testing.T) {
	for _, path := range []string{"out/", "out/all.ndjson"} {
		dir := t.TempDir()
		h := openSink(t, sinkNode(dir, path), dir)
		h.Push(line("1"))
		s := h.Barrier(1)
		h.Close()
		left, err := filepath.Glob(filepath.Join(dir, "stage", "*"))
		if err != nil || len(left) != 1 {
			t.Fatalf("staged: %v %v", left, err)
		}
		for _, harm := range []func() error{func() error { return os.Truncate(left[0], 1) }, func() error { return os.Remove(left[0]) }} {
			if err := harm(); err != nil {
				t.Fatal(err)
			}
			ctx := operatortest.Context(t, "out", dir)
			ctx.Restored = []checkpoint.OperatorSnapshot{s}
			err = NewSink(sinkNode(dir, path)).Open(ctx)
			if !errors.Is(err, operators.ErrOutputLost) || !strings.Contains(err.Error(), filepath.Base(left[0])) {
				t.Errorf("%s: got %v", path, err)
			}
		}
	}
}

// fullDisk has room for some bytes.
type fullDisk struct {
	osDisk
	room int
}

type fullFile struct {
	writeFile
	d *fullDisk
}

func (d *fullDisk) openAt(path string, size int64) (writeFile, error) {
	f, err := d.osDisk.openAt(path, size)
	return fullFile{f, d}, err
}

func (f fullFile) Write(b []byte) (int, error) {
	if f.d.room -= len(b); f.d.room < 0 {
		return 0, &os.PathError{Op: "write", Path: "part", Err: syscall.ENOSPC}
	}
	return f.writeFile.Write(b)
}

// TestFullDisk: no room is a named error, what was published before stays as it is, and with room
// again a restart goes on (C020).
func TestFullDisk(t *testing.T) {
	for _, path := range []string{"out/", "out/all.ndjson"} {
		dir := t.TempDir()
		n := sinkNode(dir, path)
		s := NewSink(n)
		s.disk = &fullDisk{room: 8}
		h := operatortest.New(t, s, operatortest.Context(t, "out", dir))
		h.Push(line("1234567"))
		snap := h.Barrier(1)
		h.Complete(1)
		h.Push(line("lost for now"))
		if _, err := h.TryBarrier(2); !errors.Is(err, operators.ErrStorageFull) || !strings.Contains(err.Error(), `sink "out"`) {
			t.Errorf("%s: got %v", path, err)
		}
		h.Op.Close()
		h = openSink(t, n, dir, snap)
		h.Push(line("again"))
		h.Watermark(abi.MaxWatermark)
		h.Barrier(3)
		h.Complete(3)
		h.Close()
		if text, _ := published(t, filepath.Join(dir, "out")); text != "1234567\nagain\n" {
			t.Errorf("%s: published %q", path, text)
		}
	}
}

// TestStoppedSingleFile: a barrier that is not behind the end of input publishes nothing, also when the
// job stops there.
func TestStoppedSingleFile(t *testing.T) {
	dir := t.TempDir()
	h := openSink(t, sinkNode(dir, "all.ndjson"), dir)
	h.Push(line("1"))
	s := h.Barrier(1)
	h.Complete(1)
	h.Close()
	if _, err := os.Stat(filepath.Join(dir, "all.ndjson")); err == nil {
		t.Fatal("published before the end of input")
	}
	h = openSink(t, sinkNode(dir, "all.ndjson"), dir, s)
	h.Push(line("2"))
	h.Watermark(abi.MaxWatermark)
	h.Barrier(2)
	h.Complete(2)
	h.Close()
	if b, _ := os.ReadFile(filepath.Join(dir, "all.ndjson")); string(b) != "1\n2\n" {
		t.Errorf("published %q", b)
	}
}

func TestPartBytes(t *testing.T) {
	dir := t.TempDir()
	n := sinkNode(dir, "out/")
	n.Sink.PartBytes = 3 * flushBytes
	h := openSink(t, n, dir)
	long := line(strings.Repeat("x", 1<<10))
	for range 512 {
		h.Push(long)
	}
	s := h.Barrier(1)
	h.Complete(1)
	h.Close()
	if len(s.Staged) != 3 {
		t.Fatalf("%d parts", len(s.Staged))
	}
	for i, f := range s.Staged {
		if f.Size > n.Sink.PartBytes+2<<10 || f.Final != filepath.Join(dir, "out", partName(0, int64(i))) {
			t.Errorf("part %+v", f)
		}
	}
	if text, _ := published(t, filepath.Join(dir, "out")); len(text) != 512*1025 {
		t.Errorf("%d bytes", len(text))
	}
}
