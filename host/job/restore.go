package job

import (
	"context"
	"fmt"

	"github.com/millrace-io/millrace/operators"
)

// republish repeats the renames of a finished job's checkpoint, of which a crash may have left some undone.
func (j *Job) republish(ctx context.Context, a *attempt) error {
	for _, n := range j.opts.Graph.Nodes {
		if n.Kind != operators.NodeSink {
			continue
		}
		for i := 0; i < n.Parallelism; i++ {
			op, err := j.opts.Operator(n)
			if err != nil {
				return err
			}
			oc := a.context(n, i)
			oc.Context = ctx
			if err := op.Open(oc); err != nil {
				return err
			}
			if s, ok := op.(operators.Snapshotter); ok {
				if err := s.Complete(a.from.ID); err != nil {
					return err
				}
			}
			if err := op.Close(); err != nil {
				return err
			}
		}
	}
	return nil
}

// budget is the share of a task's keyed state in the pipeline's memory: three quarters of it, divided among
// the tasks of windows and of functions with state.
func (j *Job) budget(n *operators.Node) int64 {
	tasks := 0
	for _, m := range j.opts.Graph.Nodes {
		if m.Guest != nil && m.Guest.Fn != nil && len(m.Guest.Fn.States)+len(m.Guest.Fn.Timers) > 0 || m.Window != nil {
			tasks += m.Parallelism
		}
	}
	return j.opts.Graph.MemoryBytes * 3 / 4 / int64(max(1, tasks))
}

// leastBudget is the memory per task with state below which most of the work is moving state to and from disk.
const leastBudget = 4 << 20

// smallMemory notes a budget that will make the pipeline slow.
func (j *Job) smallMemory() {
	for _, n := range j.opts.Graph.Nodes {
		if n.Guest == nil || n.Guest.Fn == nil || len(n.Guest.Fn.States)+len(n.Guest.Fn.Timers) == 0 || j.opts.Graph.StateKind == "memory" {
			continue
		}
		if b := j.budget(n); b < leastBudget && !j.hasRun() {
			j.note(fmt.Sprintf("memory leaves %d KiB for the state of each task of %s; below %d MiB it will be slow once state outgrows it", b>>10, n.ID, leastBudget>>20))
			return
		}
	}
}
