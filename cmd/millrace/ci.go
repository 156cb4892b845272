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

	"github.com/millrace-io/millrace/host/ci"
)

// ciFormats are what --format takes.
var ciFormats = []string{"text", "json", "markdown"}

func ciCommand(s streams) *cli.Command {
	return &cli.Command{
		Name:      "ci",
		Usage:     "run a recorded slice of a pipeline through changed modules, and say what differs",
		ArgsUsage: "slice.snap",
		Description: "The slice is a snapshot with the input behind it (snapshot export --with-input). Both versions get every\n" +
			"record; outputs, state and fuel are compared record by record, and a policy says what may differ. Neither sources\n" +
			"nor a running pipeline are needed. Exit codes: 0 within the policy, 1 beyond it or failed, 2 refused: the slice\n" +
			"is damaged, or the change does not fit it.",
		Flags: []cli.Flag{
			jsonFlag(),
			&cli.StringSliceFlag{Name: "module", Usage: "`[OPERATOR=]FILE`: the new module, of one operator or of the only module there is"},
			&cli.StringFlag{Name: "pipeline", Usage: "changed pipeline `FILE`, with the modules it names (default: that of the slice)"},
			&cli.StringFlag{Name: "format", Value: "text", Usage: "text, json or markdown (for a comment on a pull request)"},
			&cli.StringFlag{Name: "max-diff", Usage: "how many records may differ: a `NUMBER`, or a share such as 0.1% (default: 0)"},
			&cli.StringFlag{Name: "max-fuel", Usage: "how much more fuel an operator may take, such as `+10%` (default: any)"},
			&cli.StringSliceFlag{Name: "allow", Usage: "`KIND` of differences that do not count: output, state, timer, fault or fuel"},
			&cli.StringFlag{Name: "policy", Usage: "`FILE` that says all of that, also of single operators; flags come before it"},
		},
		Action: func(c *cli.Context) error { return runCI(c, s) },
	}
}

func runCI(c *cli.Context, s streams) error {
	o, policy, err := ciOptions(c)
	if err != nil {
		return refused(err)
	}
	dir, err := os.MkdirTemp("", "millrace-ci-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	o.WorkDir, o.CacheDir = dir, cacheDir()
	r, err := ci.Run(c.Context, o)
	if err != nil {
		return ciError(err)
	}
	r.Judge(policy)
	return printCI(c, s, r)
}

// ciOptions reads the command's arguments.
func ciOptions(c *cli.Context) (o ci.Options, policy *ci.Policy, err error) {
	if c.NArg() != 1 {
		return o, nil, fmt.Errorf("ci wants one slice, got %d arguments", c.NArg())
	}
	if f := c.String("format"); !slices.Contains(ciFormats, f) {
		return o, nil, fmt.Errorf("format %q, expected one of %s", f, strings.Join(ciFormats, ", "))
	}
	if o.Slice, err = filepath.Abs(c.Args().First()); err != nil {
		return o, nil, err
	}
	for _, word := range c.StringSlice("module") {
		m := ci.Module{Path: word}
		if id, path, ok := strings.Cut(word, "="); ok {
			m = ci.Module{Operator: id, Path: path}
		}
		if m.Path, err = filepath.Abs(m.Path); err != nil {
			return o, nil, err
		}
		if _, err := os.Stat(m.Path); err != nil {
			return o, nil, fmt.Errorf("--module %s: %w", word, err)
		}
		o.Modules = append(o.Modules, m)
	}
	if file := c.String("pipeline"); file != "" {
		if o.File, err = filepath.Abs(file); err != nil {
			return o, nil, err
		}
		if o.Text, err = os.ReadFile(file); err != nil {
			return o, nil, err
		}
	}
	if len(o.Modules) == 0 && o.File == "" {
		return o, nil, errors.New("ci wants what changed: --module, --pipeline or both")
	}
	policy, err = ciPolicy(c)
	return o, policy, err
}

// ciPolicy is the policy file with the flags over it.
func ciPolicy(c *cli.Context) (*ci.Policy, error) {
	p := &ci.Policy{}
	if file := c.String("policy"); file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if p, err = ci.ReadPolicy(file, text); err != nil {
			return nil, err
		}
	}
	if c.IsSet("max-diff") {
		p.MaxDiff = c.String("max-diff")
	}
	if c.IsSet("max-fuel") {
		p.MaxFuel = c.String("max-fuel")
	}
	if c.IsSet("allow") {
		p.Allow = c.StringSlice("allow")
	}
	return p, p.Check()
}

// printCI prints a judged report; one beyond the policy is an error with exit code 1.
func printCI(c *cli.Context, s streams, r *ci.Report) error {
	var beyond error
	if !r.Within {
		beyond = &exitError{code: exitFailed, kind: "beyond", data: r, err: fmt.Errorf("beyond the policy: %s", strings.Join(r.Beyond, "; "))}
	}
	switch {
	case c.Bool("json") && beyond != nil: // run prints it
		return beyond
	case c.Bool("json"):
		return show(c, s, r, func(io.Writer) {})
	case c.String("format") == "json":
		writeEnvelope(s.out, envelope{OK: beyond == nil, Data: r})
	case c.String("format") == "markdown":
		r.Markdown(s.out)
	default:
		r.Text(s.out)
	}
	return beyond
}

// ciError gives an error of ci its exit code.
func ciError(err error) error {
	if errors.Is(err, ci.ErrRefused) {
		return refused(err)
	}
	return inputError(err)
}
