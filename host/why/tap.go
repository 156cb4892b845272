package why

import (
	"bytes"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/format"
	"github.com/millrace-io/millrace/operators/window"
)

// tap notes what goes into a window operator, and looks at what comes out. It implements noter.
type tap struct {
	inner
	node     *operators.Node
	by       []byte // key that is told
	most     int
	over     func() bool
	match    func(abi.Frame) bool
	came     func(abi.Frame)
	describe func(abi.Position) string

	input, output *format.RowEncoder
	total         int64
	steps         []*Step
	result        *Step
}

func newTap(n *operators.Node, op *window.Op, most int) *tap {
	t := &tap{inner: op, node: n, most: most}
	if len(n.Window.Input) > 0 {
		t.input = format.NewRowEncoder(n.Window.Input)
	}
	if len(n.Schema) > 0 {
		t.output = format.NewRowEncoder(n.Schema)
	}
	return t
}

// Open implements operators.Operator.
func (t *tap) Open(ctx *operators.Context) error {
	t.describe = ctx.Describe
	return t.inner.Open(ctx)
}

// Batch implements operators.Operator.
func (t *tap) Batch(input int, b *abi.Batch, out operators.Collector) error {
	for i := range b.Len() {
		f := b.Frame(i)
		if !t.over() && (t.node.Window.Unkeyed || t.by != nil && bytes.Equal(f.Key(), t.by)) {
			t.add(f)
		}
	}
	return t.inner.Batch(input, b, &tapped{out, t})
}

// OnProcessingTime implements operators.ProcessingTimer.
func (t *tap) OnProcessingTime(nowMS int64, out operators.Collector) error {
	return t.inner.OnProcessingTime(nowMS, &tapped{out, t})
}

func (t *tap) add(f abi.Frame) {
	t.total++
	s := &Step{Number: t.total, Input: rowOf(t.input, f.Value()), Time: timeOf(f)}
	if p := f.Pos(); p != abi.NoPosition {
		s.Split, s.Offset, s.Position = &p.Split, &p.Offset, t.describe(p)
	}
	if t.steps = append(t.steps, s); t.most > 0 && len(t.steps) > 64*t.most {
		t.steps = append(t.steps[:0], t.steps[len(t.steps)-32*t.most:]...)
	}
}

// told implements noter: the records of the window, where its size says which they are, and its result.
func (t *tap) told() (steps []*Step, left int) {
	steps = t.steps
	if t.result != nil {
		steps = t.inWindow()
	}
	left = 0
	if n := len(steps) - t.most; t.most > 0 && n > 0 {
		steps, left = steps[n:], n
	}
	if t.result != nil {
		steps = append(steps[:len(steps):len(steps)], t.result)
	}
	return steps, left
}

// inWindow leaves out records outside of the result's window.
func (t *tap) inWindow() (in []*Step) {
	w := &t.node.Window.Window
	end := t.result.Time
	for _, s := range t.steps {
		if end != nil && s.Time != nil && w.Size > 0 && w.Zone == "" && (*s.Time > *end || *s.Time <= *end-w.Size) {
			continue
		}
		in = append(in, s)
	}
	return in
}

// tapped looks at what a window operator gives.
type tapped struct {
	operators.Collector
	t *tap
}

// Emit implements operators.Collector.
func (c *tapped) Emit(output int, b *abi.Batch) error {
	for i := range b.Len() {
		if output != operators.OutputMain || c.t.result != nil {
			break
		}
		if f := b.Frame(i); c.t.match(f) {
			o := Output{Key: text(f.Key()), Value: rowOf(c.t.output, f.Value()), Time: timeOf(f), This: true}
			c.t.result = &Step{Number: c.t.total + 1, Time: timeOf(f), Outputs: []Output{o}, Fired: true}
			c.t.came(f)
		}
	}
	return c.Collector.Emit(output, b)
}
