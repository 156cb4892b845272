// Which flights are delayed: the filter before the session windows.
package main

import millrace "github.com/millrace-io/millrace/sdk/go"

// delayed is from where on a flight counts as delayed, in minutes.
const delayed = 60

var input = []millrace.Field{{Name: "delay", Type: millrace.Int64}}

// Module is what the program offers.
var Module = millrace.Register(millrace.Module{Name: "delays", Functions: []millrace.Function{
	{Name: "delayed", Kind: millrace.Filter, Input: input, Keep: isDelayed},
}})

func isDelayed(_ *millrace.Ctx, flight millrace.Record) (bool, error) {
	row, err := flight.Row(len(input))
	if err != nil {
		return false, err
	}
	d, known := row.Int(0)
	return known && d >= delayed, nil
}

func main() {}
