package drive

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/millrace-io/millrace/checkpoint/crashpoint"
)

// The tests drive a small program of their own in testdata: it does what a pipeline does, with one
// staged file per checkpoint, and can be made wrong by an environment variable.

func fake(t *testing.T) *Config {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "pipeline")
	cmd := exec.Command("go", "build", "-tags", "crash", "-o", bin, "./testdata/pipeline")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return &Config{Binary: bin, Template: "in: {{.Input}}\nout: {{.Output}}\n", Scratch: t.TempDir(), Seed: 3, Records: 2000,
		Variant: Variant{Name: "fake", Keys: 7, Splits: 1, Parallelism: 1}, RunTimeout: 20 * time.Second}
}

func TestARightPipelineSurvivesEveryKind(t *testing.T) {
	c := fake(t)
	hits, o, err := c.Survey()
	if err != nil || o.Wrong() {
		t.Fatalf("survey: %v, %+v", err, o)
	}
	for _, p := range []string{crashpoint.BeforeManifest, crashpoint.AfterManifest} {
		if hits[p] == 0 {
			t.Fatalf("point %s was not met, trace is %v", p, hits)
		}
		if o, err = c.Point(p, hits[p], 3); err != nil || o.Wrong() || o.Kills != 3 {
			t.Errorf("%s: %v, %+v", p, err, o)
		}
	}
	if o, err = c.Random("random", 3, 2); err != nil || o.Wrong() || o.Kills != 3 {
		t.Errorf("random: %v, %+v", err, o)
	}
	left, err := os.ReadDir(c.Scratch)
	if err != nil || len(left) != 0 {
		t.Errorf("%d folders of good trials are left, %v", len(left), err)
	}
}

func TestWrongPipelinesAreCaught(t *testing.T) {
	c := fake(t)
	for _, bug := range []string{"publish-early", "forget-publish", "forget-state", "exit-on-restart"} {
		t.Setenv("FAKE_BUG", bug)
		for _, p := range []string{crashpoint.BeforeManifest, crashpoint.AfterManifest} {
			o, err := c.Point(p, 8, 2)
			if err != nil {
				t.Fatal(err)
			}
			if want := expected[bug]; want == p && !o.Wrong() {
				t.Errorf("%s: kills at %s found nothing: %+v", bug, p, o)
			}
		}
	}
}

// expected says at which point a bug of the fake shows.
var expected = map[string]string{
	"publish-early":   crashpoint.BeforeManifest,
	"forget-publish":  crashpoint.AfterManifest,
	"forget-state":    crashpoint.AfterManifest,
	"exit-on-restart": crashpoint.BeforeManifest,
}
