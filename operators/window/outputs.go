package window

import (
	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
)

// outputs gathers results and late records, with the same marks on both.
type outputs struct {
	main, late abi.Batch
	sides      []abi.Batch // of a window function
	dead       abi.Batch
	wm         int64               // of the last mark
	to         operators.Collector // during a call
}

func (o *outputs) mark(w int64) {
	o.main.Mark(w)
	o.late.Mark(w)
	for i := range o.sides {
		o.sides[i].Mark(w)
	}
	o.dead.Mark(w)
	o.wm = w
}

// frame takes an output of a window function.
func (o *outputs) frame(f abi.Frame) error {
	if n := int(f.Output()); n > 0 {
		o.sides[n-1].AppendFrame(f)
	} else {
		o.main.AppendFrame(f)
	}
	return o.room()
}

// room flushes when a batch is full.
func (o *outputs) room() error {
	full := o.main.Full(abi.MaxBatchRecords) || o.late.Full(abi.MaxBatchRecords) || o.dead.Full(abi.MaxBatchRecords)
	for i := range o.sides {
		full = full || o.sides[i].Full(abi.MaxBatchRecords)
	}
	if full {
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
	for i := range o.sides {
		if b := &o.sides[i]; !b.Empty() {
			if err := o.to.Emit(outputLate+1+i, b); err != nil {
				return err
			}
			b.Reset()
		}
	}
	if !o.dead.Empty() {
		if err := o.to.Emit(operators.OutputDeadLetter, &o.dead); err != nil {
			return err
		}
		o.dead.Reset()
	}
	return nil
}

// outputLate is the number of the late side output; those of a window function follow.
const outputLate = 1
