package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/operators/spec"
)

// stateArgs is what commands about a state folder take.
const stateArgs = "[pipeline.yaml or state folder]"

// stateFolder finds the state folder that a command is about: that of --state-dir, of a pipeline file, itself,
// or the only one below the working directory.
func stateFolder(c *cli.Context) (string, error) {
	if c.NArg() > 1 {
		return "", fmt.Errorf("%s wants one pipeline file or state folder, got %d arguments", c.Command.Name, c.NArg())
	}
	return folderOf(c, c.Args().First())
}

// folderOf is stateFolder for an argument that may be empty.
func folderOf(c *cli.Context, arg string) (string, error) {
	base := c.String("state-dir")
	if base == "" && arg != "" {
		base = arg
		if st, err := os.Stat(base); err == nil && st.Mode().IsRegular() {
			g, err := spec.Load(base, spec.Options{})
			if err != nil {
				return "", err
			}
			base = stateDir(c, base, g.Name)
		}
	}
	if base == "" {
		all, err := filepath.Glob(filepath.Join(".millrace", "*", "snapshots"))
		if err != nil {
			return "", err
		}
		if len(all) != 1 {
			return "", fmt.Errorf("%d pipelines have state in .millrace here; name a pipeline file or a state folder", len(all))
		}
		return filepath.Dir(all[0]), nil
	}
	if _, err := os.Stat(filepath.Join(base, "snapshots")); errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("there is no state in %s", base)
	}
	return base, nil
}
