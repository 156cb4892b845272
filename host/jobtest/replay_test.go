package jobtest

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/host/replay"
)

// replayOptions are those of a replay of the world's job from a snapshot.
func (w *World) replayOptions(store *snapstore.Store, from checkpoint.ID) replay.Options {
	o := w.options()
	return replay.Options{Store: store, From: from, Code: replay.Code{Graph: w.Graph, Module: o.Module}, Source: w.source, Connect: w.Connect,
		Scratch: filepath.Join(w.Dir, "replays")}
}

// reader opens the world's snapshots for reading.
func (w *World) reader() *snapstore.Store {
	w.T.Helper()
	s, err := snapstore.Open(filepath.Join(w.StateDir(), "snapshots"), snapstore.Options{ReadOnly: true})
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(func() { s.Close() })
	return s
}

func TestReplayOfEffects(t *testing.T) {
	t.Parallel()
	w := New(t, replayText)
	f := w.Feed("in")
	r := w.Start()
	f.Push(workload(1, 2000, 40)...)
	a := w.Checkpoint(r)
	f.Push(workload(2, 2000, 40)...)
	b := w.Checkpoint(r)
	f.Push(workload(3, 1000, 40)...)
	w.Checkpoint(r)
	r.Crash()
	store := w.reader()
	to, err := store.Load(b)
	if err != nil {
		t.Fatal(err)
	}
	o := w.replayOptions(store, a)
	o.End.To = to
	res, err := replay.Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Close()
	t.Logf("%+v", res.Report)
}

const replayText = `name: replayed
checkpoint: {interval: 0s, retain: 100}
operators:
  - {id: in, source: generator, kind: counter, parallelism: 1}
  - id: logic
    process: {module: "@effects", function: effects}
    on_error: {policy: dead_letter, path: dead/}
  - {id: out, sink: file, path: out/, envelope: true}
`
