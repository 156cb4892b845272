package guestop

import (
	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
)

// outputs gathers what a Batch call gives, per output, until it is flushed.
type outputs struct {
	b      []abi.Batch // 0 main, 1.. side outputs
	dead   abi.Batch
	offs   []uint32 // frames of the current call
	single bool     // all of them belong to the main output, in the buffer
}

func (o *outputs) init(sides int) {
	o.b = make([]abi.Batch, 1+sides)
	o.offs = make([]uint32, 0, abi.MaxBatchRecords)
}

// fit makes room for the outputs of other code: numbers stay, there may be more.
func (o *outputs) fit(sides int) {
	for len(o.b) < 1+sides {
		o.b = append(o.b, abi.Batch{})
	}
}

func (o *outputs) main() *abi.Batch { return &o.b[0] }

func (o *outputs) batch(n int) *abi.Batch { return &o.b[n] }

// mark puts a watermark on every output.
func (o *outputs) mark(w int64) {
	for i := range o.b {
		o.b[i].Mark(w)
	}
	o.dead.Mark(w)
}

func (o *outputs) flush(out operators.Collector) error {
	for i := range o.b {
		if b := &o.b[i]; !b.Empty() {
			if err := out.Emit(i, b); err != nil {
				return err
			}
			b.Reset()
		}
	}
	if !o.dead.Empty() {
		if err := out.Emit(operators.OutputDeadLetter, &o.dead); err != nil {
			return err
		}
		o.dead.Reset()
	}
	return nil
}
