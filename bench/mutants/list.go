package main

// mutants are the faults the crash run must notice.
var mutants = []mutant{
	{
		name:   "publish-before-manifest",
		breaks: "output is visible only once its checkpoint is durable",
		points: []string{"K11", "random"},
		edits: []edit{{
			file: "host/job/drive.go",
			find: "\t\td.writers.Go(func() { d.write(ctx, fx.Manifest) })\n",
			with: "\t\tfor _, t := range d.tasks {\n\t\t\tt.Control(ctx, task.Control{Complete: fx.Manifest.ID})\n\t\t}\n" +
				"\t\td.writers.Go(func() { time.Sleep(20 * time.Millisecond); d.write(ctx, fx.Manifest) })\n",
		}},
	},
	{
		name:   "renames-not-repeated",
		breaks: "a restore repeats the renames of its checkpoint",
		points: []string{"K12", "F1"},
		edits: []edit{{
			file: "operators/file/parts.go",
			find: "\t\tfor _, f := range r.Staged {\n",
			with: "\t\tfor _, f := range r.Staged[:0] {\n",
		}},
	},
	{
		name:   "staged-part-kept",
		breaks: "what was staged after the checkpoint is removed at a restore",
		points: []string{"K5", "K11", "random"},
		edits: []edit{{
			file: "operators/file/parts.go",
			find: "p.sink.disk.remove(filepath.Join(p.stage, n))",
			with: "p.sink.disk.rename(filepath.Join(p.stage, n), filepath.Join(p.folder, n))",
		}},
	},
	{
		name:   "offset-forgotten",
		breaks: "a checkpoint holds where the sources stand",
		points: []string{"K12", "random"},
		edits: []edit{{
			file: "host/task/cut.go",
			find: "Splits: t.cfg.Source.Positions()})",
			with: "Splits: t.cfg.Source.Positions()[:0]})",
		}},
	},
	{
		name:   "barrier-not-aligned",
		breaks: "a task cuts when the barrier has come on all its inputs",
		points: []string{"K5", "K12", "random"},
		edits: []edit{{
			file: "checkpoint/aligner.go",
			find: "\tif a.open == 1 {\n",
			with: "\tif a.open >= 1 {\n",
		}},
	},
	{
		name:   "old-version-not-saved",
		breaks: "a write during a freeze saves the version that the cut needs",
		points: []string{"K12", "random"},
		kills:  8,
		edits: []edit{{
			file: "state/table/freeze.go",
			find: "\tif t.isFrozen(*ep) {\n\t\tif err := t.copyTo(&t.side, e); err != nil {\n",
			with: "\tif t.isFrozen(*ep) && len(t.entryKey(e)) == 0 {\n\t\tif err := t.copyTo(&t.side, e); err != nil {\n",
		}},
	},
	{
		name:   "value-tombstones-dropped",
		breaks: "a value that was cleared stays cleared after a restore",
		points: []string{"K12", "random"},
		edits: []edit{{
			file: "state/backend/cut.go",
			find: "\t\t\tif err := w.Add(x.Hash, k, v, tomb); err != nil {\n",
			with: "\t\t\tif tomb {\n\t\t\t\tcontinue\n\t\t\t}\n\t\t\tif err := w.Add(x.Hash, k, v, tomb); err != nil {\n",
		}},
	},
	{
		name:   "fired-timers-kept",
		breaks: "a timer that fired is not in the next checkpoint",
		points: []string{"K12", "random"},
		edits: []edit{{
			file: "state/ordered/timers.go",
			find: "\t\t\tt.log.append(t.comp, nil, kindTomb)\n\t\t\tinto = append(",
			with: "\t\t\tinto = append(",
		}},
	},
	{
		name:   "part-numbers-used-again",
		breaks: "a part's name is used once",
		points: []string{"K12", "random"},
		edits: []edit{{
			file: "operators/file/parts.go",
			find: "\t\tp.seq = max(p.seq, r.Numbers[\"sequence\"])\n",
			with: "",
		}},
	},
}
