package main

import (
	"fmt"

	"github.com/urfave/cli/v2"
)

func snapshotCommand(s streams) *cli.Command {
	cmd := &cli.Command{
		Name:  "snapshot",
		Usage: "make, look at, keep, move and go back to snapshots of a pipeline",
		Description: "A snapshot binds code, state, timers, watermarks and positions in the input under one id. Checkpoints are\n" +
			"made by themselves and expire, savepoints are asked for and stay. All work beside a running pipeline.\n" + refWords,
		Flags: []cli.Flag{jsonFlag()},
		Subcommands: []*cli.Command{
			createSnapshotCommand(s), listSnapshotsCommand(s), showSnapshotCommand(s), diffSnapshotsCommand(s),
			tagSnapshotCommand(s), untagSnapshotCommand(s), verifySnapshotsCommand(s), exportSnapshotCommand(s),
			importSnapshotCommand(s), forkSnapshotCommand(s), restoreSnapshotCommand(s), pruneSnapshotsCommand(s),
			deleteSnapshotsCommand(s), pushSnapshotCommand(s), pullSnapshotCommand(s),
		},
	}
	cmd.Action = func(c *cli.Context) error {
		if !c.Args().Present() {
			return cli.ShowSubcommandHelp(c)
		}
		var names []string
		for _, sub := range cmd.Subcommands {
			names = append(names, sub.Name)
		}
		return refused(fmt.Errorf("no command %q%s", "snapshot "+c.Args().First(), didYouMean(c.Args().First(), names)))
	}
	return cmd
}

// snapshotVerb makes a command about a pipeline's snapshots: args is what it takes besides the pipeline.
func snapshotVerb(name, usage, args, description string, action cli.ActionFunc, flags ...cli.Flag) *cli.Command {
	if args != "" {
		args = " " + args
	}
	return &cli.Command{Name: name, Usage: usage, ArgsUsage: stateArgs + args, Description: description,
		Flags: append([]cli.Flag{stateDirFlag(), jsonFlag()}, flags...), Action: action}
}
