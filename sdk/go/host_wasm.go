//go:build wasip1

package millrace

import "unsafe"

//go:wasmimport mr next
func mrNext(i uint32) uint32

//go:wasmimport mr fail
//go:noescape
func mrFail(msg unsafe.Pointer, n uint32)

//go:wasmimport mr get
//go:noescape
func mrGet(state uint32, ukey unsafe.Pointer, ukeyLen uint32, buf unsafe.Pointer, cap uint32) int64

//go:wasmimport mr put
//go:noescape
func mrPut(state uint32, ukey unsafe.Pointer, ukeyLen uint32, val unsafe.Pointer, valLen uint32) int32

//go:wasmimport mr delete
//go:noescape
func mrDelete(state uint32, ukey unsafe.Pointer, ukeyLen uint32) int32

//go:wasmimport mr clear
func mrClear(state uint32) int32

//go:wasmimport mr append
//go:noescape
func mrAppend(state uint32, val unsafe.Pointer, valLen uint32) int32

//go:wasmimport mr scan
//go:noescape
func mrScan(state uint32, from unsafe.Pointer, fromLen uint32) int32

//go:wasmimport mr scan_next
//go:noescape
func mrScanNext(iter uint32, buf unsafe.Pointer, cap uint32) int32

//go:wasmimport mr scan_close
func mrScanClose(iter uint32) int32

//go:wasmimport mr timer_set
//go:noescape
func mrTimerSet(domain uint32, name unsafe.Pointer, nameLen uint32, time int64) int32

//go:wasmimport mr timer_delete
//go:noescape
func mrTimerDelete(domain uint32, name unsafe.Pointer, nameLen uint32, time int64) int32

//go:wasmimport mr emit
//go:noescape
func mrEmit(frame unsafe.Pointer, n, at uint32) int32

//go:wasmimport mr log
//go:noescape
func mrLog(level uint32, msg unsafe.Pointer, n uint32)

//go:wasmimport mr metric
//go:noescape
func mrMetric(name unsafe.Pointer, nameLen uint32, add int64) int32

//go:wasmimport mr random
//go:noescape
func mrRandom(buf unsafe.Pointer, n uint32) int32

func data(b []byte) (unsafe.Pointer, uint32) {
	return unsafe.Pointer(unsafe.SliceData(b)), uint32(len(b))
}

func chars(s string) (unsafe.Pointer, uint32) {
	return unsafe.Pointer(unsafe.StringData(s)), uint32(len(s))
}

func hostNext(i uint32) uint32 { return mrNext(i) }

func hostFail(msg string) { mrFail(chars(msg)) }

func hostGet(state uint32, ukey, buf []byte) int64 {
	k, kn := data(ukey)
	b, n := data(buf)
	return mrGet(state, k, kn, b, n)
}

func hostPut(state uint32, ukey, val []byte) int32 {
	k, kn := data(ukey)
	v, vn := data(val)
	return mrPut(state, k, kn, v, vn)
}

func hostDelete(state uint32, ukey []byte) int32 {
	k, n := data(ukey)
	return mrDelete(state, k, n)
}

func hostClear(state uint32) int32 { return mrClear(state) }

func hostAppend(state uint32, val []byte) int32 {
	v, n := data(val)
	return mrAppend(state, v, n)
}

func hostScan(state uint32, from []byte) int32 {
	f, n := data(from)
	return mrScan(state, f, n)
}

func hostScanNext(iter uint32, buf []byte) int32 {
	b, n := data(buf)
	return mrScanNext(iter, b, n)
}

func hostScanClose(iter uint32) int32 { return mrScanClose(iter) }

func hostTimerSet(domain uint32, name string, time int64) int32 {
	s, n := chars(name)
	return mrTimerSet(domain, s, n, time)
}

func hostTimerDelete(domain uint32, name string, time int64) int32 {
	s, n := chars(name)
	return mrTimerDelete(domain, s, n, time)
}

func hostEmit(frame []byte, at int) int32 {
	f, n := data(frame)
	return mrEmit(f, n, uint32(at))
}

func hostLog(level uint32, line string) {
	s, n := chars(line)
	mrLog(level, s, n)
}

func hostMetric(name string, add int64) int32 {
	s, n := chars(name)
	return mrMetric(s, n, add)
}

func hostRandom(b []byte) int32 { return mrRandom(data(b)) }

// What the host calls. Its buffers live as long as the instance: buffers keeps them.

var (
	ctx        Ctx
	buffers    [][]byte
	descriptor []byte
)

//go:wasmexport mr_abi_v0
func mrABIv0() {}

//go:wasmexport mr_alloc
func mrAlloc(size uint32) uint32 {
	b := make([]byte, max(size, 16)) // of this size on, Go aligns to 8 at least
	buffers = append(buffers, b)
	return address(b)
}

func address(b []byte) uint32 { return uint32(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// buffer finds what mr_alloc gave out; there are two or three.
func buffer(at, n uint32) []byte {
	for i := len(buffers) - 1; i >= 0; i-- {
		if b := buffers[i]; address(b) == at && int(n) <= len(b) {
			return b[:n:n]
		}
	}
	panic("millrace: the host uses a buffer that mr_alloc did not give out")
}

//go:wasmexport mr_process
func mrProcess(block, blockLen, out, outCap, first uint32) int32 {
	return ctx.process(registered, buffer(block, blockLen), buffer(out, outCap), first)
}

// What goes over to or from another module.
var saved, loaded stream

//go:wasmexport mr_save
func mrSave(at, n uint32) int32 { return saved.save(registered, buffer(at, n)) }

//go:wasmexport mr_load
func mrLoad(at, n uint32) int32 { return loaded.load(registered, buffer(at, n)) }

//go:wasmexport mr_describe
func mrDescribe() int64 {
	if registered == nil {
		panic("millrace: the program registers no module")
	}
	descriptor = registered.Describe()
	return int64(address(descriptor))<<32 | int64(len(descriptor))
}
