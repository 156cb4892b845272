// Running word count: split makes words of lines, count counts each word.
package main

import millrace "github.com/millrace-io/millrace/sdk/go"

var total = millrace.NewValue("total", millrace.Uint64Value)

// Module is what the program offers.
var Module = millrace.Register(millrace.Module{Name: "wordcount", Functions: []millrace.Function{
	{Name: "split", Kind: millrace.FlatMap, OnRecord: splitLine},
	{Name: "count", Kind: millrace.Process, Keyed: true, States: []millrace.State{total}, OnRecord: countWord},
}})

// splitLine gives one output per word, in lower case, keyed by it. Words are ASCII letters and digits, and
// whatever is not ASCII.
func splitLine(ctx *millrace.Ctx, line millrace.Record) error {
	text, err := line.Text()
	if err != nil {
		return err
	}
	word := make([]byte, 0, 32)
	for i := 0; i <= len(text); i++ {
		if i < len(text) && inWord(text[i]) {
			word = append(word, lower(text[i]))
			continue
		}
		if len(word) > 0 {
			if err := ctx.Emit().Key(word).Value(word); err != nil {
				return err
			}
		}
		word = word[:0]
	}
	return nil
}

func inWord(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= lower(c) && lower(c) <= 'z' || c >= 0x80
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// countWord gives the word's count so far, each time it occurs.
func countWord(ctx *millrace.Ctx, word millrace.Record) error {
	n, _, err := total.Get(ctx)
	if err != nil {
		return err
	}
	if err := total.Set(ctx, n+1); err != nil {
		return err
	}
	return ctx.Emit().JSON().Bytes("word", word.Key()).Uint("count", n+1).Send()
}

func main() {}
