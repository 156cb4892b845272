package job

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
)

// Version is the release that manifests name as their writer.
const Version = "0.1.0"

// Stats describe a running job. They are serialisable.
type Stats struct {
	Read           int64         `json:"read"`      // records taken from sources
	Watermark      int64         `json:"watermark"` // lowest of the tasks; abi.MinWatermark: none yet
	Checkpoint     checkpoint.ID `json:"checkpoint"`
	CheckpointAge  int64         `json:"checkpoint_age_ms"` // since the last complete one (or the start)
	Checkpoints    int           `json:"checkpoints"`
	Failed         int           `json:"failed_checkpoints"`
	LastFailure    string        `json:"last_failure,omitempty"`
	FailuresInARow int           `json:"failures_in_a_row"`
	Restarts       int           `json:"restarts"`
	Paused         string        `json:"paused,omitempty"` // why it waits for its next restart
	QueuedBytes    int64         `json:"queued_bytes"`
	Pipeline       string        `json:"pipeline,omitempty"` // SHA-256 of the pipeline file in force
	// Modules in force, by operator.
	Modules   []checkpoint.ModuleRef `json:"modules,omitempty"`
	Upgrade   *Upgrade               `json:"upgrade,omitempty"` // the last change of the running job
	Canary    *CanaryStats           `json:"canary,omitempty"`  // nil: none is on
	Remote    *RemoteStats           `json:"remote,omitempty"`
	Operators []OperatorStats        `json:"operators"`
}

// OperatorStats add up an operator's tasks.
type OperatorStats struct {
	ID       string           `json:"id"`
	Kind     string           `json:"kind"`
	Counters map[string]int64 `json:"counters"`
	// Watermark is the lowest of its tasks' while they run; abi.MinWatermark: none yet.
	Watermark int64 `json:"watermark,omitempty"`
	// Unanswered are tasks that were busy, whose counters are missing.
	Unanswered int `json:"unanswered,omitempty"`
}

// Stats takes stock. Counters of operators are read while they run: exact once the job has ended.
func (j *Job) Stats() Stats {
	j.mu.Lock()
	a, c := j.current, j.coord
	s := Stats{Restarts: j.restarts, Paused: j.paused, Watermark: abi.MinWatermark, Upgrade: j.upgrade}
	j.mu.Unlock()
	s.Checkpoint, s.Checkpoints, s.Failed, s.FailuresInARow = c.LastComplete, c.Complete, c.Failed, c.ConsecutiveFailures
	if c.LastFailure != nil {
		s.LastFailure = c.LastFailure.Error()
	}
	since := j.started / 1e6
	if c.LastCompleteMS != 0 {
		since = c.LastCompleteMS
	}
	s.CheckpointAge = j.opts.Clock.Mono()/1e6 - since
	j.describeCode(&s)
	s.Remote = j.remoteStats()
	s.Canary = j.canaryStats(a)
	if a == nil {
		return s
	}
	s.Watermark = abi.MaxWatermark
	counts, foremost := false, abi.MinWatermark
	for _, t := range a.tasks {
		w := t.Watermark.Load()
		foremost = max(foremost, w)
		if !t.Idle.Load() {
			s.Watermark, counts = min(s.Watermark, w), true
		}
		s.QueuedBytes += int64(t.Queued())
	}
	if !counts {
		s.Watermark = foremost
	}
	for _, t := range a.sources {
		s.Read += t.Records.Load()
	}
	return s
}

// final adds the operators' counters, once the tasks have ended.
func (j *Job) final(s *Stats) {
	a := j.current
	if a == nil {
		return
	}
	sum := tally{}
	for id, cs := range a.counted {
		for _, c := range cs {
			sum.counted(id, c)
		}
	}
	for _, g := range a.guests {
		sum.guest(g)
	}
	s.Operators = sum.list(j.opts.Graph.Nodes)
}

// Total is an operator's counter, 0 if it has none of that name.
func (s Stats) Total(operator, counter string) int64 {
	i := slices.IndexFunc(s.Operators, func(o OperatorStats) bool { return o.ID == operator })
	if i < 0 {
		return 0
	}
	return s.Operators[i].Counters[counter]
}

func (j *Job) checkpoints(c checkpoint.CoordinatorStats) {
	j.mu.Lock()
	j.coord = c
	j.mu.Unlock()
}

// result says how the job ended; done is nil after an error.
func (j *Job) result(done *checkpoint.JobDone) Result {
	r := Result{Stats: j.Stats()}
	j.final(&r.Stats)
	j.mu.Lock()
	defer j.mu.Unlock()
	r.Checkpoint, r.Restarts = j.coord.LastComplete, j.restarts
	if done != nil {
		r.Checkpoint = done.ID
		r.Complete, r.Stopped = done.Finished, !done.Finished
		r.Already = j.current == nil
	}
	if note := j.heldNote(); note != "" {
		r.Warnings = append(r.Warnings, note)
	}
	r.Warnings = append(r.Warnings, j.warnings...)
	if r.Complete && !r.Already {
		r.Warnings = append(r.Warnings, j.silence(&r.Stats)...)
	}
	return r
}

// silence explains a run with less to show for it than expected: nothing read, or records that came behind
// the watermark.
func (j *Job) silence(s *Stats) []string {
	var out []string
	for _, n := range j.opts.Graph.Nodes {
		if n.Kind != operators.NodeSource {
			continue
		}
		if s.Read == 0 {
			out = append(out, "nothing was read: source "+n.ID+" has no records")
		}
		if ahead := s.Total(n.ID, operators.CounterFuture); ahead > 0 {
			out = append(out, fmt.Sprintf("%d of %d records of %s had times more than %v ahead of the clock, which did not move the watermark; where such times are right, set max_future_skew: off",
				ahead, s.Read, n.ID, short(n.Source.Time.MaxFutureSkew)))
		}
		late := s.Total(n.ID, operators.CounterLate)
		if late == 0 || n.Source.Time == nil {
			continue
		}
		if days := s.Total(n.ID, operators.CounterDelay) / 86_400_000; days > 366 {
			out = append(out, fmt.Sprintf("%d of %d records of %s came behind its watermark, the farthest by %d days: look at the time field and its unit", late, s.Read, n.ID, days))
			continue
		}
		wanted := time.Duration(s.Total(n.ID, operators.CounterDelay)) * time.Millisecond
		text := fmt.Sprintf("%d of %d records of %s came behind its watermark; out_of_orderness is %v, ", late, s.Read, n.ID, short(n.Source.Time.OutOfOrderness))
		if wanted > n.Source.Time.OutOfOrderness {
			text += fmt.Sprintf("with %v none would have", short(roundUp(wanted)))
		} else {
			text += fmt.Sprintf("which was enough: they came after idle (%v) had excused their split", short(n.Source.Time.Idle))
		}
		out = append(out, text)
	}
	return out
}

// short writes 28h instead of 28h0m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// roundUp makes a delay that is good to write into a file.
func roundUp(d time.Duration) time.Duration {
	for _, unit := range []time.Duration{time.Hour, time.Minute, time.Second} {
		if d >= 10*unit {
			return (d + unit - 1) / unit * unit
		}
	}
	return d
}
