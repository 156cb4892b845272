package operators

import "github.com/millrace-io/millrace/abi"

// Union joins streams of one schema into one. The task has merged their watermarks.
type Union struct{}

// Open implements Operator.
func (Union) Open(*Context) error { return nil }

// Batch implements Operator.
func (Union) Batch(_ int, b *abi.Batch, out Collector) error { return out.Emit(OutputMain, b) }

// Close implements Operator.
func (Union) Close() error { return nil }
