package control

import (
	"context"

	"github.com/millrace-io/millrace/checkpoint"
)

// Changeable is a Pipeline whose code can be changed while it runs.
type Changeable interface {
	// Change puts another pipeline in place of the running one, or says what that would do.
	Change(ctx context.Context, r ChangeRequest) (Changed, error)
}

// ChangeRequest asks for other code.
type ChangeRequest struct {
	File        string            `json:"file,omitempty"`         // absolute path of the pipeline file; empty with Restore
	Restore     checkpoint.ID     `json:"restore,omitempty"`      // back to this snapshot with its code; 0: on from now
	Drop        []string          `json:"drop,omitempty"`         // operators whose state may be dropped
	Renamed     map[string]string `json:"renamed,omitempty"`      // old id to new
	ModulesOnly bool              `json:"modules_only,omitempty"` // refuse everything but other modules
	Plan        string            `json:"plan,omitempty"`         // hash of the plan that was seen; empty: any
	Errors      float64           `json:"errors,omitempty"`       // share of records that may fail on trial; 0: the default
	DryRun      bool              `json:"dry_run,omitempty"`      // only the plan
	Probation   int               `json:"probation,omitempty"`    // checkpoints for which output is held back; 0: as the file says, -1: none
}

// Step is one difference between what runs and what is to run.
type Step struct {
	Kind     string   `json:"kind"` // swap, restart, state-breaking
	Operator string   `json:"operator,omitempty"`
	What     string   `json:"what"`
	Drop     bool     `json:"drop,omitempty"`    // --drop allows it
	Migrate  []string `json:"migrate,omitempty"` // states whose values the new module rewrites
}

// Withdrawn is an output that an older snapshot does not have.
type Withdrawn struct {
	Checkpoint checkpoint.ID `json:"checkpoint"`
	Operator   string        `json:"operator"`
	Path       string        `json:"path"`
	Records    int64         `json:"records"`
}

// Changed is a change that was made, or its plan.
type Changed struct {
	Plan       string        `json:"plan"`           // hash
	Kind       string        `json:"kind,omitempty"` // of the hardest step; empty: nothing changes
	Steps      []Step        `json:"steps"`
	Checkpoint checkpoint.ID `json:"checkpoint,omitempty"` // at whose barrier it took place
	Millis     int64         `json:"ms,omitempty"`         // without output, where the tasks started anew
	Withdrawn  []Withdrawn   `json:"withdrawn,omitempty"`
	Probation  int           `json:"probation,omitempty"` // checkpoints for which output is held back
	DelayMS    int64         `json:"delay_ms,omitempty"`  // by how much that delays it
	Migrated   []Migrated    `json:"migrated,omitempty"`
}

// Migrated is a state whose values were rewritten.
type Migrated struct {
	Operator string `json:"operator"`
	State    string `json:"state"`
	From     int    `json:"from"` // schema versions
	To       int    `json:"to"`
	Entries  int64  `json:"entries"`
	Removed  int64  `json:"removed,omitempty"`
}

// Upgrade is the last change of the running pipeline.
type Upgrade struct {
	State      string        `json:"state"` // trial, done, rolled back, failed
	Checkpoint checkpoint.ID `json:"checkpoint,omitempty"`
	What       string        `json:"what"`
	Reason     string        `json:"reason,omitempty"`
	Millis     int64         `json:"ms,omitempty"`
	Held       int           `json:"held,omitempty"` // checkpoints until output on probation is published
}

func upgradeRoutes(s *Server) {
	route(s, "POST /v0/change", func(ctx context.Context, r ChangeRequest) (Changed, error) {
		p, ok := s.pipeline.(Changeable)
		if !ok {
			return Changed{}, unsupported("change its code")
		}
		return p.Change(ctx, r)
	})
}

// Change asks for other code and waits until it is in force.
func (c *Client) Change(ctx context.Context, r ChangeRequest) (Changed, error) {
	return call[ChangeRequest, Changed](ctx, c, "POST /v0/change", r)
}
