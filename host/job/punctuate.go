package job

import (
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/guestop"
)

// punctuator is what makes a source's watermark function; nil: it has none.
func (a *attempt) punctuator(n *operators.Node) func(*operators.Context) (operators.Punctuator, error) {
	if n.Source == nil || n.Source.Time == nil || n.Source.Time.Punctuate == nil {
		return nil
	}
	g := n.Source.Time.Punctuate
	return func(ctx *operators.Context) (operators.Punctuator, error) {
		return guestop.NewPunctuator(guestop.CallerConfig{Node: g, Module: a.job.modules[operators.PunctuatorID(n.ID)], Context: ctx})
	}
}
