package task

import (
	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
)

// Stage is one operator of a task's chain, with where its outputs go.
type Stage struct {
	Node    *operators.Node
	Op      operators.Operator // nil for a source's stage, or a node that only passes on
	Context *operators.Context
	// ClockUser says whether the clock matters to Op; nil: it never does.
	ClockUser operators.ClockUser
	outs      []route // by output number, as far as used
	copyBuf   abi.Batch
	task      *Task
	clock     *stageClock // nil without ClockUser
}

type route struct {
	output  int
	targets []target
}

// target is a further operator of the chain, or an exchange.
type target struct {
	stage *Stage
	input int
	w     *Writer
}

// Chain lets an output lead to another stage of the same task.
func (s *Stage) Chain(output int, to *Stage, input int) {
	s.add(output, target{stage: to, input: input})
}

// Exchange lets an output lead to other tasks.
func (s *Stage) Exchange(output int, w *Writer) { s.add(output, target{w: w}) }

func (s *Stage) add(output int, t target) {
	for i := range s.outs {
		if s.outs[i].output == output {
			s.outs[i].targets = append(s.outs[i].targets, t)
			return
		}
	}
	s.outs = append(s.outs, route{output, []target{t}})
}

// Emit implements operators.Collector: hands a batch to whatever the output leads to.
func (s *Stage) Emit(output int, b *abi.Batch) error {
	for i := range s.outs {
		r := &s.outs[i]
		if r.output != output {
			continue
		}
		for j, t := range r.targets {
			in := b
			if t.w == nil && j < len(r.targets)-1 { // an operator may change its batch: the others need it whole
				in = s.copy(b)
			}
			if err := t.take(in); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Stage) copy(b *abi.Batch) *abi.Batch {
	c := &s.copyBuf
	c.Data = append(c.Data[:0], b.Data...)
	c.Off = append(c.Off[:0], b.Off...)
	c.Hash = append(c.Hash[:0], b.Hash...)
	c.Marks = append(c.Marks[:0], b.Marks...)
	return c
}

func (t target) take(b *abi.Batch) error {
	if t.w != nil {
		return t.w.write(b)
	}
	return t.stage.batch(t.input, b)
}

// batch runs the stage's operator; a stage without one passes on.
func (s *Stage) batch(input int, b *abi.Batch) error {
	if s.Op == nil {
		return s.Emit(operators.OutputMain, b)
	}
	if s.clock != nil && s.clock.notes != nil {
		return s.clocked(input, b)
	}
	return s.Op.Batch(input, b, s)
}
