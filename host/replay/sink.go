package replay

import (
	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
)

// collector stands in for a sink in one task.
type collector struct {
	run  *run
	node *operators.Node
	sink Sink // nil: records are counted only
}

// Open implements operators.Operator.
func (c *collector) Open(ctx *operators.Context) error {
	if c.run.o.Sink != nil {
		c.sink = c.run.o.Sink(c.node, ctx.Task)
	}
	return nil
}

// Batch implements operators.Operator.
func (c *collector) Batch(_ int, b *abi.Batch, _ operators.Collector) error {
	if b.Len() == 0 {
		return nil
	}
	c.run.mu.Lock()
	c.run.sinks[c.node.ID] += int64(b.Len())
	c.run.mu.Unlock()
	if c.sink == nil {
		return nil
	}
	for i := range b.Len() {
		if err := c.sink.Record(b.Frame(i)); err != nil {
			return err
		}
	}
	return nil
}

// Close implements operators.Operator.
func (c *collector) Close() error {
	if c.sink == nil {
		return nil
	}
	return c.sink.Close()
}
