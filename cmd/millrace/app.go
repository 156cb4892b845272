package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1 // the pipeline ran and failed
	exitRefused     = 2 // wrong usage, pipeline file, module or state: nothing ran
	exitBusy        = 3 // another run has the state folder
	exitHungUp      = 129
	exitInterrupted = 130
	exitTerminated  = 143
)

// streams are the process's three: data goes to out, talk to err.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// exitError carries an exit code.
type exitError struct {
	code int
	kind string // for the JSON envelope
	err  error
	data any // for the JSON envelope, besides the error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func refused(err error) error {
	return &exitError{code: exitRefused, kind: "refused", err: err}
}

// run is main without the process.
func run(ctx context.Context, args []string, s streams) int {
	app := newApp(s)
	args, err := reorder(app, args)
	if err == nil {
		err = app.RunContext(ctx, args)
	} else {
		err = refused(err)
	}
	if err == nil {
		return exitOK
	}
	var x *exitError
	if !errors.As(err, &x) {
		x = &exitError{code: exitRefused, kind: "usage", err: err}
	}
	if wantsJSON(args) {
		writeEnvelope(s.out, envelope{Error: problemOf(x), Data: x.data})
	} else if x.err != nil && x.err.Error() != "" {
		fmt.Fprintln(s.err, "millrace: "+x.err.Error())
	}
	return x.code
}

func wantsJSON(args []string) bool { return slices.Contains(args, "--json") }

func newApp(s streams) *cli.App {
	return &cli.App{
		Name:            "millrace",
		Usage:           "stream processing with sandboxed WebAssembly functions",
		Writer:          s.out,
		ErrWriter:       s.err,
		HideVersion:     true,
		HideHelpCommand: true,
		Commands: []*cli.Command{
			quickstartCommand(s), runCommand(s), lintCommand(s), explainCommand(s), inspectCommand(s),
			schemaCommand(s), snapshotCommand(s), stateCommand(s), statusCommand(s), stopCommand(s), ciCommand(s), replayCommand(s), shadowCommand(s), upgradeCommand(s), canaryCommand(s), diffCommand(s), applyCommand(s), rollbackCommand(s), versionCommand(s), whyCommand(s), workerCommand(s),
		},
		ExitErrHandler: func(*cli.Context, error) {}, // run decides
		OnUsageError:   func(_ *cli.Context, err error, _ bool) error { return refused(err) },
		CommandNotFound: func(c *cli.Context, name string) {
			fmt.Fprintf(s.err, "millrace: no command %q%s\n", name, didYouMean(name, commandNames(c.App)))
		},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return refused(fmt.Errorf("no command %q%s", c.Args().First(), didYouMean(c.Args().First(), commandNames(c.App))))
			}
			return cli.ShowAppHelp(c)
		},
	}
}

func commandNames(a *cli.App) []string {
	var names []string
	for _, c := range a.Commands {
		if !c.Hidden {
			names = append(names, c.Name)
		}
	}
	return names
}

// jsonFlag is on every command that prints something for people.
func jsonFlag() cli.Flag {
	return &cli.BoolFlag{Name: "json", Usage: "print one JSON envelope on stdout instead of text"}
}

// reorder moves flags before positional arguments, as the flag package stops at the first of those: flags
// are accepted anywhere, until "--".
func reorder(app *cli.App, args []string) ([]string, error) {
	if len(args) < 2 {
		return args, nil
	}
	cmd, depth := findCommand(app.Commands, args[1:])
	if cmd == nil {
		return args, nil
	}
	head, rest := args[:1+depth], args[1+depth:]
	takes := valueFlags(cmd)
	var flags, words []string
	for i := 0; i < len(rest); i++ {
		a := rest[i]
		if a == "--" {
			words = append(words, rest[i+1:]...)
			break
		}
		if !strings.HasPrefix(a, "-") || a == "-" {
			words = append(words, a)
			continue
		}
		flags = append(flags, a)
		name := strings.TrimLeft(a, "-")
		if strings.Contains(name, "=") || !takes[name] {
			continue
		}
		if i+1 == len(rest) {
			return nil, fmt.Errorf("flag --%s wants a value", name)
		}
		i++
		flags = append(flags, rest[i])
	}
	out := append(slices.Clone(head), flags...)
	if len(words) > 0 {
		out = append(append(out, "--"), words...)
	}
	return out, nil
}

// findCommand follows command names; depth is how many words name the command.
func findCommand(cmds []*cli.Command, words []string) (cmd *cli.Command, depth int) {
	for len(words) > 0 {
		i := slices.IndexFunc(cmds, func(c *cli.Command) bool { return c.HasName(words[0]) })
		if i < 0 {
			break
		}
		cmd, cmds, words = cmds[i], cmds[i].Subcommands, words[1:]
		depth++
	}
	return cmd, depth
}

// valueFlags are the names of a command's flags that take a value.
func valueFlags(cmd *cli.Command) map[string]bool {
	takes := map[string]bool{}
	for _, f := range cmd.Flags {
		if _, ok := f.(*cli.BoolFlag); ok {
			continue
		}
		for _, n := range f.Names() {
			takes[n] = true
		}
	}
	return takes
}
