package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/host/worker"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/spec"
)

// cacheDir is where compiled modules are kept, of this user alone.
func cacheDir() string {
	base, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(base, "millrace", "compiled")
}

// pipelineArg is the one positional argument of commands about a pipeline file.
func pipelineArg(c *cli.Context) (string, error) {
	if c.NArg() != 1 {
		return "", refused(fmt.Errorf("%s wants one pipeline file, got %d arguments", c.Command.Name, c.NArg()))
	}
	return c.Args().First(), nil
}

// load reads a pipeline file and checks it against its modules.
func load(ctx context.Context, path string) (*operators.Graph, error) {
	mods, err := worker.NewModules(ctx, cacheDir())
	if err != nil {
		return nil, err
	}
	defer mods.Close()
	g, err := spec.Load(path, spec.Options{Modules: mods})
	if err != nil {
		return nil, loadError(err)
	}
	if g.File, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	return g, nil
}

func loadError(err error) error {
	x := &exitError{code: exitRefused, kind: "refused", err: err}
	var ps spec.Problems
	if errors.As(err, &ps) {
		x.kind, x.data = "pipeline", map[string]any{"problems": ps}
	}
	return x
}

// stateDir is the state folder: as the flag says, or .millrace/<pipeline> beside the pipeline file, wherever
// the command is run from.
func stateDir(c *cli.Context, file, pipeline string) string {
	if d := c.String("state-dir"); d != "" {
		return d
	}
	return filepath.Join(filepath.Dir(file), ".millrace", pipeline)
}

func stateDirFlag() cli.Flag {
	return &cli.StringFlag{Name: "state-dir", Usage: "folder of snapshots and staged output (default: .millrace/<pipeline> beside the pipeline file)"}
}
