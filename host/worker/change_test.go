package worker_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/host/worker"
	"github.com/millrace-io/millrace/operators/spec"
)

// A plan, a change by that plan, and a stale plan, in this process and over the wire.
func TestChangeOfARunningPipeline(t *testing.T) {
	workers(t, func(t *testing.T, w worker.Worker) {
		ctx := t.Context()
		g, dir := graph(t, 10)
		if _, err := w.Change(ctx, worker.Change{Graph: g, DryRun: true}); err == nil {
			t.Error("a plan for nothing")
		}
		if err := w.Deploy(ctx, worker.Deploy{Graph: g, StateDir: filepath.Join(dir, "state"), CacheDir: filepath.Join(dir, "cache")}); err != nil {
			t.Fatal(err)
		}
		waitRead(t, w, 10)
		file := filepath.Join(dir, "pipeline.yaml")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(strings.Replace(string(text), "function: count}", "function: count}\n    parallelism: 3", 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		mods, err := worker.NewModules(ctx, filepath.Join(dir, "cache"))
		if err != nil {
			t.Fatal(err)
		}
		defer mods.Close()
		next, err := spec.Load(file, spec.Options{Modules: mods})
		if err != nil {
			t.Fatal(err)
		}
		plan, err := w.Change(ctx, worker.Change{Graph: next, DryRun: true})
		if err != nil || plan.Kind != job.ChangeRestart || plan.Checkpoint != 0 {
			t.Fatalf("plan %+v, %v", plan, err)
		}
		if _, err := w.Change(ctx, worker.Change{Graph: next, ModulesOnly: true}); worker.Classify(err) != worker.KindRefused {
			t.Errorf("a change of parallelism as one of modules: %v", err)
		}
		if _, err := w.Change(ctx, worker.Change{Graph: next, Plan: "0"}); worker.Classify(err) != worker.KindRefused {
			t.Errorf("a stale plan: %v", err)
		}
		done, err := w.Change(ctx, worker.Change{Graph: next, Plan: plan.Hash})
		if err != nil || done.Checkpoint == 0 || done.Millis == 0 {
			t.Fatalf("change %+v, %v", done, err)
		}
		if _, err := w.Barrier(ctx); err != nil {
			t.Fatal(err)
		}
		st, err := w.Stats(ctx)
		if err != nil || st.Upgrade == nil || st.Upgrade.State != job.UpgradeDone {
			t.Errorf("upgrade %+v, %v", st.Upgrade, err)
		}
		if _, err := w.Change(ctx, worker.Change{Restore: done.Checkpoint}); err != nil {
			t.Errorf("back to the change's checkpoint, with the code before it: %v", err)
		}
		if again, err := w.Change(ctx, worker.Change{Graph: g, DryRun: true}); err != nil || again.Kind != "" {
			t.Errorf("what runs after the roll-back differs from the first pipeline: %+v, %v", again.Differences, err)
		}
		if n := lines(t, dir); n != 10 {
			t.Errorf("%d lines, expected 10", n)
		}
	})
}
