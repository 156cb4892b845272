package main

import (
	"encoding/binary"
	"errors"
	"strconv"

	millrace "github.com/millrace-io/millrace/sdk/go"
)

// most is how many values trail keeps.
const most = 16

// trail is the last values, in order of arrival, 8 bytes each.
type trail struct{}

func (trail) Create() []byte { return nil }

func (trail) Add(_ *millrace.Ctx, t *[]byte, rec millrace.Record) error {
	if x, ok, err := value(rec); err != nil {
		return err
	} else if ok {
		*t = last(binary.LittleEndian.AppendUint64(*t, uint64(x)))
	}
	return nil
}

func last(b []byte) []byte { return b[max(0, len(b)-8*most):] }

func (trail) Merge(_ *millrace.Ctx, t, other *[]byte) error {
	*t = last(append(*t, *other...))
	return nil
}

func (trail) Result(ctx *millrace.Ctx, t *[]byte, _ millrace.Window) error {
	var text []byte
	for b := *t; len(b) > 0; b = b[8:] {
		text = append(strconv.AppendInt(text, int64(binary.LittleEndian.Uint64(b)), 10), ' ')
	}
	return ctx.Emit().Row(1).Bytes(0, text).Send()
}

// Values that fail when they come in; sums that fail when they are merged, or are a result.
const (
	addError, addPanic, addForever = -1001, -1002, -1003
	noMerge, noMergePanic          = -2000, -2001
	noResult, noResultPanic, twice = -3000, -3001, -3002
)

// touchy fails, each way at its own values.
type touchy struct{}

func (touchy) Create() total { return total{} }

func (touchy) Add(ctx *millrace.Ctx, t *total, rec millrace.Record) error {
	x, _, err := value(rec)
	if err != nil {
		return err
	}
	t.N++
	t.Sum += x
	ctx.Count("added", 1)
	switch x {
	case addError:
		return errors.New("the value is " + strconv.FormatInt(x, 10))
	case addPanic:
		panic("the value is " + strconv.FormatInt(x, 10))
	case addForever:
		for t.N != 2 {
			t.N = t.N*3 | 1
		}
	}
	return nil
}

func (touchy) Merge(_ *millrace.Ctx, t, other *total) error {
	switch t.Sum + other.Sum {
	case noMerge:
		return errors.New("the sum would be -2000")
	case noMergePanic:
		panic("the sum would be -2001")
	}
	t.N += other.N
	t.Sum += other.Sum
	return nil
}

func (touchy) Result(ctx *millrace.Ctx, t *total, w millrace.Window) error {
	switch t.Sum {
	case noResult:
		return errors.New("the sum at " + strconv.FormatInt(w.End(), 10) + " is -3000")
	case noResultPanic:
		panic("the sum is -3001")
	case twice:
		if err := ctx.Emit().Row(1).Int(0, 1).Send(); err != nil {
			return err
		}
	}
	return ctx.Emit().Row(1).Int(0, int64(t.N)).Send()
}
