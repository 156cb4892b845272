package replay

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/host/clock"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/connect"
	"github.com/millrace-io/millrace/operators/guestop"
)

// Errors of Run that people meet by name; nothing ran.
var (
	// ErrUnreadable says that a source can't be read a second time, or not up to where it should end.
	ErrUnreadable = errors.New("the input can't be read again")
	// ErrIncomparable says that two versions can't be held against each other record by record.
	ErrIncomparable = errors.New("the two can't be compared record by record")
)

// Code is a checked pipeline, and what compiles the module of a guest operator of it. Run closes the modules.
type Code struct {
	Graph  *operators.Graph
	Module func(ctx context.Context, n *operators.Node) (guestop.Module, error)
}

// End says where a replay ends, at the first of what is set. The zero End is the present end of the input.
type End struct {
	To      *checkpoint.Manifest // at the positions of a later snapshot, split by split; exact
	Records int64                // after so many records of all sources; 0: any number
	TimeMS  int64                // once the watermark of every source's task is there; 0: no such time
	For     time.Duration        // after so much time of the wall; 0: any
	// Live goes on waiting where the input has no more for now.
	Live bool
	// Stop ends it when it is closed; nil: never.
	Stop <-chan struct{}
}

// Options say what is replayed.
type Options struct {
	// Store has the snapshot From; it may be open for reading only, beside its running job. Nothing in it is changed,
	// except that there is a lease while the snapshot's objects get names of their own.
	Store *snapstore.Store
	From  checkpoint.ID
	Code  Code // in force behind From, as worker.OpenStored gives it
	// Candidate is what is held against Code: the guest and window operators of the same ids whose modules or settings
	// are other ones run twice, on the same input, and what follows gets the outputs of Code's. Nil: nothing is compared.
	Candidate *Code
	End       End
	// Batch is the most records that an operator gets at once. 1, and 0, make fuel and differences exact to the record;
	// more is faster, and then they are exact to the call.
	Batch int
	// Keys leaves only records of these keys to operators with keys; empty: all.
	Keys []string
	// Scratch is where the fork lives meanwhile, in a folder of its own; best on the device of Store. Folders there that
	// processes which died have left are removed.
	Scratch string
	// Source makes a source's reader, once for each task; nil: by its connector. One that implements Recorded ends by
	// itself, whatever End says.
	Source  func(n *operators.Node) (operators.Source, error)
	Connect connect.Env
	// Sink gets what goes to a sink; nil: it is counted. Nothing is ever published.
	Sink func(n *operators.Node, task int) Sink
	// Observe gives what sees every call of a guest operator of Code in one task; describe names positions, once the
	// operator is open. Nil, also as a result: nobody.
	Observe func(n *operators.Node, task int, describe func(abi.Position) string) guestop.Observer
	Trace   bool // Observe sees host calls too
	// Differs is called with every difference, borrowed for the call, from any task's goroutine but by one at a time. Nil:
	// there are only counts and samples.
	Differs func(d *Difference)
	// Progress is called about once a second with the report so far; nil: never. It may end the replay by an error.
	Progress func(r *Report) error
	Samples  int         // kept of each operator and kind; 0: 5
	Clock    clock.Clock // nil: see Run
	Log      *slog.Logger

	connected bool // sources are made by their connectors
}

// Sink takes what a pipeline would have sent away. It belongs to one task.
type Sink interface {
	// Record gets a record, borrowed for the call.
	Record(f abi.Frame) error
	Close() error
}

// Recorded is a source that gives what was recorded, as record.Playback does: at its end it is idle for good.
type Recorded interface {
	operators.Source
	AtEnd() bool
}

func (o *Options) defaults() {
	o.Batch = min(max(o.Batch, 1), abi.MaxBatchRecords)
	if o.Samples == 0 {
		o.Samples = 5
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Source == nil {
		env := o.Connect
		o.connected = true
		o.Source = func(n *operators.Node) (operators.Source, error) { return connect.Source(n, env) }
	}
}

// chosen says that operators with keys get records of a key.
func (o *Options) chosen(key []byte) bool {
	return len(o.Keys) == 0 || slices.Contains(o.Keys, string(key))
}
