package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/millrace-io/millrace/host/control"
)

// row finds a snapshot in a list by id or tag.
func row(t *testing.T, dir, word string) snapshotRow {
	t.Helper()
	var rows []snapshotRow
	r := do(t, dir, "snapshot", "list", "p.yaml", "--json")
	r.want(t, 0)
	if err := json.Unmarshal(envelopeOf(t, r.out).Data, &rows); err != nil {
		t.Fatal(err)
	}
	for _, x := range rows {
		if fmt.Sprint(x.ID) == word || slices.Contains(x.Tags, word) || word == "latest" && x.Next {
			return x
		}
	}
	t.Fatalf("no snapshot %s in %s", word, r.out)
	return snapshotRow{}
}

// attended is background for a folder that has output already: it waits until the run can be talked to.
func attended(t *testing.T, dir string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	c, stderr := background(t, dir)
	waitFor(t, "an answer", func() bool {
		r := do(t, dir, "status", "p.yaml", "--json")
		return r.code == 0 && strings.Contains(r.out, fmt.Sprintf(`"pid":%d,`, c.Process.Pid))
	})
	return c, stderr
}

// Everything that can be asked of a running pipeline from a second terminal, none of which shows in its output.
func TestSecondTerminal(t *testing.T) {
	dir := project(t, strings.Replace(slowPipeline, "records: 6000\n    rate: 4000", "records: 60000\n    rate: 6000", 1))
	fast := project(t, strings.Replace(slowPipeline, "records: 6000\n    rate: 4000", "records: 60000", 1))
	do(t, fast, "run", "p.yaml").want(t, 0)
	c, stderr := background(t, dir)
	do(t, dir, "status", "p.yaml").want(t, 0, "slow, code", fmt.Sprint("process ", c.Process.Pid), "records", "checkpoint")
	var in control.Info
	if err := json.Unmarshal(envelopeOf(t, do(t, dir, "status", "--json").out).Data, &in); err != nil || in.PID != c.Process.Pid || in.Stats.Read == 0 {
		t.Errorf("%+v, %v", in, err)
	}
	do(t, dir, "snapshot", "create", "p.yaml", "--tag", "first", "--note", "why").want(t, 0, "savepoint", "first")
	if r := row(t, dir, "first"); r.Kind != "savepoint" || !r.Kept || r.Note != "why" || r.Parent == 0 || len(r.Code) != 64 {
		t.Errorf("%+v", r)
	}
	do(t, dir, "snapshot", "create", "p.yaml", "--tag", "first").want(t, 2, "taken")
	do(t, dir, "snapshot", "create", "p.yaml", "--tag", "17").want(t, 2, "not a tag")
	do(t, dir, "snapshot", "tag", "p.yaml", "first", "also").want(t, 0, "is also")
	do(t, dir, "snapshot", "show", "p.yaml", "also").want(t, 0, "savepoint of slow", "first", "value total", "pipeline file", "wordcount.wasm")
	do(t, dir, "snapshot", "show", "p.yaml", row(t, dir, "first").SHA256[:12]).want(t, 0, "savepoint of slow")
	do(t, dir, "snapshot", "untag", "p.yaml", "also").want(t, 0, "no longer")
	do(t, dir, "snapshot", "create", "p.yaml", "--tag", "second").want(t, 0)
	do(t, dir, "snapshot", "diff", "p.yaml", "first", "second").want(t, 0, "state total", "records")
	do(t, dir, "snapshot", "verify", "p.yaml").want(t, 0, "as they were written")
	do(t, dir, "snapshot", "export", "p.yaml", "first", "first.snap").want(t, 0, "first.snap")
	do(t, dir, "snapshot", "export", "p.yaml", "first", "first.snap").want(t, 2, "exists")
	do(t, dir, "snapshot", "import", "p.yaml", "first.snap").want(t, 0) // it is there
	do(t, dir, "snapshot", "restore", "p.yaml", "first").want(t, 3, "running")
	do(t, dir, "snapshot", "delete", "p.yaml", "first").want(t, 2, "tagged")
	do(t, dir, "snapshot", "prune", "p.yaml", "--keep-savepoints", "0", "--dry-run").want(t, 0, "nothing would be removed")
	do(t, dir, "snapshot", "untag", "p.yaml", "first").want(t, 0)
	do(t, dir, "snapshot", "prune", "p.yaml", "--keep-savepoints", "0").want(t, 0, "removed")
	do(t, dir, "run", "p.yaml").want(t, 3, "locked by process")
	r := do(t, dir, "stop", "p.yaml", "--savepoint", "end", "--note", "over")
	r.want(t, 0, "stopped with savepoint")
	if err := c.Wait(); err != nil || !strings.Contains(stderr.String(), "stopped: ") {
		t.Errorf("the run ended with %v: %s", err, stderr)
	}
	if end := row(t, dir, "end"); end.Kind != "savepoint" || !end.Next || end.Note != "over" || end.Finished {
		t.Errorf("%+v", end)
	}
	do(t, dir, "status", "p.yaml").want(t, 1, "not running")
	do(t, dir, "stop", "p.yaml").want(t, 1, "not running")
	do(t, dir, "run", "p.yaml").want(t, 0, "going on from checkpoint", "complete")
	expect(t, dir, published(t, fast))
}

func TestStopFromSecondTerminal(t *testing.T) {
	want := slowWant(t)
	dir := project(t, slowPipeline)
	for _, args := range [][]string{{"stop", "p.yaml"}, {"stop", "p.yaml", "--now"}} {
		c, stderr := attended(t, dir)
		do(t, dir, args...).want(t, 0, "stopped")
		err := c.Wait()
		if now := len(args) == 3; (err != nil) != now || now && (c.ProcessState.ExitCode() != 1 || !strings.Contains(stderr.String(), "at once by another process")) {
			t.Errorf("%v: %v, %s", args, err, stderr)
		}
	}
	do(t, dir, "stop", "p.yaml", "--savepoint", "x", "--now").want(t, 2, "exclude each other")
	do(t, dir, "run", "p.yaml").want(t, 0, "complete")
	expect(t, dir, want)
}

// kill -9 leaves the socket, which says so, and which the next run replaces.
func TestStaleSocket(t *testing.T) {
	want := slowWant(t)
	dir := project(t, slowPipeline)
	c, _ := background(t, dir)
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	if _, err := os.Lstat(control.Path(filepath.Join(dir, ".millrace", "slow"))); err != nil {
		t.Errorf("no socket is left: %v", err)
	}
	do(t, dir, "status", "p.yaml").want(t, 1, "left from a process that died")
	do(t, dir, "snapshot", "create", "p.yaml", "--tag", "rest").want(t, 0, "rest") // of what is there
	c, _ = attended(t, dir)
	do(t, dir, "status", "p.yaml").want(t, 0, fmt.Sprint("process ", c.Process.Pid))
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	expect(t, dir, want)
}

// Many verbs at once are all served, and the run goes on.
func TestVerbsAtOnce(t *testing.T) {
	want := slowWant(t)
	dir := project(t, slowPipeline)
	c, _ := background(t, dir)
	var all sync.WaitGroup
	got := make([]ran, 6)
	for i := range got {
		args := []string{"snapshot", "create", "p.yaml", "--tag", fmt.Sprint("tag-", i)}
		if i == 5 {
			args = []string{"snapshot", "prune", "p.yaml", "--keep", "1"}
		}
		all.Go(func() { got[i] = do(t, dir, args...) })
	}
	all.Wait()
	for i, r := range got {
		r.want(t, 0)
		if i < 5 && row(t, dir, fmt.Sprint("tag-", i)).Kind != "savepoint" {
			t.Errorf("tag-%d is no savepoint", i)
		}
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	expect(t, dir, want)
	do(t, dir, "snapshot", "verify", "p.yaml").want(t, 0)
}

// A pipeline that does not run: a savepoint of where it stands, and back to it with what came after withdrawn.
func TestRestoreOfStoppedPipeline(t *testing.T) {
	want := slowWant(t)
	dir := stopped(t, slowPipeline)
	do(t, dir, "snapshot", "create", "p.yaml", "--tag", "here").want(t, 0, "0 of them new")
	here := row(t, dir, "here")
	if here.Kind != "savepoint" || !here.Next || here.Parent == 0 {
		t.Errorf("%+v", here)
	}
	c, _ := attended(t, dir)
	do(t, dir, "snapshot", "create", "p.yaml", "--tag", "later").want(t, 0)
	lines := len(published(t, dir))
	waitFor(t, "more output", func() bool { return len(published(t, dir)) > lines })
	_ = c.Process.Signal(os.Interrupt)
	_ = c.Wait()
	r := do(t, dir, "snapshot", "restore", "p.yaml", "here")
	r.want(t, 0, fmt.Sprintf("starts from snapshot %d", here.ID), "is dropped by it", "stays, beside the line", "is taken back")
	do(t, dir, "snapshot", "prune", "p.yaml", "--keep", "1").want(t, 2, "restore latest")
	do(t, dir, "snapshot", "restore", "p.yaml", "latest").want(t, 0)
	if row(t, dir, "here").Next {
		t.Error("the decision was not taken back")
	}
	do(t, dir, "snapshot", "restore", "p.yaml", "here").want(t, 0)
	do(t, dir, "run", "p.yaml").want(t, 0, fmt.Sprintf("going on from checkpoint %d", here.ID), "is withdrawn", "complete")
	expect(t, dir, want)
	if later := row(t, dir, "later"); !later.Withdrawn || later.Next {
		t.Errorf("%+v", later)
	}
	do(t, dir, "run", "p.yaml").want(t, 0, "already complete") // once
}

// A snapshot in a file goes on elsewhere as it would have here.
func TestExportImport(t *testing.T) {
	dir := stopped(t, slowPipeline)
	do(t, dir, "snapshot", "export", "p.yaml", "latest", "moved.snap").want(t, 0)
	had := published(t, dir)
	do(t, dir, "run", "p.yaml").want(t, 0, "complete")
	there := project(t, slowPipeline)
	if err := os.CopyFS(filepath.Join(there, "out"), os.DirFS(filepath.Join(dir, "out"))); err != nil {
		t.Fatal(err)
	}
	for _, p := range published(t, there) {
		if !slices.Contains(had, p) { // what came after the export is not there
			if err := os.RemoveAll(filepath.Join(there, "out")); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	file := filepath.Join(dir, "moved.snap")
	do(t, there, "snapshot", "import", "p.yaml", file).want(t, 0, "of slow is imported")
	do(t, there, "snapshot", "verify", "p.yaml").want(t, 0)
	do(t, there, "snapshot", "fork", "p.yaml", "latest", "--to", "elsewhere", "--name", "slow").want(t, 0, "job slow starts")
	do(t, there, "run", "p.yaml", "--state-dir", "elsewhere").want(t, 0, "going on from checkpoint", "complete")
	all := append(published(t, there), had...)
	slices.Sort(all)
	if want := published(t, dir); !slices.Equal(all, want) {
		t.Errorf("%d lines here and there, expected %d", len(all), len(want))
	}
}

// A fork of a running job has its state, reads on from there, and both end as each alone.
func TestForkOfRunningJob(t *testing.T) {
	want := slowWant(t)
	dir := project(t, slowPipeline)
	c, _ := background(t, dir)
	do(t, dir, "snapshot", "create", "p.yaml", "--tag", "point").want(t, 0)
	forkText := strings.Replace(strings.Replace(slowPipeline, "name: slow", "name: second", 1), "    rate: 4000\n", "", 1)
	write(t, dir, "same.yaml", forkText)
	write(t, dir, "gone.yaml", strings.Replace(strings.Replace(forkText, "path: out/", "path: forked/", 1), "id: count", "id: tally", 1))
	write(t, dir, "q.yaml", strings.Replace(forkText, "path: out/", "path: forked/", 1))
	do(t, dir, "snapshot", "fork", "p.yaml", "point").want(t, 2, "--to")
	do(t, dir, "snapshot", "fork", "p.yaml", "point", "--to", "same.yaml").want(t, 2, "collide", "operator out writes to")
	do(t, dir, "snapshot", "fork", "p.yaml", "point", "--to", "p.yaml").want(t, 2, "collide", "state folder")
	do(t, dir, "snapshot", "fork", "p.yaml", "point", "--to", "q.yaml", "--name", "third").want(t, 2, "--name is third")
	do(t, dir, "snapshot", "fork", "p.yaml", "point", "--to", "gone.yaml").want(t, 2, "count (", "--drop")
	do(t, dir, "snapshot", "fork", "p.yaml", "point", "--to", "q.yaml").want(t, 0, "job second starts", "run q.yaml")
	do(t, dir, "snapshot", "fork", "p.yaml", "point", "--to", "q.yaml").want(t, 2, "snapshots already")
	do(t, dir, "run", "q.yaml").want(t, 0, "complete")
	forked := linesIn(t, filepath.Join(dir, "forked"))
	do(t, dir, "status", "p.yaml").want(t, 0) // it ran all the time
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	expect(t, dir, want)
	if len(forked) == 0 || len(forked) >= len(want) {
		t.Fatalf("%d lines of the fork, of %d", len(forked), len(want))
	}
	// Counts go on where they were: the fork's lines are the last of all.
	for _, l := range forked {
		if !slices.Contains(want, l) {
			t.Fatalf("the fork counted %s", l)
		}
	}
	before := len(want) - len(forked)
	if n := row(t, dir, "point"); n.ID == 0 {
		t.Error("the snapshot is gone")
	}
	if out := do(t, dir, "snapshot", "show", "p.yaml", "point").out; !strings.Contains(out, thousands(int64(before))+" records") {
		t.Errorf("the fork wrote %d lines, the snapshot is\n%s", len(forked), out)
	}
}

func TestBadInputOfSnapshots(t *testing.T) {
	dir := stopped(t, slowPipeline)
	do(t, dir, "snapshot", "create", "p.yaml", "--tag", "good").want(t, 0)
	do(t, dir, "snapshot", "export", "p.yaml", "good", "good.snap").want(t, 0)
	whole, err := os.ReadFile(filepath.Join(dir, "good.snap"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "cut.snap", string(whole[:len(whole)/2]))
	write(t, dir, "end.snap", string(whole[:len(whole)-1]))
	changed := slices.Clone(whole)
	changed[len(changed)/3] ^= 4
	write(t, dir, "changed.snap", string(changed))
	write(t, dir, "text.snap", "not an archive")
	write(t, dir, "empty.snap", "")
	before := do(t, dir, "snapshot", "list", "p.yaml", "--json").out
	id := uint64(row(t, dir, "good").ID)
	for _, c := range []struct {
		args  string
		texts []string
	}{
		{"snapshot show p.yaml 9999", []string{"no snapshot 9999", "nearest are", fmt.Sprint(id)}},
		{"snapshot show p.yaml gooood", []string{`did you mean "good"`}},
		{"snapshot show p.yaml zzzzzzzz", []string{"its ids are", "good"}},
		{"snapshot show p.yaml", []string{"got 1 arguments, expected", "ID"}},
		{"snapshot show nothere.yaml good", []string{"nothere.yaml"}},
		{"snapshot diff p.yaml good", []string{"ID ID"}},
		{"snapshot verify p.yaml 9999 9998", []string{"9999", "9998"}},
		{"snapshot tag p.yaml 9999 x", []string{"no snapshot 9999"}},
		{"snapshot tag p.yaml good latest", []string{"not a tag"}},
		{"snapshot untag p.yaml goood", []string{`did you mean "good"`}},
		{"snapshot delete p.yaml latest", []string{"a restart goes on from"}},
		{"snapshot restore p.yaml 9999", []string{"no snapshot 9999"}},
		{"snapshot fork p.yaml 9999 --to x --name y", []string{"no snapshot 9999"}},
		{"snapshot fork p.yaml good --to nothere.yaml", []string{"nothere.yaml"}},
		{"snapshot fork p.yaml good --to folder", []string{"--name"}},
		{"snapshot prune p.yaml", []string{"--keep"}},
		{"snapshot export p.yaml good no/such/folder/x.snap", []string{"no such file"}},
		{"snapshot import p.yaml nothere.snap", []string{"nothere.snap"}},
		{"snapshot import p.yaml cut.snap", []string{"damaged"}},
		{"snapshot import p.yaml end.snap", []string{"damaged"}},
		{"snapshot import p.yaml changed.snap", []string{"damaged"}},
		{"snapshot import p.yaml text.snap", []string{"not a snapshot archive"}},
		{"snapshot import p.yaml empty.snap", []string{"archive"}},
		{"snapshot lst p.yaml", []string{`did you mean "list"`}},
		{"status nothere", []string{"no state in"}},
	} {
		t.Run(c.args, func(t *testing.T) {
			r := do(t, dir, strings.Fields(c.args)...)
			r.want(t, 2, c.texts...)
			e := envelopeOf(t, do(t, dir, append(strings.Fields(c.args), "--json")...).out)
			if e.OK || e.Error == nil || e.Error.Exit != 2 || e.Error.Message == "" {
				t.Errorf("envelope %+v", e)
			}
		})
	}
	if after := do(t, dir, "snapshot", "list", "p.yaml", "--json").out; after != before {
		t.Errorf("bad input changed the store:\n%s\n%s", before, after)
	}
	do(t, dir, "run", "p.yaml").want(t, 0, "complete")
	expect(t, dir, slowWant(t))
}

// A byte that changed in any object is named with its file; in a state file with the place.
func TestVerifyNamesObjectAndOffset(t *testing.T) {
	dir := stopped(t, slowPipeline)
	do(t, dir, "snapshot", "create", "p.yaml", "--tag", "good").want(t, 0)
	objects, err := filepath.Glob(filepath.Join(dir, ".millrace", "slow", "snapshots", "objects", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	at, named, places := regexp.MustCompile(`bytes at (\d+)`), 0, 0
	for _, o := range objects {
		whole, err := os.ReadFile(o)
		if err != nil {
			t.Fatal(err)
		}
		b := slices.Clone(whole)
		b[100%len(b)] ^= 1
		if err := os.WriteFile(o, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if r := do(t, dir, "snapshot", "verify", "p.yaml", "good"); r.code != 0 {
			r.want(t, 2, filepath.Base(o))
			named++
			if m := at.FindStringSubmatch(r.err); m != nil && m[1] == "0" {
				places++
			}
			do(t, dir, "snapshot", "export", "p.yaml", "good", "bad.snap").want(t, 2, filepath.Base(o))
			if _, err := os.Lstat(filepath.Join(dir, "bad.snap")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("a damaged snapshot was exported: %v", err)
			}
		}
		if err := os.WriteFile(o, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if named < 3 || places < 1 {
		t.Errorf("of %d objects %d were named, %d with the place", len(objects), named, places)
	}
	do(t, dir, "snapshot", "verify", "p.yaml").want(t, 0)
}

// Another user's pipeline can't be talked to, in either direction.
func TestOtherUsersSocket(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be two users")
	}
	const nobody = 65534
	dir := project(t, strings.Replace(slowPipeline, "rate: 4000", "rate: 500", 1))
	tool := filepath.Join(dir, "millrace")
	b, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(tool, b, 0o755); err != nil {
		t.Fatal(err)
	}
	for d := dir; d != "/" && d != os.TempDir(); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	as := func(uid uint32, args ...string) *exec.Cmd {
		c := exec.Command(tool, args...)
		c.Dir = dir
		c.Env = append(os.Environ(), "HOME="+dir)
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		return c
	}
	run := func(uid uint32) *exec.Cmd {
		c := as(uid, "run", "p.yaml")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
		waitFor(t, "its socket", func() bool { return finish(t, as(uid, "status", "p.yaml")).code == 0 })
		return c
	}
	c := run(nobody)
	for _, args := range [][]string{{"status", "p.yaml"}, {"stop", "p.yaml"}, {"snapshot", "create", "p.yaml"}} {
		finish(t, as(0, args...)).want(t, 2, "another user")
		finish(t, as(nobody-1, args...)).want(t, 2, "another user")
	}
	finish(t, as(nobody, "status", "p.yaml")).want(t, 0)
	_ = c.Process.Kill()
	_ = c.Wait()
	if err := os.RemoveAll(filepath.Join(dir, ".millrace")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	run(0)
	finish(t, as(nobody, "stop", "p.yaml")).want(t, 2, "another user")
	finish(t, as(0, "stop", "p.yaml")).want(t, 0)
}

// A state folder whose path is too long for a socket.
func TestDeepStateFolder(t *testing.T) {
	dir := project(t, slowPipeline)
	deep := filepath.Join(strings.Repeat("a", 90), strings.Repeat("b", 90))
	c := command(dir, "run", "p.yaml", "--state-dir", deep)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	waitFor(t, "the socket", func() bool { return do(t, dir, "status", deep).code == 0 })
	do(t, dir, "snapshot", "create", "--state-dir", deep, "--tag", "x").want(t, 0)
	do(t, dir, "stop", deep).want(t, 0)
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
}
