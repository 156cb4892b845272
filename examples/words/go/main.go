// Words of lines, as rows: windows count them.
package main

import (
	"strings"

	millrace "github.com/millrace-io/millrace/sdk/go"
)

var (
	input  = []millrace.Field{{Name: "line", Type: millrace.String}}
	output = []millrace.Field{{Name: "word", Type: millrace.String}}
)

// Module is what the program offers.
var Module = millrace.Register(millrace.Module{Name: "words", Functions: []millrace.Function{
	{Name: "words", Kind: millrace.FlatMap, Input: input, Output: output, OnRecord: split},
}})

// split gives one row per word, in lower case, of the line's time. Words are ASCII letters and digits, and
// whatever is not ASCII.
func split(ctx *millrace.Ctx, rec millrace.Record) error {
	row, err := rec.Row(len(input))
	if err != nil {
		return err
	}
	line, _ := row.Str(0)
	for _, word := range strings.FieldsFunc(line, separates) {
		if err := ctx.Emit().Row(len(output)).Str(0, strings.Map(lower, word)).Send(); err != nil {
			return err
		}
	}
	return nil
}

func separates(c rune) bool {
	return c < 0x80 && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
}

func lower(c rune) rune {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

func main() {}
