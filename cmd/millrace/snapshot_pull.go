package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/mirror"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/operators"
)

func pullSnapshotCommand(s streams) *cli.Command {
	return snapshotVerb("pull", "fetch a snapshot from the pipeline's store", "[ID]",
		"Without an ID the newest. Into a state folder without snapshots, on this or another machine, it is what the next run\n"+
			"starts from: output that was published after it is taken back then, and what was published before has to be there,\n"+
			"unless --new-output leaves it behind. Beside other snapshots it is kept like an import. "+remoteWords+"\n"+
			"ID is a number, latest, or the beginning of a digest.",
		func(c *cli.Context) error { return pullSnapshot(c, s) },
		&cli.BoolFlag{Name: "new-output", Usage: "what the sinks published so far is not here: they go on with new parts"},
		&cli.BoolFlag{Name: "renumber", Usage: "give it a new id where its own is taken"})
}

// pulled says what came, and what the next run does.
type pulled struct {
	ID      checkpoint.ID `json:"id"`      // here
	From    checkpoint.ID `json:"from"`    // in the store
	Objects int           `json:"objects"` // fetched
	Bytes   int64         `json:"bytes"`   // of them, as stored
	Had     int           `json:"had"`     // objects that were here
	Start   bool          `json:"start"`   // the next run starts from it
	Output  []string      `json:"output"`  // published files that it takes back
	Millis  int64         `json:"ms"`
}

func pullSnapshot(c *cli.Context, s streams) error {
	began := nowMS()
	t, err := targetOf(c, 0, 1)
	if err != nil {
		return err
	}
	r, err := t.remote()
	if err != nil {
		return err
	}
	word := "latest"
	if len(t.words) > 0 {
		word = t.words[0]
	}
	id, err := resolveRemote(c.Context, r, word)
	if err != nil {
		return err
	}
	store, err := t.pullInto(r)
	if err != nil {
		return err
	}
	defer store.Close()
	out := &pulled{From: id, Output: []string{}}
	if err := t.pull(c, r, store, out); err != nil {
		return remoteError(r, err)
	}
	out.Millis = nowMS() - began
	return show(c, s, out, func(w io.Writer) { out.print(w, t.file) })
}

// pullInto opens the store to pull into, made if there is none.
func (t *target) pullInto(r *job.Remote) (*snapstore.Store, error) {
	cl, err := t.dial()
	if cl != nil {
		cl.Close()
		return nil, &exitError{code: exitBusy, kind: "locked", err: errors.New("the pipeline is running: pull beside it with another --state-dir")}
	}
	if _, serr := os.Stat(t.store()); err != nil && serr == nil {
		return nil, err
	}
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return nil, err
	}
	return t.write()
}

func (t *target) pull(c *cli.Context, r *job.Remote, store *snapstore.Store, out *pulled) error {
	infos, err := store.List()
	if err != nil {
		return err
	}
	out.Start = len(infos) == 0
	anew := c.Bool("new-output")
	var got mirror.Pulled
	switch {
	case out.Start:
		var change func(*checkpoint.Manifest)
		if anew {
			change = leaveOutput
		} else if err := t.outputThere(c, r, out.From); err != nil {
			return err
		}
		got, err = r.Mirror.PullStart(c.Context, store, out.From, change)
	case anew:
		return refused(fmt.Errorf("--new-output is for a state folder without snapshots, %s has some", t.dir))
	default:
		got, err = r.Mirror.Pull(c.Context, store, out.From, c.Bool("renumber"))
	}
	if err != nil {
		return err
	}
	out.ID, out.Objects, out.Bytes, out.Had = got.ID, got.Objects, got.Bytes, got.Had
	if !out.Start {
		return nil
	}
	later, err := t.restoring(c, store, got.ID)
	if err != nil {
		return err
	}
	out.Output = later.Output
	// It starts there by name: that is what takes later output back.
	return job.SetPendingRestore(t.dir, got.ID)
}

// leaveOutput takes what was published out of a snapshot: it is not here.
func leaveOutput(m *checkpoint.Manifest) {
	for i := range m.Tasks {
		for j := range m.Tasks[i].Operators {
			m.Tasks[i].Operators[j].Staged = nil
		}
	}
}

// outputThere refuses a start whose published output is not here, before anything is fetched.
func (t *target) outputThere(c *cli.Context, r *job.Remote, id checkpoint.ID) error {
	all, err := r.Mirror.Contents(c.Context)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(e mirror.Content) bool { return e.ID == id })
	if i < 0 {
		return mirror.ErrNoSnapshot
	}
	var missing []string
	for _, n := range t.graph.Nodes {
		if n.Sink == nil || n.Sink.Path == "" {
			continue
		}
		for _, o := range partsOf(all[i].File, n.ID) {
			missing = append(missing, missingOutput(n, o)...)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	const most = 4
	text := strings.Join(missing[:min(most, len(missing))], ", ")
	if len(missing) > most {
		text += fmt.Sprintf(" and %d more", len(missing)-most)
	}
	return refused(fmt.Errorf("snapshot %d had published what is not here: %s; bring it here, or --new-output goes on without it", id, text))
}

func missingOutput(n *operators.Node, o checkpoint.OperatorSnapshot) (missing []string) {
	for _, f := range o.Staged {
		path := outputPath(n)
		if !n.Sink.Single {
			path = filepath.Join(path, filepath.Base(f.Final))
		}
		if st, err := os.Stat(path); err != nil || st.Size() != f.Size {
			missing = append(missing, path)
		}
	}
	return missing
}

func (p *pulled) print(w io.Writer, file string) {
	fmt.Fprintf(w, "snapshot %d", p.From)
	if p.ID != p.From {
		fmt.Fprintf(w, ", here %d", p.ID)
	}
	fmt.Fprintf(w, ": %d objects of %s bytes fetched, %d were here, in %d ms\n", p.Objects, thousands(p.Bytes), p.Had, p.Millis)
	if !p.Start {
		return
	}
	fmt.Fprintf(w, "the next run starts from it: millrace run %s\n", file)
	const most = 20
	for i, f := range p.Output {
		if i == most {
			fmt.Fprintf(w, "  and %d more files\n", len(p.Output)-most)
			break
		}
		fmt.Fprintf(w, "  %s is taken back by it\n", f)
	}
}
