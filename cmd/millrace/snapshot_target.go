package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/checkpoint/crashpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/checkpoint/storechange"
	"github.com/millrace-io/millrace/host/control"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/spec"
)

// stateArgs is what commands about a state folder take.
const stateArgs = "[pipeline.yaml or state folder]"

// target is the pipeline that a command is about.
type target struct {
	dir   string           // state folder
	file  string           // pipeline file; empty: only the folder was named
	graph *operators.Graph // of file, not checked against modules; nil without
	words []string         // the other arguments
}

// targetOf finds the pipeline of a command that takes lo to hi more words: by --state-dir, by a first word
// that is a pipeline file or a state folder, or the only one below the working directory. With the flag a file may be
// named besides.
func targetOf(c *cli.Context, lo, hi int) (*target, error) {
	t := &target{words: c.Args().Slice()}
	named := ""
	if len(t.words) > 0 && (c.String("state-dir") == "" || filepath.Ext(t.words[0]) == ".yaml") {
		_, err := os.Stat(t.words[0])
		if len(t.words) > hi || lo != hi && err == nil || filepath.Ext(t.words[0]) == ".yaml" {
			named, t.words = t.words[0], t.words[1:]
		}
	}
	if n := len(t.words); n < lo || n > hi {
		return nil, refused(fmt.Errorf("%s: got %d arguments, expected %s %s", c.Command.HelpName, c.NArg(), c.Command.HelpName, c.Command.ArgsUsage))
	}
	if err := t.find(c, named); err != nil {
		return nil, refused(err)
	}
	return t, nil
}

func (t *target) find(c *cli.Context, named string) error {
	if t.dir = c.String("state-dir"); t.dir != "" {
		if named == "" {
			return nil
		}
		var err error
		t.file = named
		t.graph, err = spec.Load(named, spec.Options{})
		return err
	}
	if named == "" {
		all, err := filepath.Glob(filepath.Join(".millrace", "*", "snapshots"))
		if err != nil {
			return err
		}
		if len(all) != 1 {
			return fmt.Errorf("%d pipelines have state in .millrace here; name a pipeline file or a state folder", len(all))
		}
		t.dir = filepath.Dir(all[0])
		return nil
	}
	t.dir = named
	st, err := os.Stat(named)
	if err != nil && filepath.Ext(named) == ".yaml" {
		return err
	}
	if err != nil || !st.Mode().IsRegular() {
		return nil
	}
	if t.graph, err = spec.Load(named, spec.Options{}); err != nil {
		return err
	}
	t.file, t.dir = named, stateDir(c, named, t.graph.Name)
	return nil
}

// stateFolder is targetOf for a command without more words, whose pipeline has state.
func stateFolder(c *cli.Context) (string, error) {
	t, err := targetOf(c, 0, 0)
	if err != nil {
		return "", err
	}
	return t.dir, t.there()
}

// there says whether the pipeline has state.
func (t *target) there() error {
	if _, err := os.Stat(t.store()); errors.Is(err, fs.ErrNotExist) {
		return refused(fmt.Errorf("there is no state in %s", t.dir))
	}
	return nil
}

func (t *target) store() string { return filepath.Join(t.dir, "snapshots") }

func nowMS() int64 { return time.Now().UnixMilli() }

// read opens the pipeline's snapshots for reading, beside whoever writes them.
func (t *target) read() (*snapstore.Store, error) {
	if err := t.there(); err != nil {
		return nil, err
	}
	s, err := snapstore.Open(t.store(), snapstore.Options{ReadOnly: true, NowMS: nowMS})
	return s, storeError(err)
}

// write opens them for writing, which a run on them keeps from happening.
func (t *target) write() (*snapstore.Store, error) {
	signer, err := t.signer()
	if err != nil {
		return nil, err
	}
	s, err := snapstore.Open(t.store(), snapstore.Options{Crash: crashpoint.Hit, NowMS: nowMS, Signer: signer})
	return s, storeError(err)
}

// dial connects to the run that has the folder; nil: there is none.
func (t *target) dial() (*control.Client, error) {
	cl, err := control.Dial(t.dir)
	switch {
	case errors.Is(err, control.ErrNotRunning):
		return nil, nil
	case err != nil:
		return nil, asked(err)
	}
	return cl, nil
}

// starting is how long a run may have the folder without answering: it starts, or ends.
const starting = 5 * time.Second

// reach finds who can change the pipeline's snapshots: the run that has them, or with none this process, by the
// store open for writing. One of the two is not nil.
func (t *target) reach(ctx context.Context) (*control.Client, *snapstore.Store, error) {
	for deadline := time.Now().Add(starting); ; {
		cl, err := t.dial()
		if cl != nil || err != nil {
			return cl, nil, err
		}
		s, err := t.write()
		var locked *snapstore.LockedError
		if !errors.As(err, &locked) || time.Now().After(deadline) {
			return nil, s, err
		}
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// change makes a change to the pipeline's snapshots: through the run that has them, or directly.
func (t *target) change(c *cli.Context, ch storechange.Change) (storechange.Changed, error) {
	cl, s, err := t.reach(c.Context)
	if err != nil {
		return storechange.Changed{}, err
	}
	if cl != nil {
		defer cl.Close()
		out, err := cl.ChangeSnapshots(c.Context, ch)
		if err != nil {
			return out, asked(err)
		}
		return out, nil
	}
	defer s.Close()
	out, err := storechange.Apply(c.Context, s, ch)
	return out, storeError(err)
}
