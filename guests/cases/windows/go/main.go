// Functions of windows: what is built in, written as a guest; aggregates that fail; functions called when a
// window fires. The Rust module beside it does the same.
package main

import (
	millrace "github.com/millrace-io/millrace/sdk/go"
)

func columns(names ...string) (fs []millrace.Field) {
	for _, n := range names {
		fs = append(fs, millrace.Field{Name: n, Type: millrace.Int64})
	}
	return fs
}

var (
	v   = columns("v")
	odd = millrace.NewOutput("odd")
)

// Module is what the program offers.
var Module = millrace.Register(millrace.Module{Name: "windows", Functions: []millrace.Function{
	{Name: "count", Output: columns("n"), Aggregate: millrace.NewAggregate[uint64](millrace.Uint64Value, count{})},
	{Name: "sum", Input: v, Output: columns("sum"), Aggregate: millrace.NewAggregate[total](millrace.Struct[total](), sum{})},
	{Name: "avg", Input: []millrace.Field{{Name: "f", Type: millrace.Float64}}, Output: []millrace.Field{{Name: "avg", Type: millrace.Float64}},
		Aggregate: millrace.NewAggregate[mean](millrace.Struct[mean](), avg{})},
	{Name: "stats", Input: v, Output: columns("n", "sum", "min", "max"), Aggregate: millrace.NewAggregate[several](millrace.Struct[several](), stats{})},
	{Name: "trail", Input: v, Output: []millrace.Field{{Name: "trail", Type: millrace.String}}, Aggregate: millrace.NewAggregate[[]byte](millrace.Bounded(8*most), trail{})},
	{Name: "touchy", Input: v, Output: columns("n"), Aggregate: millrace.NewAggregate[total](millrace.Struct[total](), touchy{})},
	{Name: "median", Input: v, Output: []millrace.Field{{Name: "start", Type: millrace.Timestamp}, {Name: "end", Type: millrace.Timestamp},
		{Name: "elements", Type: millrace.Int64}, {Name: "median", Type: millrace.Float64}}, SideOutputs: []*millrace.Output{odd}, OnWindow: median},
	{Name: "share", Input: columns("n", "sum"), Output: []millrace.Field{{Name: "mean", Type: millrace.Float64}, {Name: "revision", Type: millrace.Int64}}, OnWindow: share},
}})

func main() {}

// value is the one int64 column of a record's row; false if it is null.
func value(rec millrace.Record) (int64, bool, error) {
	row, err := rec.Row(1)
	if err != nil {
		return 0, false, err
	}
	x, ok := row.Int(0)
	return x, ok, nil
}
