package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/host/control"
)

const (
	rateOver   = 250 * time.Millisecond // between the two looks of one status
	watchEvery = time.Second
)

// lookTwice asks two times, so that there are rates.
func lookTwice(ctx context.Context, cl *control.Client, apart time.Duration) (control.Info, error) {
	first, err := cl.Info(ctx)
	if err != nil {
		return first, asked(err)
	}
	at := time.Now()
	if err := sleep(ctx, apart); err != nil {
		return first, err
	}
	second, err := cl.Info(ctx)
	if err != nil {
		return second, asked(err)
	}
	rates(first.Stats.Operators, second.Stats.Operators, time.Since(at))
	return second, nil
}

// watch prints the operators every second; with --json an object per line.
func watch(c *cli.Context, s streams, cl *control.Client) error {
	last, err := cl.Info(c.Context)
	if err != nil {
		return asked(err)
	}
	for at := time.Now(); ; {
		if sleep(c.Context, watchEvery) != nil {
			return nil // Ctrl-C
		}
		in, err := cl.Info(c.Context)
		if c.Context.Err() != nil || errors.Is(err, control.ErrNotRunning) {
			return nil
		}
		if err != nil {
			return asked(err)
		}
		rates(last.Stats.Operators, in.Stats.Operators, time.Since(at))
		last, at = in, time.Now()
		if err := show(c, s, in, func(w io.Writer) {
			fmt.Fprintf(w, "%s  read %s, checkpoint %d, %.1f s ago, restarts %d\n", at.UTC().Format(time.TimeOnly), thousands(in.Stats.Read), in.Stats.Checkpoint,
				float64(in.Stats.CheckpointAgeMS)/1000, in.Stats.Restarts)
			printOperators(w, in.Stats.Operators)
		}); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// rates fills in what operators did per second between two looks. A counter that went down began anew.
func rates(was, is []control.OperatorStats, apart time.Duration) {
	for i := range is {
		o := &is[i]
		for _, before := range was {
			if before.ID != o.ID || before.Unanswered+o.Unanswered > 0 {
				continue
			}
			o.Rates = map[string]float64{}
			for _, name := range []string{"in", "out", "written", "fuel"} {
				if d := o.Counters[name] - before.Counters[name]; d > 0 {
					o.Rates[name] = math.Round(float64(d)/apart.Seconds()*10) / 10
				}
			}
		}
	}
}

// lag is how far a watermark is behind the clock in ms; -1: there is none, or it is at the end.
func lag(watermarkMS int64) int64 {
	if watermarkMS == math.MinInt64 || watermarkMS == math.MaxInt64 {
		return -1
	}
	return max(0, nowMS()-watermarkMS)
}

// printOperators is the table of status.
func printOperators(w io.Writer, ops []control.OperatorStats) {
	if len(ops) == 0 {
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "operator\tin\tout\tper s\tlag\tlate\tskipped\tdead\tfaults\tstate\tbytes\tfuel\tresets")
	for _, o := range ops {
		c := o.Counters
		out := c["out"] + c["written"] + c["results"]
		perSecond := max(o.Rates["in"], o.Rates["out"], o.Rates["written"])
		cells := []string{o.ID, thousands(c["in"]), thousands(out), thousands(int64(perSecond)), lagText(o),
			thousands(c["late"]), thousands(c["skipped"]), thousands(c["dead letters"]), thousands(c["faults"]),
			thousands(c["state entries"]), thousands(c["state bytes in memory"] + c["state bytes in files"]), thousands(c["fuel"]), thousands(c["resets"])}
		for i, text := range cells {
			if text == "0" {
				cells[i] = "-"
			}
		}
		if o.Unanswered > 0 {
			cells = append(cells, fmt.Sprintf("(%d tasks are busy)", o.Unanswered))
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	t.Flush()
}

func lagText(o control.OperatorStats) string {
	if o.LagMS < 0 {
		return "-"
	}
	return short(time.Duration(o.LagMS) * time.Millisecond)
}

// short is a duration to the second, above a second.
func short(d time.Duration) string {
	if d > time.Second {
		d = d.Round(time.Second)
	}
	return d.String()
}
