package main

import (
	"fmt"
	"io"
	"runtime"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/host/engine"
	"github.com/millrace-io/millrace/host/job"
)

type versionInfo struct {
	Version     string `json:"version"`
	Engine      string `json:"engine"`
	ABI         int    `json:"abi"`
	StateFormat int    `json:"state_format"`
	Go          string `json:"go"`
}

func versionCommand(s streams) *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "print the release, the engine, and the versions of ABI and state format",
		Flags: []cli.Flag{jsonFlag()},
		Action: func(c *cli.Context) error {
			v := versionInfo{job.Version, engine.Version, abi.Version, checkpoint.FormatVersion, runtime.Version()}
			return show(c, s, v, func(w io.Writer) {
				fmt.Fprintf(w, "millrace %s\nengine %s\nABI v%d\nstate format %d\n%s\n", v.Version, v.Engine, v.ABI, v.StateFormat, v.Go)
			})
		},
	}
}
