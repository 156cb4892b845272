package main

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/millrace-io/millrace/host/control"
)

// kept is the slow pipeline with a store, whose fields follow.
func kept(pipeline, store string) string {
	return strings.Replace(pipeline, "checkpoint: {interval: 50ms}", "checkpoint: {interval: 50ms, store: "+store+"}", 1)
}

const folderStore = "{url: 'file:far', interval: 0s}"

// project with a folder for the store.
func farProject(t *testing.T, pipeline string) string {
	t.Helper()
	dir := project(t, pipeline)
	if err := os.Mkdir(filepath.Join(dir, "far"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "seal.key", strings.Repeat("0a", 32)+"\n")
	write(t, dir, "sign.key", strings.Repeat("0b", 32)+"\n")
	write(t, dir, "other.key", strings.Repeat("0c", 32)+"\n")
	return dir
}

// s3Store is a bucket of a server in this process, or of that which MILLRACE_TEST_S3 names (host:port, with a bucket
// named snapshots and credentials in the environment), with everything sealed and signed.
func s3Store(t *testing.T) string {
	t.Helper()
	endpoint := "http://" + os.Getenv("MILLRACE_TEST_S3")
	if endpoint == "http://" {
		t.Setenv("AWS_ACCESS_KEY_ID", "access")
		t.Setenv("AWS_SECRET_ACCESS_KEY", "secret-secret")
		backend := s3mem.New()
		if err := backend.CreateBucket("snapshots"); err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server())
		t.Cleanup(server.Close)
		endpoint = server.URL
	}
	return fmt.Sprintf("{url: 's3://snapshots/%s-%d', endpoint: '%s', region: us-east-1, encrypt: 'file:seal.key', sign: 'file:sign.key', interval: 0s}", t.Name()[:8], time.Now().UnixNano(), endpoint)
}

func remoteStatus(t *testing.T, dir string) control.Remote {
	t.Helper()
	r := do(t, dir, "status", "p.yaml", "--json")
	var in control.Info
	if r.code != 0 || json.Unmarshal(envelopeOf(t, r.out).Data, &in) != nil || in.Stats.Remote == nil {
		return control.Remote{}
	}
	return *in.Stats.Remote
}

// A process is killed, and its whole state folder lost: what the store has goes on, to the output of a run that
// nobody interrupted. Twice, the second time from a snapshot of the second state folder.
func TestStateFolderLostAndPulled(t *testing.T) {
	want := slowWant(t)
	for name, store := range map[string]func(*testing.T) string{
		"folder": func(*testing.T) string { return folderStore }, "s3, sealed and signed": s3Store} {
		t.Run(name, func(t *testing.T) {
			dir := farProject(t, kept(slowPipeline, store(t)))
			state := filepath.Join(dir, ".millrace", "slow")
			var before control.Remote
			for range 2 {
				c, stderr := background(t, dir)
				waitFor(t, "an upload", func() bool {
					before = remoteStatus(t, dir)
					return before.Uploads > 1 && before.Failures == 0
				})
				do(t, dir, "status", "p.yaml").want(t, 0, "uploaded", "in this run")
				_ = c.Process.Kill()
				_ = c.Wait()
				if strings.Contains(stderr.String(), "not in the store yet") {
					t.Errorf("failed: %s", stderr)
				}
				if err := os.RemoveAll(state); err != nil {
					t.Fatal(err)
				}
				do(t, dir, "run", "p.yaml").want(t, 2, "has snapshots of this pipeline", "snapshot pull")
				if err := os.RemoveAll(state); err != nil {
					t.Fatal(err)
				}
				do(t, dir, "snapshot", "verify", "p.yaml", "--remote").want(t, 0, "as they were stored")
				do(t, dir, "snapshot", "pull", "p.yaml").want(t, 0, "the next run starts from it")
				do(t, dir, "snapshot", "verify", "p.yaml").want(t, 0)
			}
			do(t, dir, "run", "p.yaml").want(t, 0, "going on from checkpoint", "complete")
			expect(t, dir, want)
			var rows []remoteRow
			r := do(t, dir, "snapshot", "list", "p.yaml", "--remote", "--json")
			r.want(t, 0)
			if err := json.Unmarshal(envelopeOf(t, r.out).Data, &rows); err != nil || len(rows) == 0 || rows[len(rows)-1].ID <= before.Uploaded || len(rows) > 3 {
				t.Errorf("%v %s", err, r.out)
			}
			do(t, dir, "snapshot", "verify", "p.yaml", "--remote").want(t, 0)
			// The last one of all is there: everything lost after the end is no matter either.
			if err := os.RemoveAll(state); err != nil {
				t.Fatal(err)
			}
			do(t, dir, "snapshot", "pull", "p.yaml").want(t, 0)
			do(t, dir, "run", "p.yaml").want(t, 0, "already complete")
			expect(t, dir, want)
		})
	}
}

// The process is killed in the middle of an upload, between two objects, before and after the catalog, and while
// it removes old ones: the store is whole, the next run goes on and brings it up to date.
func TestKillInTheMiddleOfAnUpload(t *testing.T) {
	want := slowWant(t)
	path, err := crashing()
	if err != nil {
		t.Fatal(err)
	}
	hits := 0
	for _, at := range []string{"K10:1", "K10:3", "K11:2", "K11:5", "K12:4", "K12:7", "K24:9", "K24:14"} {
		t.Run(at, func(t *testing.T) {
			dir := farProject(t, kept(slowPipeline, folderStore))
			c := exec.Command(path, "run", "p.yaml")
			c.Dir = dir
			c.Env = append(os.Environ(), "MILLRACE_CRASH="+at+":kill")
			finish(t, c)
			if ws, ok := c.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
				hits++
			}
			if r := do(t, dir, "snapshot", "verify", "p.yaml", "--remote"); r.code != 0 {
				t.Errorf("exit %d: %s", r.code, r.err)
			}
			do(t, dir, "run", "p.yaml").want(t, 0, "complete")
			expect(t, dir, want)
			do(t, dir, "snapshot", "verify", "p.yaml", "--remote").want(t, 0)
			local := row(t, dir, "latest")
			if r := do(t, dir, "snapshot", "list", "p.yaml", "--remote"); !strings.Contains(r.out, fmt.Sprint(local.ID, " ")) {
				t.Errorf("the last one, %d, is not there:\n%s", local.ID, r.out)
			}
		})
	}
	if hits < 6 {
		t.Errorf("%d kills, expected more", hits)
	}
}

// A pull that is killed anywhere leaves nothing that counts, and can be said again.
func TestKillInTheMiddleOfAPull(t *testing.T) {
	want := slowWant(t)
	dir := farProject(t, kept(slowPipeline, folderStore))
	c, _ := background(t, dir)
	waitFor(t, "an upload", func() bool { return remoteStatus(t, dir).Uploads > 1 })
	_ = c.Process.Kill()
	_ = c.Wait()
	if err := os.RemoveAll(filepath.Join(dir, ".millrace")); err != nil {
		t.Fatal(err)
	}
	hits := 0
	for _, at := range []string{"K7:1", "K8:2", "K9:1", "K20:1", "K20:3", "K11:1", "K23:1"} {
		here := t.TempDir()
		if err := os.CopyFS(here, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		if _, hit := killed(t, here, at, "snapshot", "pull", "p.yaml"); hit {
			hits++
		}
		if r := do(t, here, "snapshot", "pull", "p.yaml"); r.code != 0 {
			t.Fatalf("%s: exit %d: %s", at, r.code, r.err)
		}
		do(t, here, "run", "p.yaml").want(t, 0, "complete")
		expect(t, here, want)
	}
	if hits < 5 {
		t.Errorf("%d kills, expected more", hits)
	}
}

// The verbs about a store, one after the other, and what each refuses.
func TestStoreVerbs(t *testing.T) {
	dir := farProject(t, kept(slowPipeline, "{url: 'file:far', interval: 0s, encrypt: 'file:seal.key', sign: 'file:sign.key'}"))
	p := func(args ...string) ran { return do(t, dir, append([]string{"snapshot"}, args...)...) }
	p("list", "p.yaml", "--remote").want(t, 0, "no snapshot in file://")
	p("pull", "p.yaml").want(t, 2, "no such snapshot")
	p("push", "p.yaml").want(t, 2, "no state")
	background(t, dir)
	do(t, dir, "stop", "p.yaml").want(t, 0)
	last := fmt.Sprint(row(t, dir, "latest").ID)
	p("push", "p.yaml").want(t, 0, "snapshot "+last+" was in file://")
	p("create", "p.yaml", "--tag", "kept").want(t, 0)
	point := fmt.Sprint(row(t, dir, "kept").ID)
	p("push", "p.yaml", "kept").want(t, 0, "snapshot "+point+" is in file://", "were there")
	p("list", "p.yaml", "--remote").want(t, 0, "savepoint", "ADDED")
	p("verify", "p.yaml", "--remote", point, "nothing", "77777").want(t, 2, "no snapshot nothing", "no snapshot 77777", "it has ")
	p("verify", "p.yaml", "--remote", point).want(t, 0, "1 snapshots")
	p("pull", "p.yaml", point).want(t, 0, "0 objects")
	p("pull", "p.yaml", "--new-output").want(t, 2, "has some")
	// On another machine what was published is not there.
	there := filepath.Join(t.TempDir(), "there")
	if err := os.CopyFS(there, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{".millrace", "out"} {
		if err := os.RemoveAll(filepath.Join(there, gone)); err != nil {
			t.Fatal(err)
		}
	}
	r := do(t, there, "snapshot", "pull", "p.yaml", last)
	if r.code == 2 {
		r.want(t, 2, "had published what is not here", "--new-output")
	} else {
		r.want(t, 0) // all that was published was durable before
	}
	_ = os.RemoveAll(filepath.Join(there, ".millrace"))
	do(t, there, "snapshot", "pull", "p.yaml", last, "--new-output").want(t, 0, "here ", "the next run starts")
	do(t, there, "run", "p.yaml").want(t, 0, "complete")
	if got, whole := len(published(t, there))+len(published(t, dir)), 6000; got != whole {
		t.Errorf("%d lines here and there, want %d", got, whole)
	}
	// Keys.
	write(t, dir, "q.yaml", kept(slowPipeline, "{url: 'file:far', encrypt: 'file:other.key', sign: 'file:sign.key'}"))
	do(t, dir, "snapshot", "pull", "q.yaml", "--state-dir", "new").want(t, 2, "indexes/", "not those that it was stored with")
	write(t, dir, "q.yaml", kept(slowPipeline, "{url: 'file:far', encrypt: 'file:seal.key', sign: 'file:other.key'}"))
	do(t, dir, "snapshot", "pull", "q.yaml", "--state-dir", "new").want(t, 2, "catalog/", "signature")
	write(t, dir, "q.yaml", kept(slowPipeline, "{url: 'file:far', encrypt: ['file:none.key', 'env:NO_SUCH_KEY']}"))
	do(t, dir, "snapshot", "pull", "q.yaml", "--state-dir", "new").want(t, 2, "none.key", "NO_SUCH_KEY")
	write(t, dir, "q.yaml", slowPipeline)
	do(t, dir, "snapshot", "list", "q.yaml", "--remote").want(t, 2, "names no store")
	do(t, dir, "snapshot", "list", ".millrace/slow", "--remote").want(t, 2, "name the pipeline file")
	// Removal.
	p("prune", "p.yaml", "--remote", "--keep", "1", "--dry-run").want(t, 0, "would be removed")
	p("prune", "p.yaml", "--remote", "--keep", "1").want(t, 0, "removed from file://")
	p("delete", "p.yaml", "--remote", "999").want(t, 2, "no snapshot 999")
	p("verify", "p.yaml", "--remote").want(t, 0)
	// Damage.
	objects, err := filepath.Glob(filepath.Join(dir, "far", "slow", "objects", "*"))
	if err != nil || len(objects) == 0 {
		t.Fatal(objects, err)
	}
	data, err := os.ReadFile(objects[0])
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(objects[0], data, 0o644); err != nil {
		t.Fatal(err)
	}
	p("verify", "p.yaml", "--remote").want(t, 2, "damaged", filepath.Base(objects[0]))
}

// A store that goes away while the pipeline runs is no matter of the pipeline's: it is told, status counts, the
// run ends well with a warning, and the next one makes up for it.
func TestStoreGoesAwayAndComesBack(t *testing.T) {
	want := slowWant(t)
	dir := farProject(t, kept(slowPipeline, folderStore))
	far, away := filepath.Join(dir, "far"), filepath.Join(dir, "away")
	c, stderr := background(t, dir)
	waitFor(t, "an upload", func() bool { return remoteStatus(t, dir).Uploads > 0 })
	if err := os.Rename(far, away); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "a failure", func() bool {
		r := remoteStatus(t, dir)
		return r.Behind > 0 && strings.Contains(r.LastFailure, "there is no folder")
	})
	do(t, dir, "status", "p.yaml").want(t, 0, "behind", "in a row", "there is no folder")
	if err := c.Wait(); err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	for _, text := range []string{"not in the store yet", "snapshots behind", "snapshot push"} {
		if !strings.Contains(stderr.String(), text) {
			t.Errorf("%q is missing in %s", text, stderr)
		}
	}
	expect(t, dir, want)
	do(t, dir, "snapshot", "push", "p.yaml").want(t, 2, "there is no folder")
	if err := os.Rename(away, far); err != nil {
		t.Fatal(err)
	}
	do(t, dir, "run", "p.yaml").want(t, 0, "already complete")
	do(t, dir, "snapshot", "push", "p.yaml").want(t, 0, "was in file://")
	// Without it nothing begins: what it has is not known.
	if err := os.Rename(far, away); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, ".millrace")); err != nil {
		t.Fatal(err)
	}
	do(t, dir, "run", "p.yaml").want(t, 2, "there is no folder")
}

// Fresh begins anew beside what the store has: ids go on behind it.
func TestFreshBesideAStore(t *testing.T) {
	dir := farProject(t, kept(strings.Replace(slowPipeline, "    rate: 4000\n", "", 1), folderStore))
	do(t, dir, "run", "p.yaml").want(t, 0)
	first := row(t, dir, "latest").ID
	if err := os.RemoveAll(filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	do(t, dir, "run", "p.yaml", "--fresh").want(t, 0, "complete")
	if again := row(t, dir, "latest").ID; again <= first {
		t.Errorf("snapshot %d came after %d", again, first)
	}
	do(t, dir, "snapshot", "push", "p.yaml").want(t, 0, "was in file://")
	expect(t, dir, slowWant(t))
}

// Two machines can't both go on: the second is told, and the store stays whole.
func TestTwoRunsOverOneStore(t *testing.T) {
	dir := farProject(t, kept(slowPipeline, folderStore))
	background(t, dir)
	do(t, dir, "stop", "p.yaml").want(t, 0)
	there := t.TempDir()
	if err := os.CopyFS(there, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	p, err := os.ReadFile(filepath.Join(there, "p.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, there, "p.yaml", strings.Replace(string(p), "file:far", "file://"+filepath.Join(dir, "far"), 1))
	var all sync.WaitGroup
	got := make([]ran, 2)
	for i, d := range []string{dir, there} {
		all.Go(func() { got[i] = do(t, d, "run", "p.yaml") })
	}
	all.Wait()
	for _, r := range got {
		r.want(t, 0, "complete")
	}
	if text := got[0].err + got[1].err; !strings.Contains(text, "another snapshot with this id") && !strings.Contains(text, "mirror is damaged") && !strings.Contains(text, "follows a snapshot") {
		t.Errorf("neither was told: %s", text)
	}
	do(t, dir, "snapshot", "verify", "p.yaml", "--remote").want(t, 0)
}
