package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/operators/stateview"
)

// statePage is what get and scan show with --json.
type statePage struct {
	Snapshot   checkpoint.ID     `json:"snapshot"`   // the rows are those of its barrier
	Consistent bool              `json:"consistent"` // false: of running tasks, as far as each has come
	Rows       []json.RawMessage `json:"rows"`
	Next       string            `json:"next,omitempty"` // for --after
}

func stateGet(c *cli.Context, s streams) error {
	if c.Bool("live") {
		return stateLive(c, s)
	}
	return withView(c, "state get", func(ctx context.Context, _ *snapstore.Store, v *stateview.View) error {
		page := statePage{Snapshot: v.ID(), Consistent: true, Rows: []json.RawMessage{}}
		if _, err := v.Scan(ctx, queryOf(c), page.add); err != nil {
			return err
		}
		remarks(s, v)
		return page.found(c, s)
	})
}

func (p *statePage) add(row []byte) error {
	p.Rows = append(p.Rows, append(json.RawMessage(nil), row...))
	return nil
}

// found shows the rows of a key; none is a failure.
func (p *statePage) found(c *cli.Context, s streams) error {
	if len(p.Rows) == 0 {
		return &exitError{code: exitFailed, kind: "not_found", err: fmt.Errorf("key %s has nothing in snapshot %d", c.String("key"), p.Snapshot), data: p}
	}
	return show(c, s, p, func(w io.Writer) {
		for _, r := range p.Rows {
			fmt.Fprintf(w, "%s\n", r)
		}
	})
}

func stateScan(c *cli.Context, s streams) error {
	if c.Int("limit") < 0 {
		return refused(fmt.Errorf("--limit %d, expected 0 or more", c.Int("limit")))
	}
	if c.Bool("live") {
		return stateLive(c, s)
	}
	return withView(c, "state scan", func(ctx context.Context, _ *snapstore.Store, v *stateview.View) error {
		if c.Bool("json") {
			page := statePage{Snapshot: v.ID(), Consistent: true, Rows: []json.RawMessage{}}
			var err error
			if page.Next, err = v.Scan(ctx, queryOf(c), page.add); err != nil {
				return err
			}
			return show(c, s, page, nil)
		}
		out := bufio.NewWriter(s.out)
		next, err := v.Scan(ctx, queryOf(c), func(row []byte) error {
			_, err := out.Write(append(row, '\n'))
			return err
		})
		if err = errors.Join(err, out.Flush()); err != nil {
			return err
		}
		remarks(s, v)
		if next != "" {
			fmt.Fprintf(s.err, "snapshot %d, more with --snapshot %d --after %s\n", v.ID(), v.ID(), next)
		}
		return nil
	})
}

func stateStats(c *cli.Context, s streams) error {
	if c.Int("largest") < 0 {
		return refused(fmt.Errorf("--largest %d, expected 0 or more", c.Int("largest")))
	}
	return withView(c, "state stats", func(ctx context.Context, _ *snapstore.Store, v *stateview.View) error {
		stats, err := v.Stats(ctx, queryOf(c), c.Int("largest"))
		if err != nil {
			return err
		}
		return show(c, s, map[string]any{"snapshot": v.ID(), "states": stats}, func(w io.Writer) {
			for i := range stats {
				printStateStats(w, &stats[i])
			}
		})
	})
}

func printStateStats(w io.Writer, st *stateview.Stats) {
	fmt.Fprintf(w, "%s.%s (%s)\n", st.Operator, st.State, st.Kind)
	t := tabwriter.NewWriter(w, 2, 0, 2, ' ', 0)
	fmt.Fprintf(t, "  entries\t%s of %s keys, %s bytes\n", thousands(st.Live), thousands(st.Keys), thousands(st.LiveBytes))
	fmt.Fprintf(t, "  stored\t%s entries, %s bytes in runs\n", thousands(int64(st.Entries)), thousands(st.Bytes))
	size := func(name string, x stateview.Sizes) {
		fmt.Fprintf(t, "  %s\tp50 %d, p90 %d, p99 %d, max %d bytes\n", name, x.Median, x.P90, x.P99, x.Most)
	}
	size("keys", st.KeySizes)
	size("values", st.ValueSizes)
	fmt.Fprintf(t, "  slots\t%d in use, fullest %d with %d entries, skew %.1f\n", st.Slots.Used, st.Slots.Slot, st.Slots.Most, st.Slots.Skew)
	if x := st.TTL; x != nil {
		fmt.Fprintf(t, "  ttl\t%v of %s time, %s expired at %s\n", time.Duration(x.Millis)*time.Millisecond, x.Domain, thousands(x.Expired), watermark(x.AsOf))
	}
	for _, k := range st.Largest {
		fmt.Fprintf(t, "  large key\t%s: %d entries, %d bytes\n", k.Key, k.Entries, k.Bytes)
	}
	t.Flush()
}

func stateExport(c *cli.Context, s streams) error {
	path, format := c.String("out"), c.String("format")
	if format == "" {
		if format = stateview.FormatNDJSON; strings.HasSuffix(path, ".parquet") {
			format = stateview.FormatParquet
		}
	}
	if path == "" && c.Bool("json") {
		return refused(errors.New("--json needs --out: both would write to stdout"))
	}
	return withView(c, "state export", func(ctx context.Context, _ *snapstore.Store, v *stateview.View) error {
		x, err := exportTo(path, s.out, func(w io.Writer) (stateview.Exported, error) { return v.Export(ctx, queryOf(c), format, w) })
		if err != nil {
			return err
		}
		remarks(s, v)
		if path == "" {
			return nil
		}
		return show(c, s, map[string]any{"snapshot": v.ID(), "file": path, "format": format, "rows": x.Rows}, func(io.Writer) {
			fmt.Fprintf(s.err, "%s rows of snapshot %d in %s\n", thousands(x.Rows), v.ID(), path)
		})
	})
}

// exportTo writes to a new file, which does not stay after an error, or to stdout.
func exportTo(path string, stdout io.Writer, write func(io.Writer) (stateview.Exported, error)) (x stateview.Exported, err error) {
	if path == "" {
		return write(stdout)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return x, refused(err)
	}
	x, err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		err = errors.Join(err, os.Remove(path))
	}
	return x, err
}
