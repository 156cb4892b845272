package main

// mutants are the faults the crash run must notice.
var mutants = []mutant{
	{
		name:   "publish-before-manifest",
		breaks: "output is visible only once its checkpoint is durable",
		points: []string{"K11", "random"},
		edits: []edit{{
			file: "host/job/drive.go",
			find: "\t\td.writers.Go(func() { d.write(ctx, fx.Manifest, named) })\n",
			// Not the last one: tasks end when they hear of it.
			with: "\t\tfor _, t := range d.tasks {\n\t\t\tif !fx.Manifest.Finished {\n\t\t\t\tt.Control(task.Control{Complete: fx.Manifest.ID})\n\t\t\t}\n\t\t}\n" +
				"\t\td.writers.Go(func() { time.Sleep(20 * time.Millisecond); d.write(ctx, fx.Manifest, named) })\n",
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
			// Not the final one: what comes behind it would be lost without a kill.
			with: "\tif a.open == 1 || a.open > 1 && !b.Final {\n",
		}},
	},
	{
		name:   "old-version-not-saved",
		breaks: "a write during a freeze saves the version that the cut needs",
		test:   "./state/table TestTableAgainstModel", // a freeze of so few keys as a trial has is over in a step or two
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
		form:   "spill", // keys seldom enough not to be set again at once,
		memory: "64MiB", // whose entries stay in memory, so that files are read at a restore only
		kills:  10,
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
		form:   "spill", // enough keys that timers are in a checkpoint before they fire
		kills:  20,
		edits: []edit{{
			file: "state/ordered/timers.go",
			find: "\tt.log.append(t.comp, nil, kindTomb)\n\treturn nil\n",
			with: "\treturn nil\n",
		}},
	},
	{
		name:   "part-numbers-used-again",
		breaks: "a part's name is used once",
		points: []string{"K12", "random"},
		again:  true,
		edits: []edit{{
			file: "operators/file/parts.go",
			find: "\t\tp.seq = max(p.seq, r.Numbers[\"sequence\"])\n",
			with: "",
		}},
	},
	{
		name:   "older-checkpoint-restored",
		breaks: "a restart goes on from the newest complete checkpoint",
		points: []string{"K12", "random"},
		again:  true,
		edits: []edit{{
			file: "checkpoint/snapstore/manifests.go",
			find: "\t\tnewest = ids[len(ids)-1]\n\t}\n\tif newest < h.latest {\n",
			with: "\t\tnewest = ids[max(0, len(ids)-2)]\n\t}\n\tif newest == 0 && newest < h.latest {\n",
		}},
	},
	{
		name:   "ack-before-write",
		breaks: "a task says that its part is durable once it is written",
		points: []string{"K12", "random"},
		again:  true,
		edits: []edit{{
			file: "host/task/cut.go",
			find: "\t\t<-p.Done()\n\t\ts, err := p.Result()\n",
			with: "\t\tselect {\n\t\tcase <-p.Done():\n\t\tdefault:\n\t\t\tc.snap.Operators = append(c.snap.Operators, checkpoint.OperatorSnapshot{Operator: c.names[i]})\n" +
				"\t\t\tcontinue\n\t\t}\n\t\ts, err := p.Result()\n",
		}},
	},
	{
		name:   "ack-before-fsync",
		breaks: "a file of the snapshot store is durable before it gets its name",
		test:   "./checkpoint/snapstore TestT6CrashAtEveryFileOperation", // a killed process loses no written byte
		edits: []edit{{
			file: "checkpoint/snapstore/publish.go",
			find: "\ts.crash(\"K7\")\n\tif err := f.Sync(); err != nil {\n",
			with: "\ts.crash(\"K7\")\n\tif err := error(nil); err != nil {\n",
		}},
	},
	{
		name:   "savepoints-expire",
		breaks: "retention keeps savepoints and tagged snapshots",
		test:   "./checkpoint/snapstore TestT6CrashAtEveryFileOperation",
		edits: []edit{{
			file: "checkpoint/snapstore/registry.go",
			find: "return e.Savepoint || len(e.Tags) > 0",
			with: "return false",
		}},
	},
	{
		name:   "leases-ignored",
		breaks: "a sweep spares what another process reads",
		test:   "./checkpoint/snapstore TestLeaseTakenDuringARemoval",
		edits: []edit{{
			file: "checkpoint/snapstore/retain.go",
			find: "!h.objects[digest]",
			with: "true",
		}},
	},
	{
		name:   "push-of-the-dead",
		breaks: "a push that was taken for dead does not add its snapshot",
		test:   "./checkpoint/mirror TestDeadPushIsEvictedAndCannotCommit",
		edits: []edit{{
			file: "checkpoint/mirror/push.go",
			find: "\t\tif !c.pushing(p.id) {\n\t\t\treturn ErrEvicted\n\t\t}\n\t\tstock, err",
			with: "\t\tstock, err",
		}},
	},
	{
		name:   "collects-live-pushes",
		breaks: "a collection spares what a push is adding",
		test:   "./checkpoint/mirror TestT8ObjectStoreFaults",
		edits: []edit{{
			file: "checkpoint/mirror/gc.go",
			find: "!ok || c.pushing(push) {",
			with: "!ok || push == \"\" {",
		}},
	},
	{
		name:   "timers-forgotten",
		breaks: "timers are in the snapshot",
		points: []string{"K12", "random"},
		edits: []edit{{
			file: "state/backend/backend.go",
			find: "\tfor _, p := range b.parts {\n\t\tc, err := p.Freeze()\n",
			with: "\tfor _, p := range b.parts {\n\t\tif any(p) == any(b.timers) {\n\t\t\tcontinue\n\t\t}\n\t\tc, err := p.Freeze()\n",
		}},
	},
	{
		name:   "map-tombstones-dropped",
		breaks: "an entry that was removed from a map stays removed after a restore",
		points: []string{"K12", "random"},
		edits: []edit{{
			file: "state/ordered/store.go",
			find: "\t\ts.log.append(s.comp, nil, kindTomb)\n",
			with: "",
		}},
	},
	{
		name:   "watermark-forgotten",
		breaks: "the watermark is in the snapshot: after a restore it goes on from there",
		points: []string{"K12", "random"},
		edits: []edit{
			{
				file: "host/task/cut.go",
				find: "Watermarks: slices.Clone(t.wms)}}",
				with: "Watermarks: slices.Clone(t.wms[:0])}}",
			},
			{
				file: "operators/guestop/snapshot.go",
				find: "numWatermark: o.wm",
				with: "numWatermark: math.MinInt64",
			},
		},
	},
}
