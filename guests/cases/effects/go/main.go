// Does what its records say: every effect a function can have, on demand. The commands are those of the
// Rust module; see ../rust/src/lib.rs.
package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	millrace "github.com/millrace-io/millrace/sdk/go"
)

var (
	small = millrace.NewValue("small", millrace.Bounded(32))
	big   = millrace.NewValue("big", millrace.BytesValue)
	table = millrace.NewMap("map", millrace.TextKey, millrace.TextValue)
	list  = millrace.NewList("list", millrace.TextValue)
	runs  = millrace.NewValue("runs", millrace.Uint64Value)
	side  = millrace.NewOutput("side")
)

// Module is what the program offers.
var Module = millrace.Register(millrace.Module{Name: "effects", Functions: []millrace.Function{{
	Name: "effects", Kind: millrace.Process, Keyed: true,
	SideOutputs: []*millrace.Output{side},
	States:      []millrace.State{small, big, table, list, runs},
	Timers:      []millrace.Domain{millrace.EventTime, millrace.ProcessingTime},
	OnRecord:    onRecord,
	OnTimer:     onTimer,
}}})

func onRecord(ctx *millrace.Ctx, rec millrace.Record) error {
	n, _, err := runs.Get(ctx)
	if err == nil {
		err = runs.Set(ctx, n+1)
	}
	text, textErr := rec.Text()
	if err = errors.Join(err, textErr); err != nil {
		return err
	}
	return run(ctx, &rec, text)
}

func onTimer(ctx *millrace.Ctx, t millrace.Timer) error {
	if err := say(ctx, "fired %d %s at watermark %d", t.Time(), t.Name(), ctx.Watermark()); err != nil {
		return err
	}
	if commands, ok := strings.CutPrefix(t.Name(), "do "); ok {
		return run(ctx, nil, commands)
	}
	return nil
}

func say(ctx *millrace.Ctx, format string, args ...any) error {
	return ctx.Emit().Text(fmt.Sprintf(format, args...))
}

var errUnknown = errors.New("unknown command")

func run(ctx *millrace.Ctx, rec *millrace.Record, commands string) error {
	for command := range strings.SplitSeq(commands, ";") {
		command = strings.TrimSpace(command)
		if command == "" {
			continue
		}
		name, arg, _ := strings.Cut(command, " ")
		err := errUnknown
		for _, try := range []func(*millrace.Ctx, string, string) error{values, lists, timers, outputs, rest} {
			if err = try(ctx, name, arg); err != errUnknown {
				break
			}
		}
		if err == errUnknown && name == "forward" && rec != nil {
			err = ctx.Forward(*rec)
		}
		if err == errUnknown {
			err = fmt.Errorf("unknown command %q", name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func fill(c byte, arg string) ([]byte, error) {
	n, err := strconv.Atoi(arg)
	return []byte(strings.Repeat(string(rune(c)), max(n, 0))), err
}

func values(ctx *millrace.Ctx, name, arg string) error {
	switch name {
	case "set":
		if len(arg) > 32 {
			return errors.New("set: more than 32 bytes")
		}
		return small.Set(ctx, []byte(arg))
	case "value":
		v, ok, err := small.Get(ctx)
		if err != nil {
			return err
		}
		if !ok {
			return say(ctx, "no value")
		}
		return say(ctx, "value %s", v)
	case "unset":
		return small.Clear(ctx)
	case "big":
		v, err := fill('x', arg)
		if err != nil {
			return err
		}
		return big.Set(ctx, v)
	case "biglen":
		v, ok, err := big.Get(ctx)
		if err != nil {
			return err
		}
		if !ok {
			return say(ctx, "no big")
		}
		return say(ctx, "big %d", len(v))
	}
	return errUnknown
}

func lists(ctx *millrace.Ctx, name, arg string) error {
	var all []string
	switch name {
	case "put":
		k, v, _ := strings.Cut(arg, " ")
		return table.Put(ctx, k, v)
	case "get":
		v, ok, err := table.Get(ctx, arg)
		if err != nil {
			return err
		}
		if !ok {
			return say(ctx, "no %s", arg)
		}
		return say(ctx, "%s = %s", arg, v)
	case "del":
		return table.Remove(ctx, arg)
	case "empty":
		return table.Clear(ctx)
	case "scan":
		err := table.ScanFrom(ctx, arg, func(k, v string) (bool, error) {
			all = append(all, k+"="+v)
			return true, nil
		})
		if err != nil {
			return err
		}
		return say(ctx, "map %s", strings.Join(all, " "))
	case "append":
		return list.Append(ctx, arg)
	case "unlist":
		return list.Clear(ctx)
	case "list":
		err := list.Each(ctx, func(v string) error {
			all = append(all, v)
			return nil
		})
		if err != nil {
			return err
		}
		return say(ctx, "list %s", strings.Join(all, " "))
	}
	return errUnknown
}

func timers(ctx *millrace.Ctx, name, arg string) error {
	at, label, _ := strings.Cut(arg, " ")
	d := millrace.EventTime
	switch name {
	case "ptimer", "unptimer":
		d = millrace.ProcessingTime
	case "timer", "untimer":
	default:
		return errUnknown
	}
	ms, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return err
	}
	if strings.HasPrefix(name, "un") {
		return ctx.DeleteTimerIn(d, label, ms)
	}
	return ctx.SetTimerIn(d, label, ms)
}

func outputs(ctx *millrace.Ctx, name, arg string) error {
	switch name {
	case "out":
		return ctx.Emit().Text(arg)
	case "side":
		return ctx.Emit().To(side).Text(arg)
	case "large":
		v, err := fill('y', arg)
		if err != nil {
			return err
		}
		return ctx.Emit().Value(v)
	case "many":
		n, err := strconv.Atoi(arg)
		for i := 0; i < n && err == nil; i++ {
			err = say(ctx, "%d", i)
		}
		return err
	case "tombstone":
		return ctx.Emit().Op(millrace.Delete).Null()
	case "header":
		k, v, _ := strings.Cut(arg, " ")
		return ctx.Emit().Headers(millrace.Header{Key: []byte(k), Value: []byte(v)}, millrace.Header{Key: []byte("null")}).Text("headers")
	}
	return errUnknown
}

func rest(ctx *millrace.Ctx, name, arg string) error {
	switch name {
	case "log":
		ctx.Log(millrace.Info, arg)
		return nil
	case "count":
		counter, number, ok := strings.Cut(arg, " ")
		if !ok {
			number = "1"
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err == nil {
			ctx.Count(counter, n)
		}
		return err
	case "random":
		return say(ctx, "random %016x %016x", ctx.RandomUint64(), ctx.RandomUint64())
	case "wm":
		return say(ctx, "watermark %d", ctx.Watermark())
	case "now":
		return say(ctx, "now %d", ctx.ProcessingTime())
	case "fail":
		return errors.New(arg)
	case "trap":
		panic("trap on demand")
	case "spin":
		for { //nolint:staticcheck // never comes back; the fuel ends it
		}
	case "eat":
		var all [][]byte
		for {
			all = append(all, []byte(strings.Repeat("x", 1<<20)))
		}
	}
	return errUnknown
}

func main() {}
