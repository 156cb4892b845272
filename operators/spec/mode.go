package spec

import (
	"fmt"
	"strings"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
)

const (
	modeAuto       = "auto"
	streamInterval = time.Second
	// batchInterval is the time between checkpoints where the mode was not asked for: a job that runs for
	// hours loses a minute with its process, one of a minute is not held up.
	batchInterval = time.Minute
)

// mode says whether the job runs as a stream or as a batch, and takes the settings that follow from it
// where the file does not set them.
func (b *builder) mode(o *object) {
	g := b.g
	asked := o.textOr("mode", modeAuto)
	endless, paced := b.unbounded()
	switch {
	case asked == operators.ModeStream:
		g.Mode, g.ModeWhy = operators.ModeStream, "the file says so"
	case asked == operators.ModeBatch:
		g.Mode, g.ModeWhy = operators.ModeBatch, "the file says so"
		for _, e := range endless {
			b.problem(e.line, e.path, fmt.Sprintf("mode: batch (line %d) is for input that ends, but %s", o.fields["mode"].Line, e.why), "mode: stream, or leave it out")
		}
	case len(endless)+len(paced) > 0:
		var why []string
		for _, e := range append(endless, paced...) {
			why = append(why, e.why)
		}
		g.Mode, g.ModeWhy = operators.ModeStream, strings.Join(why, ", ")
	default:
		g.Mode, g.ModeWhy = operators.ModeBatch, "all input ends"
	}
	interval, records := streamInterval, int64(abi.DefaultBatchRecords)
	if g.Mode == operators.ModeBatch {
		records = abi.MaxBatchRecords
		if interval = batchInterval; asked == operators.ModeBatch {
			interval = 0
		}
	}
	c := o.sub("checkpoint")
	if c == nil {
		c = &object{}
	}
	g.Checkpoint = operators.CheckpointSettings{Interval: c.duration("interval", interval),
		Timeout: c.duration("timeout", time.Minute), Retain: int(c.integer("retain", 3)), Probation: int(c.integer("probation", 0)), Store: b.store(o)}
	if g.Checkpoint.Timeout == 0 {
		b.problem(c.node.Line, "checkpoint.timeout", "no checkpoint could complete in 0s", "the default is 60s")
	}
	g.BatchMax = int(o.integer("batch", records))
}

// unending is a source that does not fit a batch.
type unending struct {
	line int
	path string
	why  string
}

// unbounded are the sources that have no end, and those that have one but go by the clock, or can't be
// read again, so that waiting for the end to publish would be wrong.
func (b *builder) unbounded() (endless, paced []unending) {
	for _, it := range b.items {
		s := it.node.Source
		if s == nil {
			continue
		}
		e := unending{line: it.node.Line, path: it.path}
		switch {
		case s.Connector == "tcp":
			e.why = fmt.Sprintf("source %q is a socket", it.node.ID)
		case it.endless && s.File != nil:
			e.why = fmt.Sprintf("source %q is followed", it.node.ID)
		case it.endless:
			e.why = fmt.Sprintf("source %q makes records without end", it.node.ID)
		case s.Connector == "stdin":
			e.why = fmt.Sprintf("source %q can't be read again", it.node.ID)
			paced = append(paced, e)
			continue
		case s.Generator != nil && s.Generator.Rate > 0:
			e.why = fmt.Sprintf("source %q goes by the clock", it.node.ID)
			paced = append(paced, e)
			continue
		default:
			continue
		}
		endless = append(endless, e)
	}
	return endless, paced
}
