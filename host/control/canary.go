package control

import (
	"context"

	"github.com/millrace-io/millrace/checkpoint"
)

// Canaried is a Pipeline that can give part of its keys to other code.
type Canaried interface {
	// Canary does a step and returns when it is in force.
	Canary(ctx context.Context, r CanaryRequest) (CanaryStep, error)
}

// Actions of a CanaryRequest.
const (
	CanaryShare   = "share"   // the candidate gets slots: the first, or more
	CanaryPromote = "promote" // it gets all keys
	CanaryRevert  = "revert"  // the code in force gets all keys again
)

// CanaryRequest asks for a step of a canary.
type CanaryRequest struct {
	Action string  `json:"action"`
	File   string  `json:"file,omitempty"`   // absolute path of the pipeline file, which names the candidate; not to revert
	Lo     uint32  `json:"lo,omitempty"`     // to share: slots [Lo, Hi) of 65536
	Hi     uint32  `json:"hi,omitempty"`     //
	Errors float64 `json:"errors,omitempty"` // share of its records that may fail; 0: the default
}

// CanaryStep is a step that was made.
type CanaryStep struct {
	Checkpoint checkpoint.ID `json:"checkpoint"`       // at whose barrier
	Canary     *Canary       `json:"canary,omitempty"` // what is on behind it; nil: none
}

// Canary is the one that is on.
type Canary struct {
	Since     checkpoint.ID    `json:"since,omitempty"` // checkpoint of its first step; 0: before this run
	Lo        uint32           `json:"lo"`              // slots [Lo, Hi) of 65536
	Hi        uint32           `json:"hi"`
	Share     float64          `json:"share"` // 0 to 1
	Operators []CanaryOperator `json:"operators"`
}

// CanaryOperator is an operator with two codes.
type CanaryOperator struct {
	Operator  string     `json:"operator"`
	InForce   CanarySide `json:"in_force"`
	Candidate CanarySide `json:"candidate"`
}

// CanarySide is one of them, with its counters since the canary began or the tasks started.
type CanarySide struct {
	Module        string `json:"module"` // digest
	Records       int64  `json:"records"`
	Timers        int64  `json:"timers"`
	Faults        int64  `json:"faults"`
	Skipped       int64  `json:"skipped"`
	DeadLetters   int64  `json:"dead_letters"`
	Fuel          int64  `json:"fuel"`
	FuelPerRecord int64  `json:"fuel_per_record"` // or timer
}

func canaryRoutes(s *Server) {
	route(s, "POST /v0/canary", func(ctx context.Context, r CanaryRequest) (CanaryStep, error) {
		p, ok := s.pipeline.(Canaried)
		if !ok {
			return CanaryStep{}, unsupported("run a canary")
		}
		return p.Canary(ctx, r)
	})
}

// Canary does a step of a canary.
func (c *Client) Canary(ctx context.Context, r CanaryRequest) (CanaryStep, error) {
	return call[CanaryRequest, CanaryStep](ctx, c, "POST /v0/canary", r)
}
