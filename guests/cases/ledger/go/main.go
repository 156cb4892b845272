// Keeps everything in its own variables, as guest.c beside it says.
package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strconv"

	millrace "github.com/millrace-io/millrace/sdk/go"
)

type entry struct {
	count, xor uint64
	at         int // of its last record in numbers, from 1; 0: it has none
}

var (
	entries = map[string]*entry{}
	numbers []uint64 // of all records, in the order of their coming
)

// Module is what the program offers.
var Module = millrace.Register(millrace.Module{Name: "ledger", Memory: true, Save: save, Load: load, Functions: []millrace.Function{
	{Name: "ledger", Kind: millrace.Process, Keyed: true, OnRecord: add},
}})

// add takes the number behind the last space. A record without spoils a counter of its key and then panics.
func add(ctx *millrace.Ctx, rec millrace.Record) error {
	key, number := rec.Key(), rec.Value()
	number = number[bytes.LastIndexByte(number, ' ')+1:]
	e := entries[string(key)]
	if e == nil {
		e = &entry{}
		entries[string(key)] = e
	}
	e.count++
	n, err := strconv.ParseUint(string(number), 10, 64)
	if err != nil {
		panic(err)
	}
	e.xor ^= n
	was := uint64(0)
	if e.at > 0 {
		was = numbers[e.at-1]
	}
	numbers = append(numbers, n)
	e.at = len(numbers)
	return ctx.Emit().JSON().Bytes("key", key).Uint("count", e.count).Uint("n", n).Uint("xor", e.xor).Uint("was", was).Send()
}

func save() []byte {
	out := []byte{1}
	for key, e := range entries {
		was := uint64(0)
		if e.at > 0 {
			was = numbers[e.at-1]
		}
		out = append(append(out, byte(len(key))), key...)
		for _, v := range []uint64{e.count, e.xor, was} {
			out = binary.LittleEndian.AppendUint64(out, v)
		}
	}
	return out
}

func load(stream []byte) error {
	if len(stream) == 0 || stream[0] != 1 {
		return errors.New("the stream is of another version than 1")
	}
	for rest := stream[1:]; len(rest) > 0; {
		n := int(rest[0])
		if len(rest) < 1+n+24 {
			return errors.New("the stream is cut")
		}
		values := rest[1+n:]
		numbers = append(numbers, binary.LittleEndian.Uint64(values[16:]))
		entries[string(rest[1:1+n])] = &entry{binary.LittleEndian.Uint64(values), binary.LittleEndian.Uint64(values[8:]), len(numbers)}
		rest = values[24:]
	}
	return nil
}

func main() {}
