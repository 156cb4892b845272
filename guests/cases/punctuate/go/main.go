// Says the watermark of a source: by a command in the record, or behind records that carry a flag.
//
// told runs what stands in a record's text behind "#": a number is the watermark, "fail" and "trap" are what
// they say; every other record says nothing. flagged says the time of a row whose flag is set.
package main

import (
	"bytes"
	"errors"
	"strconv"

	millrace "github.com/millrace-io/millrace/sdk/go"
)

// Module is what the program offers.
var Module = millrace.Register(millrace.Module{Name: "punctuate", Functions: []millrace.Function{
	{Name: "told", Watermark: told},
	{Name: "flagged", Watermark: flagged, Input: []millrace.Field{{Name: "at", Type: millrace.Timestamp}, {Name: "last", Type: millrace.Bool}}},
}})

func told(_ *millrace.Ctx, rec millrace.Record) (int64, bool, error) {
	_, command, found := bytes.Cut(rec.Value(), []byte("#"))
	if !found {
		return 0, false, nil
	}
	switch string(command) {
	case "fail":
		return 0, false, errors.New("on demand")
	case "trap":
		panic("on demand")
	}
	ms, err := strconv.ParseInt(string(command), 10, 64)
	return ms, err == nil, err
}

func flagged(_ *millrace.Ctx, rec millrace.Record) (int64, bool, error) {
	row, err := rec.Row(2)
	if err != nil {
		return 0, false, err
	}
	last, ok := row.Bool(1)
	at, has := row.Time(0)
	return at, ok && last && has, nil
}

func main() {}
