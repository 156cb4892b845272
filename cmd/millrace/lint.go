package main

import (
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/operators/spec"
)

func lintCommand(s streams) *cli.Command {
	return &cli.Command{
		Name:      "lint",
		Usage:     "check a pipeline file and its modules, print all problems at once",
		ArgsUsage: "pipeline.yaml",
		Flags:     []cli.Flag{jsonFlag()},
		Action: func(c *cli.Context) error {
			path, err := pipelineArg(c)
			if err != nil {
				return err
			}
			g, err := load(c.Context, path)
			if err != nil {
				return err
			}
			checked, err := tryFunctions(c, g)
			if err != nil {
				return err
			}
			return show(c, s, map[string]any{"name": g.Name, "operators": len(g.Nodes), "functions": checked}, func(w io.Writer) {
				fmt.Fprintf(w, "%s: %s is fine, %d operators\n", path, g.Name, len(g.Nodes))
				for i := range checked {
					if checked[i].NotChecked != "" {
						fmt.Fprintf(w, "  %s: %s\n", checked[i].Operator, checked[i].String())
					}
				}
			})
		},
	}
}

func schemaCommand(s streams) *cli.Command {
	return &cli.Command{
		Name:  "schema",
		Usage: "print the JSON Schema of pipeline files",
		Action: func(*cli.Context) error {
			_, err := s.out.Write(append(spec.Schema(), '\n'))
			return err
		},
	}
}
