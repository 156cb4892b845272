package main

import (
	"os"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/host/worker"
	"github.com/millrace-io/millrace/operators/connect"
)

// Descriptors on which a worker process talks; stdin and stdout are the pipeline's.
const (
	workerIn  = 3
	workerOut = 4
)

// workerCommand is what this program starts itself as.
func workerCommand(s streams) *cli.Command {
	return &cli.Command{
		Name:   "worker",
		Usage:  "run one pipeline for the process that started this one",
		Hidden: true,
		Action: func(c *cli.Context) error {
			in, out := os.NewFile(workerIn, "control in"), os.NewFile(workerOut, "control out")
			return worker.Serve(c.Context, in, out, worker.Options{Connect: connect.Env{Stdin: s.in, Stdout: s.out}, Secrets: secrets()})
		},
	}
}
