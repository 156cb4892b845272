//go:build !wasip1

package millrace

// host answers host calls while a Harness runs a function.
var host *testHost

func inHarness() *testHost {
	if host == nil {
		panic("millrace: host calls work inside a Harness only")
	}
	return host
}

func hostNext(i uint32) uint32                     { return inHarness().next(i) }
func hostFail(msg string)                          { inHarness().fail(msg) }
func hostGet(state uint32, ukey, buf []byte) int64 { return inHarness().get(state, ukey, buf) }
func hostPut(state uint32, ukey, val []byte) int32 { return inHarness().put(state, ukey, val) }
func hostDelete(state uint32, ukey []byte) int32   { return inHarness().remove(state, ukey) }
func hostClear(state uint32) int32                 { return inHarness().clear(state) }
func hostAppend(state uint32, val []byte) int32    { return inHarness().append(state, val) }
func hostScan(state uint32, from []byte) int32     { return inHarness().scan(state, from) }
func hostScanNext(iter uint32, buf []byte) int32   { return inHarness().scanNext(iter, buf) }
func hostScanClose(iter uint32) int32              { return inHarness().scanClose(iter) }
func hostTimerSet(domain uint32, name string, time int64) int32 {
	return inHarness().timer(domain, name, time, true)
}
func hostTimerDelete(domain uint32, name string, time int64) int32 {
	return inHarness().timer(domain, name, time, false)
}
func hostEmit(frame []byte, at int) int32     { return inHarness().emit(frame, at) }
func hostLog(level uint32, line string)       { inHarness().log(level, line) }
func hostMetric(name string, add int64) int32 { return inHarness().metric(name, add) }
func hostRandom(b []byte) int32               { return inHarness().random(b) }
