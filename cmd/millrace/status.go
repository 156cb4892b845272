package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/host/control"
)

func statusCommand(s streams) *cli.Command {
	return &cli.Command{
		Name:      "status",
		Usage:     "say what a running pipeline does",
		ArgsUsage: stateArgs,
		Description: "Asks the process that runs it, through a socket in the state folder. Exit codes: 0 it runs, 1 it does not,\n" +
			"2 there is no such state folder, or it is another user's.",
		Flags: []cli.Flag{stateDirFlag(), jsonFlag(),
			&cli.BoolFlag{Name: "watch", Usage: "print the operators again every second, until Ctrl-C or the end of the run"}},
		Action: func(c *cli.Context) error { return status(c, s) },
	}
}

func status(c *cli.Context, s streams) error {
	dir, err := stateFolder(c)
	if err != nil {
		return refused(err)
	}
	cl, err := dial(dir)
	if err != nil {
		return err
	}
	defer cl.Close()
	if c.Bool("watch") {
		return watch(c, s, cl)
	}
	in, err := lookTwice(c.Context, cl, rateOver)
	if err != nil {
		return err
	}
	return show(c, s, in, func(w io.Writer) { printStatus(w, in) })
}

// dial connects to the pipeline that runs on a state folder.
func dial(dir string) (*control.Client, error) {
	cl, err := control.Dial(dir)
	if err != nil {
		return nil, asked(err)
	}
	return cl, nil
}

// controlExits are the exit codes of errors that a running pipeline answers with.
var controlExits = map[control.Kind]int{
	control.KindBadRequest: exitRefused, control.KindNotFound: exitRefused, control.KindNotPermitted: exitRefused,
	control.KindRefused: exitRefused, control.KindDamaged: exitRefused, control.KindUnsupported: exitRefused,
	control.KindBusy: exitBusy,
}

// asked gives an error of the control socket its exit code.
func asked(err error) error {
	var e *control.Error
	switch {
	case errors.Is(err, control.ErrNotRunning):
		return &exitError{code: exitFailed, kind: "not_running", err: err}
	case errors.Is(err, control.ErrNotPermitted):
		return &exitError{code: exitRefused, kind: string(control.KindNotPermitted), err: err}
	case errors.As(err, &e):
		code := exitFailed
		if x, ok := controlExits[e.Kind]; ok {
			code = x
		}
		return &exitError{code: code, kind: string(e.Kind), err: err}
	}
	return &exitError{code: exitFailed, kind: string(control.KindFailed), err: err}
}

func printStatus(w io.Writer, in control.Info) {
	st := in.Stats
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	row("pipeline", "%s, code %.12s, process %d since %s UTC", in.Pipeline, in.Digest, in.PID, time.UnixMilli(in.StartedMS).UTC().Format(time.DateTime))
	row("file", "%s", in.File)
	row("state", "%s", in.StateDir)
	for _, m := range in.Modules {
		row("module", "%s: %s, %.12s", m.Operator, m.Path, m.Digest)
	}
	row("read", "%s records", thousands(st.Read))
	row("watermark", "%s", watermark(st.Watermark))
	if st.Checkpoint == 0 {
		row("checkpoint", "none yet")
	} else {
		row("checkpoint", "%d, %.1f s ago; %d since the start", st.Checkpoint, float64(st.CheckpointAgeMS)/1000, st.Checkpoints)
	}
	if st.Failed > 0 {
		row("given up", "%d checkpoints, %d of them in a row now; the last: %s", st.Failed, st.FailuresInARow, st.LastFailure)
	}
	if st.Remote != nil {
		row("uploaded", "%s", uploadText(*st.Remote, time.Now()))
	}
	if u := in.Upgrade; u != nil {
		row("upgrade", "%s, at checkpoint %d: %s%s", u.State, u.Checkpoint, u.What, because(u.Reason))
		if u.Held > 0 {
			row("held", "output since checkpoint %d, for %d more checkpoints", u.Checkpoint, u.Held)
		}
	}
	for _, r := range canaryRows(in.Canary) {
		row(r[0], "%s", r[1])
	}
	if st.Restarts > 0 {
		row("restarts", "%d", st.Restarts)
	}
	if st.Paused != "" {
		row("waits", "to start again after: %s", st.Paused)
	}
	row("queued", "%s bytes", thousands(st.QueuedBytes))
	t.Flush()
	printOperators(w, st.Operators)
}
