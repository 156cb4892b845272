// Package stdio holds the stdin source, the stdout sink and the sink that only counts.
package stdio

import (
	"fmt"
	"io"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
)

// Sink writes lines at once, flushed after each batch: at least once, after a restart again.
type Sink struct {
	node *operators.Node
	w    io.Writer
	ctx  *operators.Context
	enc  *operators.LineEncoder
	buf  []byte
	n    int64
}

// NewSink makes the stdout sink of node n; w must be safe for the job's tasks to share.
func NewSink(n *operators.Node, w io.Writer) operators.Operator {
	s := &Sink{node: n, w: w, enc: operators.NewLineEncoder(n.Sink)}
	if n.Sink.Provenance {
		return &marked{s}
	}
	return s
}

// Open implements operators.Operator.
func (s *Sink) Open(ctx *operators.Context) error {
	s.ctx = ctx
	s.enc.Snapshot = ctx.Snapshot
	return nil
}

// Batch implements operators.Operator.
func (s *Sink) Batch(_ int, b *abi.Batch, _ operators.Collector) (err error) {
	s.buf = s.buf[:0]
	for i := range b.Off {
		f := b.Frame(i)
		if s.buf, err = s.enc.Append(s.buf, f); err != nil {
			return operators.SinkError(s.ctx, f, err)
		}
	}
	if len(s.buf) == 0 {
		return nil
	}
	if _, err := s.w.Write(s.buf); err != nil {
		return fmt.Errorf("sink %q: %w: %w", s.ctx.Operator, operators.ErrStdout, err)
	}
	s.n += int64(b.Len())
	return nil
}

// Counters implements operators.Counted.
func (s *Sink) Counters() map[string]int64 { return map[string]int64{"written": s.n} }

// Close implements operators.Operator.
func (s *Sink) Close() error { return nil }

// Blackhole counts and drops.
type Blackhole struct{ records, bytes int64 }

// Open implements operators.Operator.
func (s *Blackhole) Open(*operators.Context) error { return nil }

// Batch implements operators.Operator.
func (s *Blackhole) Batch(_ int, b *abi.Batch, _ operators.Collector) error {
	s.records += int64(b.Len())
	s.bytes += int64(len(b.Data))
	return nil
}

// Counters implements operators.Counted.
func (s *Blackhole) Counters() map[string]int64 {
	return map[string]int64{"written": s.records, "bytes": s.bytes}
}

// Close implements operators.Operator.
func (s *Blackhole) Close() error { return nil }
