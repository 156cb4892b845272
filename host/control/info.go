package control

import (
	"context"

	"github.com/millrace-io/millrace/checkpoint"
)

// Info says what runs and how it does.
type Info struct {
	PID       int      `json:"pid"`
	Version   string   `json:"version"`
	Pipeline  string   `json:"pipeline"` // name
	File      string   `json:"file"`     // absolute path of the pipeline file
	Digest    string   `json:"digest"`   // SHA-256 of the pipeline file as it runs
	StateDir  string   `json:"state_dir"`
	StartedMS int64    `json:"started_ms"` // since 1970
	Modules   []Module `json:"modules"`
	Stats     Stats    `json:"stats"`
	Upgrade   *Upgrade `json:"upgrade,omitempty"` // the last change while it ran
	Canary    *Canary  `json:"canary,omitempty"`  // nil: none is on
}

// Module is the module that an operator runs.
type Module struct {
	Operator string `json:"operator"`
	Path     string `json:"path"`   // as in the pipeline file
	Digest   string `json:"digest"` // SHA-256
}

// Stats are those of the job so far.
type Stats struct {
	Read            int64           `json:"read"`       // records taken from sources since the start
	Watermark       int64           `json:"watermark"`  // ms since 1970; the least and greatest int64: none yet, end
	Checkpoint      checkpoint.ID   `json:"checkpoint"` // newest complete one, 0: none
	CheckpointAgeMS int64           `json:"checkpoint_age_ms"`
	Checkpoints     int             `json:"checkpoints"` // completed since the start
	Failed          int             `json:"failed_checkpoints"`
	LastFailure     string          `json:"last_failure,omitempty"`
	FailuresInARow  int             `json:"failures_in_a_row"`
	Restarts        int             `json:"restarts"`
	Paused          string          `json:"paused,omitempty"` // why it waits for its next restart
	QueuedBytes     int64           `json:"queued_bytes"`     // in exchanges
	Remote          *Remote         `json:"remote,omitempty"` // nil: copies of snapshots go nowhere
	Operators       []OperatorStats `json:"operators,omitempty"`
}

// OperatorStats are counters of all tasks of an operator.
type OperatorStats struct {
	ID       string           `json:"id"`
	Kind     string           `json:"kind"`
	Counters map[string]int64 `json:"counters"`
	// Watermark is the lowest of its tasks', ms since 1970; the least and greatest int64: none yet, end.
	Watermark int64 `json:"watermark"`
	// Unanswered are tasks that were busy, whose counters are missing.
	Unanswered int `json:"unanswered,omitempty"`
	// Rates are counters per second, from one look to the next; who asks works them out.
	Rates map[string]float64 `json:"per_second,omitempty"`
	// LagMS is how far the watermark is behind the clock, -1: it has none, or is at the end.
	LagMS int64 `json:"lag_ms"`
}

func infoRoutes(s *Server) {
	route(s, "GET /v0/info", func(ctx context.Context, _ none) (Info, error) { return s.pipeline.Info(ctx) })
}

// Info asks what runs and how it does.
func (c *Client) Info(ctx context.Context) (Info, error) {
	return call[none, Info](ctx, c, "GET /v0/info", none{})
}
