package checkpoint

import "fmt"

// Probation is that of code which took over at a barrier: what sinks staged behind the barrier stays staged
// until Left more checkpoints are complete, so that a failure before that can go back to the barrier with nothing of
// the new code published.
type Probation struct {
	Since  ID      `json:"since,omitempty"`  // whose barrier; 0 in a Next: that of its manifest
	Left   int     `json:"left"`             // checkpoints until what is held is published, at least 1
	Errors float64 `json:"errors,omitempty"` // share of records that may fail; 0: the default
	What   string  `json:"what,omitempty"`   // for people: what took over
}

// behind is the probation as a further checkpoint has it; nil: it ends with that one.
func (p *Probation) behind(finished bool) *Probation {
	if p == nil || finished || p.Left <= 1 {
		return nil
	}
	next := *p
	next.Left--
	return &next
}

// began is the probation of a Next once checkpoint id is there.
func (p *Probation) began(id ID) *Probation {
	next := *p
	next.Since = id
	return &next
}

// validate checks one of checkpoint id; next: it begins there.
func (p *Probation) validate(id ID, next bool) error {
	switch {
	case p == nil:
		return nil
	case p.Left < 1:
		return fmt.Errorf("probation of %d checkpoints, expected at least 1", p.Left)
	case next && p.Since != 0, !next && (p.Since == 0 || p.Since >= id):
		return fmt.Errorf("probation since checkpoint %d in checkpoint %d", p.Since, id)
	}
	return nil
}

// OnProbation is the probation that a start behind the checkpoint goes on with; nil: none.
func (m *Manifest) OnProbation() *Probation {
	if m.Next != nil && m.Next.Probation != nil {
		return m.Next.Probation.began(m.ID)
	}
	return m.Probation
}

// Holds says that a staged file is not to be published yet by a start from the checkpoint.
func (m *Manifest) Holds(f StagedFile) bool {
	return m.Probation != nil && f.Cut > m.Probation.Since
}
