package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/host/clock"
	"github.com/millrace-io/millrace/host/control"
	"github.com/millrace-io/millrace/host/replay"
)

func shadowCommand(s streams) *cli.Command {
	return &cli.Command{
		Name:      "shadow",
		Usage:     "run new code beside a running pipeline on the same input, and say what differs",
		ArgsUsage: stateArgs,
		Description: "Forks the newest snapshot, reads the sources from there by itself, and gives every record to the code that runs and\n" +
			"to the new one: the pipeline file and its modules as they are now, or --module. Nothing is published; the running\n" +
			"pipeline does not notice, but for the processor's time, of which shadow takes what is left. Ctrl-C ends it with\n" +
			"its report. Exit codes: 0 within --max-diff, 1 beyond it or failed, 2 refused.",
		Flags: append(replayFlags(),
			&cli.StringFlag{Name: "from", Value: "latest", Usage: "`SNAPSHOT` to start from"},
			&cli.DurationFlag{Name: "for", Usage: "end after this `TIME`"},
			&cli.Int64Flag{Name: "records", Usage: "end after `N` records of the sources"},
			&cli.StringFlag{Name: "max-diff", Value: "0", Usage: "how many records and timers may differ: a `NUMBER`, or a share such as 0.1%; fuel does not count"},
			&cli.BoolFlag{Name: "promote", Usage: "within --max-diff, put the new code into force, as millrace upgrade does"},
			&cli.Float64Flag{Name: "errors", Usage: "with --promote: `SHARE` of the records that may fail on trial"},
			&cli.DurationFlag{Name: "wait", Value: time.Minute, Usage: "with --promote: how long to wait for the end of the trial"}),
		Action: func(c *cli.Context) error { return shadow(c, s) },
	}
}

// allowance is what --max-diff says.
type allowance struct {
	number int64
	share  float64 // of those compared; -1: number counts
}

func readAllowance(text string) (allowance, error) {
	if p, ok := strings.CutSuffix(text, "%"); ok {
		v, err := strconv.ParseFloat(p, 64)
		if err == nil && v >= 0 && v <= 100 {
			return allowance{share: v / 100}, nil
		}
	} else if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 {
		return allowance{number: n, share: -1}, nil
	}
	return allowance{}, fmt.Errorf("--max-diff %s: expected a number, or a share such as 0.1%%", text)
}

// beyond says that more differs than is allowed.
func (a allowance) beyond(r *replay.Report) bool {
	if a.share < 0 {
		return r.Differ() > a.number
	}
	return float64(r.Differ()) > a.share*float64(r.Compared())
}

func shadow(c *cli.Context, s streams) error {
	allowed, err := readAllowance(c.String("max-diff"))
	if err != nil {
		return refused(err)
	}
	r, err := openComparing(c, c.String("from"))
	if err != nil {
		return err
	}
	defer r.close()
	if err := r.revise(c, true); err != nil {
		return err
	}
	promotion, err := r.promotion(c)
	if err != nil {
		return err
	}
	if promotion != nil {
		defer promotion.Close()
	}
	stepAside()
	stop, done := stopper()
	defer done()
	o := r.options(c)
	o.Clock = clock.Wall{}
	o.End = replay.End{Live: true, Records: c.Int64("records"), For: c.Duration("for"), Stop: stop.c}
	quiet := c.Bool("json")
	o.Progress = func(rep *replay.Report) error {
		if !quiet {
			fmt.Fprintln(s.err, progressLine(rep))
		}
		if allowed.share < 0 && allowed.beyond(rep) {
			stop.now()
		}
		return nil
	}
	res, err := replay.Run(c.Context, o)
	if err != nil {
		return replayError(err)
	}
	rep := res.Report
	if err := res.Close(); err != nil {
		return err
	}
	if allowed.beyond(rep) {
		return different(c, s, rep, fmt.Sprintf("%s, --max-diff allows %s", rep.Verdict(), c.String("max-diff")),
			func(w io.Writer) { printReplay(w, rep) })
	}
	if promotion == nil {
		return show(c, s, rep, func(w io.Writer) { printReplay(w, rep) })
	}
	if !c.Bool("json") {
		printReplay(s.out, rep)
	}
	return promotion.promote(c, s, rep)
}

func progressLine(r *replay.Report) string {
	line := fmt.Sprintf("shadow: %s records read, %s compared, %s differ", thousands(r.Records), thousands(r.Compared()), thousands(r.Differ()))
	for _, o := range r.Operators {
		line += fmt.Sprintf(", %s fuel x %.3f", o.ID, o.FuelRatio())
	}
	return line
}

// stopSwitch is closed once.
type stopSwitch struct {
	c    chan struct{}
	once sync.Once
}

func (s *stopSwitch) now() { s.once.Do(func() { close(s.c) }) }

// stopper is closed by a signal to end.
func stopper() (*stopSwitch, func()) {
	s := &stopSwitch{c: make(chan struct{})}
	sigs := make(chan os.Signal, 1)
	signal.Notify(sigs, os.Interrupt, syscall.SIGTERM)
	over := make(chan struct{})
	go func() {
		select {
		case <-sigs:
			s.now()
		case <-over:
		}
	}()
	return s, func() {
		signal.Stop(sigs)
		close(over)
	}
}

// stepAside leaves the processors to others where they want them: one at a time, and that at low priority.
func stepAside() {
	runtime.GOMAXPROCS(1)
	lowPriority()
}

// promotion is an upgrade that waits for the shadow.
type promotion struct {
	*changing
	request control.ChangeRequest
}

// promotion prepares the upgrade of --promote, nil without: what it would put into force has to be what is shadowed.
func (r *comparing) promotion(c *cli.Context) (_ *promotion, err error) {
	if !c.Bool("promote") {
		return nil, nil
	}
	if r.file == "" {
		return nil, refused(errors.New("--promote wants the pipeline file, whose modules it puts into force"))
	}
	if len(c.StringSlice("module")) > 0 || c.String("pipeline") != "" {
		return nil, refused(errors.New("--promote puts the pipeline file's own modules into force, so that these have to be shadowed: put the new module where the file names it, and leave --module and --pipeline out"))
	}
	cl, err := connectTo(c, r.file)
	if err != nil {
		return nil, err
	}
	p := &promotion{cl, control.ChangeRequest{File: cl.file, ModulesOnly: true, Errors: c.Float64("errors")}}
	plan, err := cl.plan(c.Context, p.request)
	if err == nil && plan.Kind == "" {
		err = refused(errors.New("there is nothing to promote: it runs this file with these modules"))
	}
	if err != nil {
		return nil, errors.Join(err, cl.Close())
	}
	p.request.Plan = plan.Plan // with what it was before the shadow; another one is refused
	return p, nil
}

// promote does the upgrade.
func (p *promotion) promote(c *cli.Context, s streams, rep *replay.Report) error {
	out, err := p.change(c, s, p.request)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return show(c, s, map[string]any{"shadow": rep, "upgrade": out}, func(io.Writer) {})
	}
	return p.onTrial(c, s, out)
}
