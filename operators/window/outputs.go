package window

import (
	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
)

// outputs gathers results and late records, with the same marks on both.
type outputs struct {
	main, late abi.Batch
	to         operators.Collector // during a call
}

func (o *outputs) mark(w int64) {
	o.main.Mark(w)
	o.late.Mark(w)
}

// room flushes when a batch is full.
func (o *outputs) room() error {
	if o.main.Full(abi.MaxBatchRecords) || o.late.Full(abi.MaxBatchRecords) {
		return o.flush()
	}
	return nil
}

func (o *outputs) flush() error {
	if !o.main.Empty() {
		if err := o.to.Emit(operators.OutputMain, &o.main); err != nil {
			return err
		}
		o.main.Reset()
	}
	if !o.late.Empty() {
		if err := o.to.Emit(outputLate, &o.late); err != nil {
			return err
		}
		o.late.Reset()
	}
	return nil
}

// outputLate is the number of the late side output.
const outputLate = 1
