package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/host/job"
)

func listSnapshotsCommand(s streams) *cli.Command {
	return snapshotVerb("list", "list the snapshots in a state folder, oldest first", "", "", func(c *cli.Context) error { return listSnapshots(c, s) }, remoteFlag())
}

// snapshotRow is one snapshot as printed.
type snapshotRow struct {
	ID        checkpoint.ID `json:"id"`
	Kind      string        `json:"kind"` // checkpoint, savepoint
	Tags      []string      `json:"tags,omitempty"`
	Note      string        `json:"note,omitempty"`
	Parent    checkpoint.ID `json:"parent,omitempty"` // the one before it, which may have expired
	Origin    string        `json:"origin,omitempty"` // of a fork or an import: job/id
	Created   time.Time     `json:"created"`
	Finished  bool          `json:"finished"`
	Kept      bool          `json:"kept"`      // it does not expire
	Next      bool          `json:"next"`      // the next run starts from it
	Withdrawn bool          `json:"withdrawn"` // it is beside the line that a run goes on with
	Tasks     int           `json:"tasks"`
	Objects   int           `json:"objects"`
	Bytes     int64         `json:"bytes"`
	Added     int64         `json:"added_bytes"`
	SHA256    string        `json:"sha256,omitempty"` // of its manifest
	Code      string        `json:"code,omitempty"`   // digest over pipeline file and modules
	Problem   string        `json:"problem,omitempty"`
}

func rowOf(i snapstore.Info) snapshotRow {
	r := snapshotRow{ID: i.ID, Kind: i.Kind.String(), Tags: i.Tags, Note: i.Note, Parent: i.Parent, Created: time.UnixMilli(i.CreatedMS).UTC(),
		Finished: i.Finished, Kept: i.Kept, Next: i.Newest, Withdrawn: i.Withdrawn, Tasks: i.Tasks, Objects: i.Objects,
		Bytes: i.Bytes, Added: i.StoredBytes, SHA256: i.SHA256}
	if i.Origin != nil {
		r.Origin = fmt.Sprintf("%s/%d", i.Origin.Job, i.Origin.ID)
	}
	if i.Err != nil {
		r.Problem = i.Err.Error()
	}
	return r
}

// codeOf is one digest for all code of a snapshot: what runs behind its barrier.
func codeOf(m *checkpoint.Manifest) string {
	n := m.InForce()
	parts := []string{n.Pipeline}
	for _, mod := range n.Modules {
		parts = append(parts, mod.Operator+" "+mod.Digest)
	}
	if n.Canary != nil {
		for _, mod := range n.Canary.Modules {
			parts = append(parts, fmt.Sprintf("%s %s in %v", mod.Operator, mod.Digest, n.Canary))
		}
	}
	slices.Sort(parts[1:])
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return hex.EncodeToString(sum[:])
}

func listSnapshots(c *cli.Context, s streams) error {
	t, err := targetOf(c, 0, 0)
	if err != nil {
		return err
	}
	if c.Bool("remote") {
		return listRemote(c, s, t)
	}
	store, err := t.read()
	if err != nil {
		return err
	}
	defer store.Close()
	rows, err := rowsOf(store)
	if err != nil {
		return storeError(err)
	}
	pending, err := job.PendingRestore(t.dir)
	if err != nil {
		return storeError(err)
	}
	if pending != 0 {
		for i := range rows {
			rows[i].Next = rows[i].ID == pending
		}
	}
	return show(c, s, rows, func(w io.Writer) {
		if len(rows) == 0 {
			fmt.Fprintf(w, "no complete snapshot in %s\n", t.store())
			return
		}
		printRows(w, rows, time.Now())
	})
}

func rowsOf(store *snapstore.Store) ([]snapshotRow, error) {
	infos, err := store.List()
	if err != nil {
		return nil, err
	}
	rows := make([]snapshotRow, 0, len(infos))
	for _, i := range infos {
		r := rowOf(i)
		if m, err := store.Load(i.ID); err == nil {
			r.Code = codeOf(m)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

func printRows(w io.Writer, rows []snapshotRow, now time.Time) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tKIND\tTAGS\tPARENT\tCREATED (UTC)\tAGE\tBYTES\tADDED\tCODE\t")
	for _, r := range rows {
		if r.Problem != "" && r.Created.UnixMilli() == 0 {
			fmt.Fprintf(t, "%d\t%s\t%s\t\t\t\t\t\t\t%s\n", r.ID, r.Kind, dash(strings.Join(r.Tags, ",")), r.Problem)
			continue
		}
		parent := "-"
		if r.Parent != 0 {
			parent = fmt.Sprint(r.Parent)
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%.8s\t%s\n", r.ID, r.Kind, dash(strings.Join(r.Tags, ",")), parent,
			r.Created.Format(time.DateTime), ageText(now.Sub(r.Created)), r.Bytes, r.Added, r.Code, r.remark())
	}
	t.Flush()
}

// remark is what the columns don't say.
func (r *snapshotRow) remark() string {
	var parts []string
	add := func(on bool, text string) {
		if on {
			parts = append(parts, text)
		}
	}
	add(r.Finished, "complete: the input ended")
	add(r.Origin != "", "from "+r.Origin)
	add(r.Withdrawn, "beside the line")
	add(r.Next, "next start")
	add(r.Note != "", fmt.Sprintf("%.60q", r.Note))
	add(r.Problem != "", r.Problem)
	return strings.Join(parts, "; ")
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// ageText is a duration in its greatest unit: 7s, 12m, 5h, 3d.
func ageText(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(0, int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
