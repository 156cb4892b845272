package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/operators/stateview"
)

// stateLive asks the running pipeline.
func stateLive(c *cli.Context, s streams) error {
	if c.IsSet("snapshot") {
		return refused(errors.New("--live is about what runs now, --snapshot about a barrier: only one of the two"))
	}
	dir, err := stateFolder(c)
	if err != nil {
		return refused(err)
	}
	cl, err := dial(dir)
	if err != nil {
		return err
	}
	defer cl.Close()
	p, err := cl.State(c.Context, stateview.Request{Query: queryOf(c), Live: true})
	if err != nil {
		return asked(err)
	}
	page := statePage(p)
	if len(page.Rows) == 0 {
		return &exitError{code: exitFailed, kind: "not_found", err: fmt.Errorf("key %s has nothing now", c.String("key")), data: page}
	}
	fmt.Fprintf(s.err, "live, behind snapshot %d: a crash may undo it\n", page.Snapshot)
	return page.found(c, s)
}
