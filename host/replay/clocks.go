package replay

import (
	"context"
	"errors"
	"slices"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/host/clocklog"
	"github.com/millrace-io/millrace/host/task"
	"github.com/millrace-io/millrace/operators"
)

// clocks is what the clock did behind the snapshot, up to the end or as far as it is known; nil: the fork's clock
// decides, which is noted where it matters. A recorded input is not all that the tasks got then, perhaps.
func (r *run) clocks(ctx context.Context) (func(task.ID) *clocklog.Reader, error) {
	if r.o.End.Live || r.recorded || !looksAtClock(r.graph) {
		return nil, nil
	}
	to := r.newest()
	if to == r.o.From {
		r.note("processing time goes on from that of the snapshot: no later one has a log of it")
		return nil, nil
	}
	s, err := clocklog.Between(ctx, r.o.Store, r.o.From, to)
	if errors.Is(err, clocklog.ErrMissing) {
		r.note("processing time goes on from that of the snapshot, timers and idleness may fall elsewhere: %v", err)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, l := range s.Limits() {
		r.note("%s", l)
	}
	return func(id task.ID) *clocklog.Reader { return s.Reader(id.Vertex, id.Index) }, nil
}

// newest is the last snapshot of the line behind the first, at most the one where the replay ends.
func (r *run) newest() checkpoint.ID {
	if r.o.End.To != nil {
		return r.o.End.To.ID
	}
	infos, err := r.o.Store.List()
	if err != nil {
		return r.o.From
	}
	line, last := map[checkpoint.ID]bool{r.o.From: true}, r.o.From
	for _, i := range infos {
		if m, err := r.o.Store.Load(i.ID); err == nil && i.ID > r.o.From && line[m.Parent] {
			line[i.ID], last = true, i.ID
		}
	}
	return last
}

// looksAtClock says that what a pipeline does depends on the time of day.
func looksAtClock(g *operators.Graph) bool {
	return slices.ContainsFunc(g.Nodes, func(n *operators.Node) bool {
		if n.Source != nil && n.Source.Time != nil {
			t := n.Source.Time
			return t.Idle > 0 || t.Source == operators.TimeIngestion || t.MaxFutureSkew > 0
		}
		if n.Window != nil {
			return n.Window.Time == operators.TimeProcessing || n.Window.Trigger.EveryClock > 0 || n.Window.Trigger.Timeout > 0 ||
				slices.ContainsFunc(n.Window.GuestNodes(n.ID), func(g *operators.Node) bool { return g.Guest.Clock == operators.TimeProcessing })
		}
		if n.Guest == nil || n.Guest.Fn == nil {
			return false
		}
		return n.Guest.Clock == operators.TimeProcessing || slices.Contains(n.Guest.Fn.Timers, "processing") ||
			slices.ContainsFunc(n.Guest.Fn.States, func(s abi.StateDescriptor) bool { return s.TTL != nil && s.TTL.Domain == abi.DomainNameProcessing })
	})
}

// heldClock shows both versions of an operator one time.
type heldClock struct{ ms int64 }

// NowMS implements operators.Clock.
func (c *heldClock) NowMS() int64 { return c.ms }
