package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/host/engine"
	"github.com/millrace-io/millrace/host/modcheck"
	"github.com/millrace-io/millrace/host/worker"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/guestop"
)

// inspected is a module's report with what the check found.
type inspected struct {
	engine.Report
	Check *modcheck.Report `json:"check"`
}

// inspectAndCheck tries the functions of a module; r is what can be said of it otherwise.
func inspectAndCheck(c *cli.Context, s streams, wasm []byte, r engine.Report) error {
	if r.Descriptor == nil {
		return refused(errors.New("the module does not describe itself, so its functions can't be tried; lint tries those of a pipeline file"))
	}
	checked, err := checkModule(c.Context, wasm)
	if err != nil {
		return err
	}
	out := inspected{r, checked}
	if err := checked.Err(c.Args().First()); err != nil {
		return &exitError{code: exitRefused, kind: "module", data: out, err: err}
	}
	return show(c, s, out, func(w io.Writer) {
		printReport(w, r)
		if checked.Exempt != "" {
			fmt.Fprintf(w, "not checked: %s\n", checked.Exempt)
		}
		for i := range checked.Functions {
			f := &checked.Functions[i]
			fmt.Fprintln(w, f)
			for _, n := range f.Notes {
				fmt.Fprintf(w, "  note: %s\n", n)
			}
		}
	})
}

// checkModule checks a module, in a build that has it against the second engine.
func checkModule(ctx context.Context, wasm []byte) (r *modcheck.Report, err error) {
	first, err := engine.New(ctx, engine.Options{CacheDir: cacheDir()})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, first.Close(ctx)) }()
	m, err := first.Compile(ctx, wasm, nil)
	if err != nil {
		return nil, err
	}
	defer closeModule(m, &err)
	o := modcheck.Options{}
	if second, engineErr := engine.New(ctx, engine.Options{Wasmtime: true}); engineErr == nil {
		defer func() { err = errors.Join(err, second.Close(ctx)) }()
		if o.Other, err = second.Compile(ctx, wasm, nil); err != nil {
			return nil, err
		}
		defer closeModule(o.Other, &err)
		o.OtherName = worker.EngineWasmtime
	}
	return modcheck.Module(ctx, m, o)
}

func closeModule(m guestop.Module, err *error) {
	if c, ok := m.(io.Closer); ok {
		*err = errors.Join(*err, c.Close())
	}
}

// tryFunctions checks the functions of a pipeline that were not checked before.
func tryFunctions(c *cli.Context, g *operators.Graph) ([]modcheck.Checked, error) {
	checked, err := worker.Check(c.Context, g, cacheDir())
	var leaky *modcheck.Error
	if errors.As(err, &leaky) {
		return nil, &exitError{code: exitRefused, kind: "module", data: map[string]any{"functions": checked}, err: err}
	}
	return checked, err
}
