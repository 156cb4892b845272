package hostcall

import "github.com/millrace-io/millrace/abi"

// NoEnv is the Env of a module that is only asked to describe itself: nothing is there, nothing is kept,
// the clock stands at 0 and random bytes are zero.
type NoEnv struct{}

// Everything is refused or does nothing.
func (NoEnv) Get(int, int, []byte) ([]byte, abi.Status)      { return nil, abi.StatusForbidden }
func (NoEnv) Put(int, int, []byte, []byte) abi.Status        { return abi.StatusForbidden }
func (NoEnv) Delete(int, int, []byte) abi.Status             { return abi.StatusForbidden }
func (NoEnv) Clear(int, int) abi.Status                      { return abi.StatusForbidden }
func (NoEnv) Append(int, int, []byte) abi.Status             { return abi.StatusForbidden }
func (NoEnv) Scan(int, int, []byte) (int, abi.Status)        { return 0, abi.StatusForbidden }
func (NoEnv) ScanClose(int, int) abi.Status                  { return abi.StatusForbidden }
func (NoEnv) TimerSet(int, int, []byte, int64) abi.Status    { return abi.StatusForbidden }
func (NoEnv) TimerDelete(int, int, []byte, int64) abi.Status { return abi.StatusForbidden }
func (NoEnv) Emit(int, []byte, int) abi.Status               { return abi.StatusForbidden }
func (NoEnv) Fail(int, []byte)                               {}
func (NoEnv) Log(int, int, []byte)                           {}
func (NoEnv) Metric(int, []byte, int64) abi.Status           { return abi.StatusForbidden }
func (NoEnv) Random(_ int, b []byte)                         { clear(b) }
func (NoEnv) NowMS(int) int64                                { return 0 }
func (NoEnv) ScanNext(int, int, bool) ([]byte, []byte, bool, abi.Status) {
	return nil, nil, false, abi.StatusForbidden
}
