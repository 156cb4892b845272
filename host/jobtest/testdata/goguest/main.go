// Guests of cases that the modules of guests/cases have no commands for: a map that is changed while it is
// iterated, and package state that init made.
package main

import (
	"fmt"
	"strings"
	"time"

	millrace "github.com/millrace-io/millrace/sdk/go"
)

var (
	entries = millrace.NewMap("entries", millrace.TextKey, millrace.TextValue)
	numbers map[string]int
	inits   int
)

func init() {
	inits++
	numbers = map[string]int{"one": 1, "two": 2}
}

// Module is what the program offers.
var Module = millrace.Register(millrace.Module{Name: "goguest", Functions: []millrace.Function{
	{Name: "scan", Kind: millrace.Process, Keyed: true, States: []millrace.State{entries}, OnRecord: scan},
	{Name: "numbers", Kind: millrace.Process, Keyed: true, OnRecord: number},
	{Name: "clock", Kind: millrace.Process, Keyed: true, OnRecord: clock},
}})

// scan does what the value says: "small" and "large N" as in C016, "fill N", "left" counts, "open" leaves the
// iteration in the middle.
func scan(ctx *millrace.Ctx, rec millrace.Record) error {
	text, err := rec.Text()
	if err != nil {
		return err
	}
	var n int
	switch {
	case text == "small":
		return small(ctx)
	case text == "left", text == "open":
		err := entries.Scan(ctx, func(string, string) (bool, error) { n++; return text == "left", nil })
		if err != nil {
			return err
		}
		return ctx.Emit().Text(fmt.Sprint(text, " ", n))
	case strings.HasPrefix(text, "fill "):
		var from, to int
		if _, err := fmt.Sscanf(text, "fill %d %d", &from, &to); err != nil {
			return err
		}
		for i := from; i < to; i++ {
			if err := entries.Put(ctx, fmt.Sprintf("%07d", i), "x"); err != nil {
				return err
			}
		}
		return nil
	case text == "drain":
		err := entries.Scan(ctx, func(k, _ string) (bool, error) { n++; return true, entries.Remove(ctx, k) })
		if err != nil {
			return err
		}
		return ctx.Emit().Text(fmt.Sprint("seen ", n))
	}
	return fmt.Errorf("unknown command %q", text)
}

func small(ctx *millrace.Ctx) error {
	for _, e := range []string{"a1", "b2", "c3"} {
		if err := entries.Put(ctx, e[:1], e[1:]); err != nil {
			return err
		}
	}
	var seen, after []string
	err := entries.Scan(ctx, func(k, v string) (bool, error) {
		seen = append(seen, k+":"+v)
		if k != "a" {
			return true, nil
		}
		if err := entries.Remove(ctx, "b"); err != nil {
			return false, err
		}
		if err := entries.Put(ctx, "d", "4"); err != nil {
			return false, err
		}
		return true, entries.Put(ctx, "c", "9")
	})
	if err != nil {
		return err
	}
	err = entries.Scan(ctx, func(k, v string) (bool, error) {
		after = append(after, k+":"+v)
		return true, nil
	})
	if err != nil {
		return err
	}
	return ctx.Emit().Text(strings.Join(seen, ",") + " then " + strings.Join(after, ","))
}

func number(ctx *millrace.Ctx, rec millrace.Record) error {
	text, err := rec.Text()
	if err != nil {
		return err
	}
	if text == "panic" {
		panic("as asked")
	}
	return ctx.Emit().Text(fmt.Sprintf("%s is %d, init ran %d time", text, numbers[text], inits))
}

// clock says what the program's own clock shows, ms.
func clock(ctx *millrace.Ctx, _ millrace.Record) error {
	return ctx.Emit().Text(fmt.Sprint(time.Now().UnixMilli()))
}

func main() {}
