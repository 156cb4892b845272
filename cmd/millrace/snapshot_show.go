package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/checkpoint"
)

func showSnapshotCommand(s streams) *cli.Command {
	return snapshotVerb("show", "say what a snapshot holds", "ID", refWords, func(c *cli.Context) error { return showSnapshot(c, s) })
}

// shown is a snapshot in detail.
type shown struct {
	snapshotRow
	Job       string                    `json:"job"`
	Engine    string                    `json:"engine"`   // version that wrote it
	Pipeline  string                    `json:"pipeline"` // digest of the pipeline file
	Modules   []checkpoint.ModuleRef    `json:"modules"`
	Canary    *checkpoint.Canary        `json:"canary,omitempty"` // on behind its barrier
	Operators []checkpoint.OperatorInfo `json:"operators"`
}

func showSnapshot(c *cli.Context, s streams) error {
	t, err := targetOf(c, 1, 1)
	if err != nil {
		return err
	}
	store, err := t.read()
	if err != nil {
		return err
	}
	defer store.Close()
	id, err := resolve(store, t.words[0])
	if err != nil {
		return err
	}
	d, err := store.Show(c.Context, id)
	if err != nil {
		return storeError(err)
	}
	n := d.Manifest.InForce()
	out := shown{rowOf(d.Info), d.Manifest.Job, d.Manifest.Engine, n.Pipeline, n.Modules, n.Canary, d.Operators}
	out.Code = codeOf(d.Manifest)
	return show(c, s, out, func(w io.Writer) { out.print(w) })
}

func (d *shown) print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	row("snapshot", "%d, %s of %s, sha256 %.12s", d.ID, d.Kind, d.Job, d.SHA256)
	row("created", "%s UTC by millrace %s", d.Created.Format(time.DateTime), d.Engine)
	if len(d.Tags) > 0 {
		row("tags", "%s", strings.Join(d.Tags, ", "))
	}
	if d.Parent != 0 {
		row("parent", "%d", d.Parent)
	}
	if text := d.remark(); text != "" {
		row("is", "%s", text)
	}
	row("size", "%s bytes in %d objects, %s new", thousands(d.Bytes), d.Objects, thousands(d.Added))
	row("code", "%.12s: pipeline file %.12s", d.Code, d.Pipeline)
	for _, m := range d.Modules {
		row("module", "%s: %s, %.12s", m.Operator, m.Path, m.Digest)
	}
	if d.Canary != nil {
		for _, m := range d.Canary.Modules {
			row("canary", "%s: %s, %.12s has %v", m.Operator, m.Path, m.Digest, d.Canary)
		}
	}
	t.Flush()
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nOPERATOR\tTASKS\tWATERMARK\tHOLDS")
	for _, o := range d.Operators {
		mark := "-"
		if o.Watermark != nil {
			mark = watermark(*o.Watermark)
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\n", o.Operator, o.Parallelism, mark, strings.Join(holds(o), "; "))
	}
	t.Flush()
}

// holds says what an operator has in a snapshot.
func holds(o checkpoint.OperatorInfo) []string {
	var parts []string
	for _, st := range o.States {
		parts = append(parts, fmt.Sprintf("%s %s: %s entries, %s bytes", st.Kind, st.Name, thousands(int64(st.Entries)), thousands(st.Bytes)))
	}
	const most = 5
	for i, sp := range o.Splits {
		if i == most {
			parts = append(parts, fmt.Sprintf("and %d more splits", len(o.Splits)-most))
			break
		}
		end := ""
		if sp.Finished {
			end = ", at its end"
		}
		parts = append(parts, fmt.Sprintf("%s: %s records, offset %s%s", sp.Split, thousands(sp.Ordinal), thousands(sp.Offset), end))
	}
	if o.Staged > 0 {
		parts = append(parts, fmt.Sprintf("%d staged files", o.Staged))
	}
	if n, ok := o.Numbers["records"]; ok {
		parts = append(parts, fmt.Sprintf("%s records written", thousands(n)))
	}
	return parts
}
