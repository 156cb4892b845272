package window

import (
	"errors"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
)

// Op is the window operator of one task. It is an operators.Operator, Snapshotter, ProcessingTimer and
// Counted. Results go to operators.OutputMain, late records, as they came, to side output 1.
type Op struct {
	cfg Config
	w   *operators.WindowNode
}

// New makes the operator; nothing runs before Open. The node passes Validate.
func New(cfg Config) *Op { return &Op{cfg: cfg, w: cfg.Node.Window} }

// Open implements operators.Operator.
func (o *Op) Open(*operators.Context) error {
	return errors.New("window: the operator is being written")
}

// Batch implements operators.Operator.
func (o *Op) Batch(int, *abi.Batch, operators.Collector) error { return nil }

// Close implements operators.Operator.
func (o *Op) Close() error { return nil }
