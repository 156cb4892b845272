package why

import (
	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
)

// sourced is the step of a record that is the output as its source gave it.
type sourced struct{ step *Step }

// told implements noter.
func (s *sourced) told() ([]*Step, int) {
	if s.step == nil {
		return nil, 0
	}
	return []*Step{s.step}, 0
}

// look searches a source's records for the output.
func (r *run) look(w *watch, src operators.Source, b *abi.Batch) {
	for i := range b.Len() {
		f := b.Frame(i)
		if !r.match(w.giver, f) {
			continue
		}
		p := f.Pos()
		s := &Step{Number: 1, Split: &p.Split, Offset: &p.Offset, Position: src.Describe(p), Time: timeOf(f),
			Input: r.x.Target.Line}
		r.mu.Lock()
		w.notes = append(w.notes, &sourced{s})
		r.mu.Unlock()
		r.came(w.node, nil, false)
		r.end()
		return
	}
}
