package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/host/engine"
)

func inspectCommand(s streams) *cli.Command {
	return &cli.Command{
		Name:      "inspect",
		Usage:     "say what a module offers and whether it can be used",
		ArgsUsage: "module.wasm",
		Description: "With --check every function is tried with made-up records, one by one and together, on kept and on fresh\n" +
			"instances, which has to give the same; a build with the tag wasmtime tries them on that engine too.",
		Flags: []cli.Flag{jsonFlag(), &cli.BoolFlag{Name: "check", Usage: "try its functions: what they keep between calls must be state"}},
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return refused(fmt.Errorf("inspect wants one module, got %d arguments", c.NArg()))
			}
			wasm, err := os.ReadFile(c.Args().First())
			if err != nil {
				return refused(err)
			}
			r, err := engine.Inspect(wasm)
			if err != nil {
				return err
			}
			if len(r.Problems) > 0 {
				return &exitError{code: exitRefused, kind: "module", data: r,
					err: errors.New(c.Args().First() + " can't be used:\n  " + strings.Join(r.Problems, "\n  "))}
			}
			if c.Bool("check") {
				return inspectAndCheck(c, s, wasm, r)
			}
			return show(c, s, r, func(w io.Writer) { printReport(w, r) })
		},
	}
}

func printReport(w io.Writer, r engine.Report) {
	fmt.Fprintf(w, "sha256 %s\n%d bytes, %d rewritten\n", r.Digest, r.Bytes, r.RewrittenBytes)
	d := r.Descriptor
	if d == nil {
		fmt.Fprintln(w, "no descriptor: describe it in the pipeline file")
		return
	}
	fmt.Fprintf(w, "%s, ABI v%d, made with %s\n", d.Name, d.ABI, d.SDK)
	for i := range d.Functions {
		printFunction(w, &d.Functions[i])
	}
}

func printFunction(w io.Writer, f *abi.Function) {
	keyed := ""
	if f.Keyed {
		keyed = ", keyed"
	}
	fmt.Fprintf(w, "function %s (%s%s)\n", f.Name, f.Kind, keyed)
	row := func(name string, fields []abi.Field) {
		if len(fields) == 0 {
			return
		}
		var parts []string
		for _, x := range fields {
			parts = append(parts, fmt.Sprintf("%s %s", x.Name, x.Type))
		}
		fmt.Fprintf(w, "  %s: %s\n", name, strings.Join(parts, ", "))
	}
	row("input", f.Input)
	row("output", f.Output)
	if len(f.Outputs) > 0 {
		fmt.Fprintf(w, "  side outputs: %s\n", strings.Join(f.Outputs, ", "))
	}
	for _, st := range f.States {
		fmt.Fprintf(w, "  state %s: %s", st.Name, st.Kind)
		if st.MaxBytes > 0 {
			fmt.Fprintf(w, ", at most %d bytes", st.MaxBytes)
		}
		if st.Prefetched() {
			fmt.Fprint(w, ", comes with the batch")
		}
		if st.TTL != nil {
			fmt.Fprintf(w, ", an entry lives for %v", st.TTL)
		}
		fmt.Fprintln(w)
	}
	if len(f.Timers) > 0 {
		fmt.Fprintf(w, "  timers: %s\n", strings.Join(f.Timers, ", "))
	}
}
