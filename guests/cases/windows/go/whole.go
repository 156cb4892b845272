package main

import (
	"errors"
	"slices"
	"strconv"

	millrace "github.com/millrace-io/millrace/sdk/go"
)

var values []int64 // of the window

// median is the middle of the values; windows of an odd number of them are told on the side.
func median(ctx *millrace.Ctx, w millrace.Window) error {
	values = values[:0]
	err := w.Elements(func(rec millrace.Record) error {
		x, ok, err := value(rec)
		if ok {
			values = append(values, x)
		}
		return err
	})
	if err != nil {
		return err
	}
	slices.Sort(values)
	n := len(values)
	if n > 0 && values[0] == addError {
		return errors.New("a value of -1001")
	}
	if n%2 == 1 {
		if err := ctx.Emit().To(odd).Value(strconv.AppendInt(nil, int64(n), 10)); err != nil {
			return err
		}
	}
	row := ctx.Emit().Row(4).Time(0, w.Start()).Time(1, w.End()).Int(2, int64(w.Len()))
	if n > 0 {
		row.Float(3, (float64(values[(n-1)/2])+float64(values[n/2]))/2)
	}
	return row.Send()
}

// share is the mean, of what aggregates counted and summed.
func share(ctx *millrace.Ctx, w millrace.Window) error {
	row, err := w.Row(2)
	if err != nil {
		return err
	}
	n, _ := row.Int(0)
	sum, _ := row.Int(1)
	return ctx.Emit().Row(2).Float(0, float64(sum)/float64(n)).Int(1, int64(w.Revision())).Send()
}
