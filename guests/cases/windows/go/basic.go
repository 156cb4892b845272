package main

import (
	"math"

	millrace "github.com/millrace-io/millrace/sdk/go"
)

// count is the number of records.
type count struct{}

func (count) Create() uint64 { return 0 }

func (count) Add(_ *millrace.Ctx, n *uint64, _ millrace.Record) error {
	*n++
	return nil
}

func (count) Retract(_ *millrace.Ctx, n *uint64, _ millrace.Record) error {
	*n--
	return nil
}

func (count) Merge(_ *millrace.Ctx, n, other *uint64) error {
	*n += *other
	return nil
}

func (count) Result(ctx *millrace.Ctx, n *uint64, _ millrace.Window) error {
	return ctx.Emit().Row(1).Int(0, int64(*n)).Send()
}

// total is a number of values and their sum.
type total struct {
	N   uint64
	Sum int64
}

// sum is the sum of values.
type sum struct{}

func (sum) Create() total { return total{} }

func (sum) Add(_ *millrace.Ctx, t *total, rec millrace.Record) error {
	if x, ok, err := value(rec); err != nil {
		return err
	} else if ok {
		t.N++
		t.Sum += x
	}
	return nil
}

func (sum) Merge(_ *millrace.Ctx, t, other *total) error {
	t.N += other.N
	t.Sum += other.Sum
	return nil
}

func (sum) Result(ctx *millrace.Ctx, t *total, _ millrace.Window) error {
	row := ctx.Emit().Row(1)
	if t.N > 0 {
		row.Int(0, t.Sum)
	}
	return row.Send()
}

// mean is a number of values and their sum.
type mean struct {
	N   uint64
	Sum float64
}

// avg is the mean of values.
type avg struct{}

func (avg) Create() mean { return mean{} }

func (avg) Add(_ *millrace.Ctx, m *mean, rec millrace.Record) error {
	row, err := rec.Row(1)
	if err != nil {
		return err
	}
	if x, ok := row.Float(0); ok {
		m.N++
		m.Sum += x
	}
	return nil
}

func (avg) Merge(_ *millrace.Ctx, m, other *mean) error {
	m.N += other.N
	m.Sum += other.Sum
	return nil
}

func (avg) Result(ctx *millrace.Ctx, m *mean, _ millrace.Window) error {
	row := ctx.Emit().Row(1)
	if m.N > 0 {
		row.Float(0, m.Sum/float64(m.N))
	}
	return row.Send()
}

// several is what stats keeps.
type several struct {
	Records, N    uint64
	Sum, Min, Max int64
}

// stats is several at once.
type stats struct{}

func (stats) Create() several { return several{Min: math.MaxInt64, Max: math.MinInt64} }

func (stats) Add(_ *millrace.Ctx, s *several, rec millrace.Record) error {
	s.Records++
	if x, ok, err := value(rec); err != nil {
		return err
	} else if ok {
		s.N++
		s.Sum += x
		s.Min, s.Max = min(s.Min, x), max(s.Max, x)
	}
	return nil
}

func (stats) Merge(_ *millrace.Ctx, s, o *several) error {
	s.Records += o.Records
	s.N += o.N
	s.Sum += o.Sum
	s.Min, s.Max = min(s.Min, o.Min), max(s.Max, o.Max)
	return nil
}

func (stats) Result(ctx *millrace.Ctx, s *several, _ millrace.Window) error {
	row := ctx.Emit().Row(4).Int(0, int64(s.Records))
	if s.N > 0 {
		row.Int(1, s.Sum).Int(2, s.Min).Int(3, s.Max)
	}
	return row.Send()
}
