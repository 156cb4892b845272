package main

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/host/clock"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/host/replay"
	"github.com/millrace-io/millrace/host/why"
	"github.com/millrace-io/millrace/host/worker"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/connect"
)

func whyCommand(s streams) *cli.Command {
	return &cli.Command{
		Name:      "why",
		Usage:     "tell what made an output: inputs, timers, steps of state, module",
		ArgsUsage: stateArgs + " OUTPUT",
		Description: "OUTPUT is a line that a sink wrote, FILE:LINE where it is, or - for standard input. The pipeline is run\n" +
			"again beside everything else, from the nearest snapshot before the output until it comes; nothing is published.\n" +
			"Sinks with provenance: true write from where that is; without it the run begins at --from, or at the beginning.\n" +
			"Exit codes: 0 told, 1 the output did not come again, 2 refused.",
		Flags: []cli.Flag{stateDirFlag(), jsonFlag(),
			&cli.StringFlag{Name: "sink", Usage: "`ID` of the sink that wrote it, where several could have"},
			&cli.StringFlag{Name: "from", Usage: "`SNAPSHOT` to begin at, by number or tag, or beginning"},
			&cli.IntFlag{Name: "steps", Value: 20, Usage: "tell the last so many steps of an operator; 0: all"}},
		Action: func(c *cli.Context) error { return explainOutput(c, s) },
	}
}

func explainOutput(c *cli.Context, s streams) error {
	t, err := targetOf(c, 1, 1)
	if err != nil {
		return err
	}
	if c.Int("steps") < 0 {
		return refused(fmt.Errorf("--steps %d, expected 0 or more", c.Int("steps")))
	}
	file, line, err := outputLine(t.words[0], s.in)
	if err != nil {
		return refused(err)
	}
	store, err := t.read()
	if err != nil {
		return err
	}
	defer store.Close()
	story, err := t.why(c, store, file, line)
	switch {
	case errors.Is(err, why.ErrNotFound):
		return &exitError{code: exitFailed, kind: "not_found", err: err}
	case errors.Is(err, why.ErrTarget), errors.Is(err, job.ErrUnfit), errors.Is(err, snapstore.ErrNoCheckpoint):
		return refused(err)
	case err != nil:
		return storeError(err)
	}
	return show(c, s, story, func(w io.Writer) { printStory(w, story) })
}

func (t *target) why(c *cli.Context, store *snapstore.Store, file string, line []byte) (*why.Story, error) {
	g, err := t.newest(c, store)
	if err != nil {
		return nil, err
	}
	target, err := why.NewTarget(g.Graph, cmp.Or(c.String("sink"), sinkOf(g.Graph, file)), line)
	if err = errors.Join(err, g.Close()); err != nil {
		return nil, err
	}
	from, code, err := begin(c, store, target)
	if err != nil {
		return nil, err
	}
	lease, err := store.Lease("why", code.ID)
	if err != nil {
		return nil, err
	}
	defer func() { _ = lease.Release() }() // a lease of a process that ended counts no more
	st, err := t.stored(c, store, code)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	if target, err = why.NewTarget(st.Graph, target.Sink.ID, line); err != nil {
		return nil, fmt.Errorf("snapshot %d: %w", code.ID, err)
	}
	dir, err := replay.NewScratch(filepath.Join(t.dir, "replay"))
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	digests := map[string]string{}
	for _, m := range st.Modules {
		digests[m.Operator] = m.Digest
	}
	return why.Explain(c.Context, why.Options{Store: store, From: from, Graph: st.Graph, Module: st.Module, Digests: digests,
		Connect: connect.Env{Stdin: bytes.NewReader(nil), Stdout: io.Discard}, Scratch: dir, Target: target, Steps: c.Int("steps"), Clock: clock.Wall{}})
}

// newest is the code of the newest snapshot.
func (t *target) newest(c *cli.Context, store *snapstore.Store) (*worker.Stored, error) {
	m, err := store.Latest(c.Context)
	if err != nil {
		return nil, err
	}
	return t.stored(c, store, m)
}

func (t *target) stored(c *cli.Context, store *snapstore.Store, m *checkpoint.Manifest) (*worker.Stored, error) {
	g, err := t.graphOf(c, store, m) // for the path of the pipeline file
	if err != nil {
		return nil, err
	}
	return worker.OpenStored(c.Context, store, m, g.File, cacheDir())
}

// begin finds where to begin: from is nil for the beginning, code the snapshot whose code ran then.
func begin(c *cli.Context, store *snapstore.Store, t *why.Target) (from, code *checkpoint.Manifest, err error) {
	word := c.String("from")
	if word != "" && word != "beginning" {
		id, err := resolve(store, word)
		if err != nil {
			return nil, nil, err
		}
		from, err = store.Load(id)
		if err == nil && from.Finished {
			err = refused(fmt.Errorf("snapshot %d is that of the end: nothing came after it", id))
		}
		return from, from, err
	}
	infos, err := store.List()
	if err != nil {
		return nil, nil, err
	}
	oldest := checkpoint.ID(0)
	for _, i := range infos {
		if i.Err != nil {
			continue
		}
		m, err := store.Load(i.ID)
		if err != nil {
			return nil, nil, err
		}
		if oldest == 0 {
			oldest, code = i.ID, m
		}
		if i.ID <= t.Snapshot && !m.Finished && word == "" {
			from, code = m, m
		}
	}
	switch {
	case code == nil:
		return nil, nil, snapstore.ErrNoCheckpoint
	case from == nil && t.Snapshot > 0 && word == "":
		return nil, nil, refused(fmt.Errorf("the output comes after snapshot %d, the oldest that is left is %d: keep more (checkpoint: {retain: …}) or make savepoints; --from begins at another",
			t.Snapshot, oldest))
	}
	return from, code, nil
}

// sinkOf is the sink that a file is of; empty: none, or no file was named.
func sinkOf(g *operators.Graph, file string) string {
	file, err := filepath.Abs(file)
	if err != nil {
		return ""
	}
	for _, n := range g.Nodes {
		if n.Sink == nil || n.Sink.Path == "" {
			continue
		}
		path := n.Sink.Path
		if !filepath.IsAbs(path) {
			path = filepath.Join(n.Sink.Dir, path)
		}
		if filepath.Clean(path) == file || strings.HasPrefix(file, filepath.Clean(path)+string(filepath.Separator)) {
			return n.ID
		}
	}
	return ""
}

// outputLine is the line that an argument names, and the file it is in; empty: it is in none.
func outputLine(word string, stdin io.Reader) (file string, line []byte, err error) {
	if strings.HasPrefix(word, "{") {
		return "", []byte(word), nil
	}
	if word == "-" {
		line, err = lineOf("standard input", stdin, 1)
		return "", line, err
	}
	file, number, ok := cutLast(word, ":")
	n, err := strconv.Atoi(number)
	if !ok || err != nil || n < 1 {
		return "", nil, fmt.Errorf("output %q, expected a line of JSON, FILE:LINE or -", word)
	}
	f, err := os.Open(filepath.Clean(file))
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	line, err = lineOf(file, f, n)
	return file, line, err
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// lineOf reads line n, from 1.
func lineOf(name string, r io.Reader, n int) ([]byte, error) {
	in := bufio.NewReader(r)
	for i := 1; ; i++ {
		line, err := in.ReadBytes('\n')
		if i == n && len(bytes.TrimSpace(line)) > 0 {
			return line, nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if err != nil || i == n {
			return nil, fmt.Errorf("%s has no line %d", name, n)
		}
	}
}
