package job

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/window"
	"github.com/millrace-io/millrace/state"
)

// changedWindows names operators whose windows are no longer those that their restored state is of, and says
// what changed.
func changedWindows(old, now *operators.Graph, r *checkpoint.Restore) (problems []string) {
	for _, n := range now.Nodes {
		i := slices.IndexFunc(old.Nodes, func(o *operators.Node) bool { return o.ID == n.ID && o.Window != nil })
		if n.Window == nil || i < 0 {
			continue
		}
		unread := slices.ContainsFunc(r.Operator(n.ID), func(s checkpoint.OperatorSnapshot) bool {
			return s.Keyed != nil && slices.ContainsFunc(s.Keyed.States, func(st state.StateSnapshot) bool {
				return st.Name == window.StateName && len(st.Runs) > 0 && !window.Reads(n.Window, st.Version)
			})
		})
		if !unread {
			continue
		}
		what := "their definition"
		if list := window.Changed(old.Nodes[i].Window, n.Window); len(list) > 0 {
			what = strings.Join(list, ", ")
		}
		problems = append(problems, fmt.Sprintf("operator %s has state of windows that have changed: %s; give the new ones another id", n.ID, what))
	}
	return problems
}
