package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/host/lateness"
)

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// printInput says what of a source is late, and what would help.
func printInput(w io.Writer, in lateness.Input) {
	atMost := ""
	if len(in.Splits) > 1 {
		atMost = "at most "
	}
	fmt.Fprintf(w, "  %s: %s records", in.Source, thousands(in.Records))
	if in.Malformed > 0 {
		fmt.Fprintf(w, ", besides %s that can't be read", thousands(in.Malformed))
	}
	if in.Watermark == "" {
		fmt.Fprintln(w, "; they have no time of their own, so none is late")
		return
	}
	with := "watermarks " + in.Watermark
	if in.Watermark == "bounded" {
		with = "out_of_orderness " + job.DelayText(ms(in.DelayMS))
	}
	if in.Timeless > 0 {
		fmt.Fprintf(w, ", %s without time", thousands(in.Timeless))
	}
	fmt.Fprintf(w, ", %s%s late with %s", atMost, thousands(in.Late), with)
	if in.Furthest == 0 {
		fmt.Fprintln(w, "; all are in order")
	} else {
		fmt.Fprintf(w, "; out_of_orderness %s would do (the furthest is %v behind)\n", job.DelayText(ms(in.Furthest)), ms(in.Furthest))
	}
	for _, s := range in.Splits {
		printSplit(w, s)
	}
	for _, x := range in.Windows {
		printWindow(w, x, atMost)
	}
}

func printSplit(w io.Writer, s lateness.Split) {
	fmt.Fprintf(w, "    %s: %s records, %s out of order, %s late, the furthest %v behind", s.Split, thousands(s.Records), thousands(s.Behind), thousands(s.Late), ms(s.Furthest))
	if s.Future > 0 {
		fmt.Fprintf(w, ", %s in the future", thousands(s.Future))
	}
	fmt.Fprintln(w)
}

func printWindow(w io.Writer, x lateness.Window, atMost string) {
	become := "dropped"
	if x.Kept {
		become = "sent to its output late"
	}
	if x.Session {
		atMost = "at most "
	}
	fmt.Fprintf(w, "    %s: with lateness %s, %s%s of them would be %s", x.Operator, job.DelayText(ms(x.Lateness)), atMost, thousands(x.Late), become)
	if len(x.Through) > 0 {
		fmt.Fprintf(w, " (as the source has them, not as %s gives them on)", strings.Join(x.Through, ", "))
	}
	fmt.Fprintln(w)
}
