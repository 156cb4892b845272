package hostcall

import (
	"encoding/binary"

	"github.com/millrace-io/millrace/operators/guestop"
)

// WASI is not part of the ABI, but toolchains import it. These stubs give a guest no file, socket,
// environment or argument, and a clock and random bytes that are the same on replay.
const wasi = "wasi_snapshot_preview1"

// Error numbers of WASI.
const (
	errnoSuccess = 0
	errnoBadFD   = 8
	errnoFault   = 21
	errnoInval   = 28
	errnoSPipe   = 70
)

func init() {
	define(wasi, "args_sizes_get", "ii", "i", wasiNoStrings)
	define(wasi, "environ_sizes_get", "ii", "i", wasiNoStrings)
	define(wasi, "args_get", "ii", "i", wasiReturn(errnoSuccess))
	define(wasi, "environ_get", "ii", "i", wasiReturn(errnoSuccess))
	define(wasi, "clock_time_get", "ili", "i", wasiClock)
	define(wasi, "clock_res_get", "ii", "i", wasiClockRes)
	define(wasi, "random_get", "ii", "i", wasiRandom)
	define(wasi, "fd_write", "iiii", "i", wasiWrite)
	define(wasi, "fd_read", "iiii", "i", wasiReturn(errnoBadFD))
	define(wasi, "fd_close", "i", "i", wasiReturn(errnoBadFD))
	define(wasi, "fd_seek", "ilii", "i", wasiSeek)
	define(wasi, "fd_tell", "ii", "i", wasiSeek)
	define(wasi, "fd_sync", "i", "i", wasiReturn(errnoBadFD))
	define(wasi, "fd_fdstat_get", "ii", "i", wasiStat)
	define(wasi, "fd_fdstat_set_flags", "ii", "i", wasiReturn(errnoSuccess))
	define(wasi, "fd_filestat_get", "ii", "i", wasiReturn(errnoBadFD))
	define(wasi, "fd_prestat_get", "ii", "i", wasiReturn(errnoBadFD))
	define(wasi, "fd_prestat_dir_name", "iii", "i", wasiReturn(errnoBadFD))
	define(wasi, "fd_readdir", "iiili", "i", wasiReturn(errnoBadFD))
	define(wasi, "path_open", "iiiiillii", "i", wasiReturn(errnoBadFD))
	define(wasi, "path_filestat_get", "iiiii", "i", wasiReturn(errnoBadFD))
	define(wasi, "poll_oneoff", "iiii", "i", wasiPoll)
	define(wasi, "sched_yield", "", "i", wasiReturn(errnoSuccess))
	define(wasi, "proc_exit", "i", "", wasiExit)
}

func wasiReturn(errno uint64) func(*Scope, []uint64) {
	return func(_ *Scope, stack []uint64) { stack[0] = errno }
}

// wasiNoStrings: no arguments, no environment; (count ptr, size ptr).
func wasiNoStrings(s *Scope, stack []uint64) {
	ok := s.putUint32(stack[0], 0) && s.putUint32(stack[1], 0)
	stack[0] = errno(ok)
}

// wasiClock: every clock reads the processing time, frozen for the call; (id, precision, ptr to u64 ns).
// Never 0, which the Go runtime takes for a broken clock.
func wasiClock(s *Scope, stack []uint64) {
	ns := max(uint64(s.Env.NowMS(s.Record()))*1e6, 1)
	stack[0] = errno(s.putUint64(stack[2], ns))
}

// wasiClockRes: a millisecond; (id, ptr to u64 ns).
func wasiClockRes(s *Scope, stack []uint64) { stack[0] = errno(s.putUint64(stack[1], 1e6)) }

// wasiRandom: the record's random bytes; (ptr, len).
func wasiRandom(s *Scope, stack []uint64) {
	if uint32(stack[1]) > MaxRandomBytes {
		stack[0] = errnoInval
		return
	}
	b, ok := s.Bytes(stack[0], stack[1])
	if ok {
		s.charge(4 * len(b))
		s.Env.Random(s.Record(), b)
	}
	stack[0] = errno(ok)
}

// maxVectors limits the ranges of one fd_write and the subscriptions of one poll_oneoff.
const maxVectors = 1024

// wasiWrite: fd 1 and 2 go to the log; (fd, iovs, count, ptr to u32 written). iovs is {u32 ptr, u32 len}[].
func wasiWrite(s *Scope, stack []uint64) {
	fd, count := i32(stack[0]), uint32(stack[2])
	if fd != 1 && fd != 2 {
		stack[0] = errnoBadFD
		return
	}
	if count > maxVectors {
		stack[0] = errnoInval
		return
	}
	iovs, ok := s.Bytes(stack[1], uint64(count)*8)
	written := uint64(0)
	for ; ok && len(iovs) > 0; iovs = iovs[8:] {
		var b []byte
		b, ok = s.Bytes(uint64(binary.LittleEndian.Uint32(iovs)), uint64(binary.LittleEndian.Uint32(iovs[4:])))
		if ok {
			s.charge(4 * len(b))
			s.Stdio.write(s, fd, b)
			written += uint64(len(b))
		}
	}
	ok = ok && s.putUint32(stack[3], uint32(written))
	stack[0] = errno(ok)
}

// wasiSeek: fd 0 to 2 are streams.
func wasiSeek(_ *Scope, stack []uint64) {
	if uint32(stack[0]) <= 2 {
		stack[0] = errnoSPipe
		return
	}
	stack[0] = errnoBadFD
}

// wasiStat: fd 0 to 2 are character devices; (fd, ptr to 24 bytes: u8 type, u16 flags at 2, rights).
func wasiStat(s *Scope, stack []uint64) {
	if uint32(stack[0]) > 2 {
		stack[0] = errnoBadFD
		return
	}
	b, ok := s.Bytes(stack[1], 24)
	if ok {
		clear(b)
		b[0] = 2
	}
	stack[0] = errno(ok)
}

// wasiPoll: a clock subscription is due at once (the clock stands still for the call, so waiting would
// never end), everything else is a bad descriptor; (in, out, count, ptr to u32 events).
//
//	subscription, 48 bytes: u64 userdata, u8 type at 8 (0 = clock)
//	event, 32 bytes: u64 userdata, u16 error at 8, u8 type at 10
func wasiPoll(s *Scope, stack []uint64) {
	count := uint32(stack[2])
	if count == 0 || count > maxVectors {
		stack[0] = errnoInval
		return
	}
	in, ok := s.Bytes(stack[0], uint64(count)*48)
	out, ok2 := s.Bytes(stack[1], uint64(count)*32)
	ok = ok && ok2 && s.putUint32(stack[3], count)
	for i := 0; ok && i < int(count); i++ {
		sub, ev := in[i*48:], out[i*32:i*32+32]
		user, kind := binary.LittleEndian.Uint64(sub), sub[8]
		clear(ev)
		binary.LittleEndian.PutUint64(ev, user)
		ev[10] = kind
		if kind != 0 {
			ev[8] = errnoBadFD
		}
	}
	stack[0] = errno(ok)
}

// wasiExit ends the guest call: a module that exits is no longer of use.
func wasiExit(_ *Scope, stack []uint64) {
	abort(guestop.FaultTrap, "the guest called proc_exit(%d)", int32(uint32(stack[0])))
}

func errno(ok bool) uint64 {
	if !ok {
		return errnoFault
	}
	return errnoSuccess
}
