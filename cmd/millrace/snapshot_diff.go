package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/checkpoint"
)

func diffSnapshotsCommand(s streams) *cli.Command {
	return snapshotVerb("diff", "say what changed from one snapshot to another", "ID ID", refWords, func(c *cli.Context) error { return diffSnapshots(c, s) })
}

func diffSnapshots(c *cli.Context, s streams) error {
	t, err := targetOf(c, 2, 2)
	if err != nil {
		return err
	}
	store, err := t.read()
	if err != nil {
		return err
	}
	defer store.Close()
	var ids [2]checkpoint.ID
	for i, word := range t.words {
		if ids[i], err = resolve(store, word); err != nil {
			return err
		}
	}
	d, err := store.Diff(c.Context, ids[0], ids[1])
	if err != nil {
		return storeError(err)
	}
	return show(c, s, d, func(w io.Writer) { printDiff(w, d) })
}

func printDiff(w io.Writer, d checkpoint.Diff) {
	fmt.Fprintf(w, "%d -> %d, made %v later\n", d.A, d.B, time.Duration(d.ElapsedMS)*time.Millisecond)
	fmt.Fprintf(w, "objects: %d new (%s bytes), %d gone (%s bytes), %d in both (%s bytes)\n", len(d.Added), thousands(d.AddedB),
		len(d.Removed), thousands(d.RemovedB), d.Shared, thousands(d.SharedB))
	if d.Pipeline {
		fmt.Fprintln(w, "the pipeline file is another")
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, o := range d.Operators {
		switch {
		case o.A == nil:
			fmt.Fprintf(t, "%s\tnew\n", o.Operator)
			continue
		case o.B == nil:
			fmt.Fprintf(t, "%s\tgone\n", o.Operator)
			continue
		}
		if o.ModuleChanged {
			fmt.Fprintf(t, "%s\tmodule %.12s -> %.12s\n", o.Operator, o.A.Module, o.B.Module)
		}
		if a, b := o.A.Canary.String(), o.B.Canary.String(); a != b {
			fmt.Fprintf(t, "%s\tcanary %s -> %s\n", o.Operator, a, b)
		}
		if o.WatermarkMS != 0 {
			fmt.Fprintf(t, "%s\twatermark %s -> %s\n", o.Operator, watermark(*o.A.Watermark), watermark(*o.B.Watermark))
		}
		for _, st := range o.States {
			fmt.Fprintf(t, "%s\tstate %s: %+d entries, %+d bytes, %d new objects, %d gone\n", o.Operator, st.Name, st.Entries, st.Bytes, len(st.Added), len(st.Removed))
		}
		for _, sp := range o.Splits {
			fmt.Fprintf(t, "%s\tsplit %s: %+d records, %+d in offset\n", o.Operator, sp.Split, sp.Records, sp.Offset)
		}
		if n := o.B.Numbers["records"] - o.A.Numbers["records"]; n != 0 {
			fmt.Fprintf(t, "%s\t%+d records written\n", o.Operator, n)
		}
	}
	t.Flush()
}
