package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/host/lateness"
	"github.com/millrace-io/millrace/host/task"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/connect"
	"github.com/millrace-io/millrace/operators/window"
)

func explainCommand(s streams) *cli.Command {
	return &cli.Command{
		Name:      "explain",
		Usage:     "draw the plan of a pipeline and say what is promised where",
		ArgsUsage: "pipeline.yaml",
		Flags: []cli.Flag{jsonFlag(),
			&cli.BoolFlag{Name: "late", Usage: "read the input, without running anything, and say how many records would be late"}},
		Action: func(c *cli.Context) error {
			path, err := pipelineArg(c)
			if err != nil {
				return err
			}
			g, err := load(c.Context, path)
			if err != nil {
				return err
			}
			p := explain(g)
			if c.Bool("late") {
				if p.Input, err = lateness.Read(c.Context, g, connect.Env{}); err != nil {
					return refused(err)
				}
			}
			return show(c, s, p, func(w io.Writer) { p.print(w) })
		},
	}
}

// plan is what explain shows.
type plan struct {
	Name     string           `json:"name"`
	Mode     planMode         `json:"mode"`
	Tasks    int              `json:"tasks"`
	Vertices []planVertex     `json:"vertices"`
	Promises []planPoint      `json:"promises"`
	State    []string         `json:"state"`
	Input    []lateness.Input `json:"input,omitempty"` // only if asked for
}

type planVertex struct {
	ID          string   `json:"id"`
	Parallelism int      `json:"parallelism"`
	Chain       []string `json:"chain"`
	Inputs      []string `json:"inputs"`
}

type planPoint struct {
	Operator string `json:"operator"`
	Promise  string `json:"promise"`
	Why      string `json:"why"`
}

var modeNames = map[task.Mode]string{task.Forward: "one to one", task.ByKey: "by key", task.BySplit: "by split"}

func explain(g *operators.Graph) plan {
	jp := job.NewPlan(job.Clamp(g, nil))
	p := plan{Name: g.Name, Mode: modeOf(g), Tasks: jp.Tasks()}
	for _, v := range jp.Vertices {
		pv := planVertex{ID: v.ID, Parallelism: v.Parallelism}
		for _, n := range v.Nodes {
			pv.Chain = append(pv.Chain, nodeText(g, n))
		}
		for _, h := range v.In {
			pv.Inputs = append(pv.Inputs, fmt.Sprintf("%s%s, %s", h.Edge.From, outputText(jp, h.Edge), modeNames[h.Mode]))
		}
		p.Vertices = append(p.Vertices, pv)
	}
	for _, n := range g.Nodes {
		p.promise(g, n)
		p.probation(g, n)
		if n.Window != nil {
			p.State = append(p.State, fmt.Sprintf("%s.windows: one value per key, %s", n.ID, g.StateKind))
			if window.KeepsRecords(n.Window) {
				p.State = append(p.State, fmt.Sprintf("%s.contents: every record of open windows, %s", n.ID, g.StateKind))
			}
		}
		if n.Guest != nil && n.Guest.Fn != nil {
			for _, st := range n.Guest.Fn.States {
				text := fmt.Sprintf("%s.%s: %s state, %s", n.ID, st.Name, st.Kind, g.StateKind)
				if st.TTL != nil {
					text += fmt.Sprintf(", an entry lives for %v", st.TTL)
				}
				p.State = append(p.State, text)
			}
		}
	}
	return p
}

// promise says what a source or sink promises and why.
func (p *plan) promise(g *operators.Graph, n *operators.Node) {
	if n.Source == nil && n.Sink == nil {
		return
	}
	x := planPoint{Operator: n.ID, Promise: string(connect.Promise(n))}
	switch {
	case n.Source != nil && connect.Promise(n) == operators.PromiseLossy:
		x.Why = "the input can't be read again"
	case n.Source != nil:
		x.Why = "every record changes state once: after a crash the source reads again from its checkpoint"
	case n.Sink.Connector == "stdout":
		x.Why = "lines are printed at once; after a crash those since the last checkpoint come again"
	case n.Sink.Connector == "blackhole":
		x.Why = "nothing is kept"
	case n.Sink.Single:
		x.Why = "staged, and published by one rename after the input's end"
	default:
		x.Why = fmt.Sprintf("staged, and published by renames after each checkpoint (every %v)", g.Checkpoint.Interval)
		if g.Checkpoint.Interval == 0 {
			x.Why = "staged, and published by renames after the input's end: a run that is killed has published nothing and starts at the beginning"
		}
	}
	if n.Sink != nil {
		for _, src := range g.Nodes {
			if src.Source != nil && connect.Promise(src) == operators.PromiseLossy && x.Promise == string(operators.PromiseExactlyOnce) {
				x.Promise = "at most once since the last checkpoint"
				x.Why += "; but source " + src.ID + " can't be read again"
			}
		}
	}
	p.Promises = append(p.Promises, x)
}

// probation says what an upgrade's probation means for a sink.
func (p *plan) probation(g *operators.Graph, n *operators.Node) {
	k := g.Checkpoint.Probation
	if n.Sink == nil || k == 0 {
		return
	}
	x := planPoint{Operator: n.ID, Promise: "no probation"}
	if problems := job.ProbationProblems(g, nil); len(problems) > 0 {
		x.Why = "upgrades are refused: " + strings.Join(problems, "; ")
	} else {
		x.Promise = fmt.Sprintf("probation of %d checkpoints", k)
		x.Why = fmt.Sprintf("after an upgrade output is held back, and comes up to %v later", job.ProbationDelay(g, k))
	}
	p.Promises = append(p.Promises, x)
}

func nodeText(g *operators.Graph, n *operators.Node) string {
	what := string(n.Kind)
	switch {
	case n.Source != nil:
		what = fmt.Sprintf("source %s (%s)", n.Source.Connector, n.Source.Format)
		if n.Source.Key != nil {
			what += ", key " + strings.Join(n.Source.Key.Fields, "+")
		}
		if n.Source.Time != nil {
			what += ", " + n.Source.Time.String()
		}
	case n.Guest != nil:
		what = fmt.Sprintf("%s %s of %s, on error %s", n.Guest.Kind, n.Guest.Function, n.Guest.Module, n.Guest.OnError.Policy)
	case n.Window != nil:
		what = windowText(n.Window)
	case n.KeyBy != nil:
		what = "key_by " + strings.Join(n.KeyBy.Fields, "+")
	case n.Sink != nil:
		what = "sink " + n.Sink.Connector
		if n.Sink.Path != "" {
			what += " " + n.Sink.Path
		}
	}
	return n.ID + ": " + what
}

// windowText says which windows there are, when they give results, and what becomes of late records.
func windowText(w *operators.WindowNode) string {
	s := w.Window
	d := func(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
	t := s.Type
	switch s.Type {
	case operators.WindowTumbling:
		t += fmt.Sprintf(" %v", d(s.Size))
	case operators.WindowSliding:
		t += fmt.Sprintf(" %v every %v", d(s.Size), d(s.Slide))
	case operators.WindowCumulate:
		t += fmt.Sprintf(" %v by %v", d(s.Size), d(s.Step))
	case operators.WindowSession:
		if t += fmt.Sprintf(" gap %v", d(s.Gap)); s.GapField != "" {
			t = "session, gap " + s.GapField
		}
	case operators.WindowCount:
		t += fmt.Sprintf(" %d", s.Count)
	}
	if s.Zone != "" {
		t += " in " + s.Zone
	}
	over := "per key"
	if w.Unkeyed {
		over = "over everything"
	}
	var fires []string
	add := func(on bool, format string, args ...any) {
		if on {
			fires = append(fires, fmt.Sprintf(format, args...))
		}
	}
	tr := w.Trigger
	add(tr.AtEnd, "at its end")
	add(tr.Every > 0, "each %v before", d(tr.Every))
	add(tr.EveryClock > 0, "each %v of the clock", d(tr.EveryClock))
	add(tr.Count > 0, "each %d records", tr.Count)
	add(tr.Timeout > 0, "%v after a record", d(tr.Timeout))
	add(len(fires) == 0, "never")
	text := fmt.Sprintf("window %s, %s, %s time, result %s, %s", t, over, w.Time, strings.Join(fires, ", "), w.Accumulation)
	if w.Time == operators.TimeEvent {
		text += fmt.Sprintf(", late after %v", d(w.Lateness))
		if !w.Late {
			text += " (counted and dropped: nothing reads the output late)"
		}
	}
	for _, g := range w.GuestNodes("") {
		text += fmt.Sprintf(", %s by %s of %s", g.ID[1:], g.Guest.Function, g.Guest.Module)
	}
	if w.OnError.Policy != "" {
		text += ", on error " + w.OnError.Policy
	}
	return text
}

func outputText(p *job.Plan, e operators.Edge) string {
	switch {
	case e.Output == operators.OutputMain:
		return ""
	case e.Output == operators.OutputDeadLetter:
		return " (dead letters)"
	}
	return fmt.Sprintf(" (side output %d)", e.Output)
}

func (p plan) print(w io.Writer) {
	fmt.Fprintf(w, "%s: %d tasks, %v\n", p.Name, p.Tasks, p.Mode)
	for _, v := range p.Vertices {
		for _, in := range v.Inputs {
			fmt.Fprintf(w, "  |  from %s\n  v\n", in)
		}
		fmt.Fprintf(w, "[%s] x %d\n", v.ID, v.Parallelism)
		for i, c := range v.Chain {
			branch := "+-"
			if i == 0 {
				branch = "| "
			}
			fmt.Fprintf(w, "  %s %s\n", branch, c)
		}
	}
	fmt.Fprintln(w, "promises")
	for _, x := range p.Promises {
		fmt.Fprintf(w, "  %s: %s (%s)\n", x.Operator, x.Promise, x.Why)
	}
	if len(p.State) > 0 {
		fmt.Fprintln(w, "state")
		for _, s := range p.State {
			fmt.Fprintf(w, "  %s\n", s)
		}
	}
	if len(p.Input) > 0 {
		fmt.Fprintln(w, "input")
		for _, in := range p.Input {
			printInput(w, in)
		}
	}
}
