// A Go guest on the bare ABI: it looks a value up in a map that init filled.
package main

import (
	"encoding/binary"
	"fmt"
	"unsafe"
)

var (
	numbers map[string]int
	inits   int
	keep    [][]byte // buffers the host holds
)

func init() {
	inits++
	numbers = map[string]int{"one": 1, "two": 2}
}

//go:wasmimport mr next
func next(i uint32) uint32

//go:wasmexport mr_abi_v0
func version() {}

const descriptor = `{"abi":0,"functions":[{"name":"numbers","kind":"map"}]}`

//go:wasmexport mr_describe
func describe() uint64 {
	return uint64(uintptr(unsafe.Pointer(unsafe.StringData(descriptor))))<<32 | uint64(len(descriptor))
}

//go:wasmexport mr_alloc
func alloc(size uint32) uint32 {
	b := make([]byte, size)
	keep = append(keep, b)
	return uint32(uintptr(unsafe.Pointer(&b[0])))
}

//go:wasmexport mr_process
func process(in, inLen, out, outCap, first uint32) uint32 {
	le := binary.LittleEndian
	block := unsafe.Slice((*byte)(unsafe.Pointer(uintptr(in))), inLen)
	header := unsafe.Slice((*byte)(unsafe.Pointer(uintptr(out))), outCap)
	n, at, frames, i := le.Uint32(block[4:]), uint32(16), uint32(0), first
	for ; ; i++ {
		if next(i) != 0 || outCap-at < 1024 || i >= n {
			break
		}
		f := block[le.Uint32(block[le.Uint32(block[8:])+4*i:]):]
		at += record(f[:le.Uint32(f)], header[at:], i)
		frames++
	}
	le.PutUint32(header, i)
	le.PutUint32(header[4:], at-16)
	le.PutUint32(header[8:], frames)
	if i < n {
		return 1
	}
	return 0
}

//go:noinline
func record(f, out []byte, i uint32) uint32 {
	le := binary.LittleEndian
	value := string(f[40+le.Uint32(f[16:]):])
	switch value {
	case "panic":
		panic("as asked")
	case "grow":
		keep = append(keep, make([]byte, 16<<20))
	}
	copy(out, f[:40])
	answer := fmt.Appendf(nil, "%d init %d", numbers[value], inits)
	copy(out[40:], answer)
	le.PutUint32(out, uint32(40+len(answer)))
	le.PutUint32(out[16:], 0)
	le.PutUint32(out[20:], uint32(len(answer)))
	le.PutUint32(out[28:], i)
	out[4] = 2
	return uint32(40 + len(answer))
}

func main() {}
