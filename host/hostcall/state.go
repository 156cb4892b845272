package hostcall

import (
	"encoding/binary"

	"github.com/millrace-io/millrace/abi"
)

func init() {
	define(abi.ImportModule, abi.CallGet, "iiiii", "l", get)
	define(abi.ImportModule, abi.CallPut, "iiiii", "i", put)
	define(abi.ImportModule, abi.CallDelete, "iii", "i", del)
	define(abi.ImportModule, abi.CallClear, "i", "i", clearState)
	define(abi.ImportModule, abi.CallAppend, "iii", "i", appendState)
	define(abi.ImportModule, abi.CallScan, "iii", "i", scan)
	define(abi.ImportModule, abi.CallScanNext, "iii", "i", scanNext)
	define(abi.ImportModule, abi.CallScanClose, "i", "i", scanClose)
}

// get reads an entry of the current key.
//
//	params:   state i32      number of the state in the function's descriptor
//	          ukey, ukey_len  map state: the entry's key; else an empty range
//	          buf, cap        where the value goes
//	returns:  i64 length of the value, >= 0. If it is more than cap, nothing was written: call again with
//	          a larger buffer. Else buf[0:length] holds the value and the rest of buf is untouched.
//	errors:   StatusAbsent      there is no such entry (an empty value is a value of length 0)
//	          StatusBadArg      unknown state, or a prefetched one (its value is in the block)
//	          StatusBadPointer  ukey or buf not inside the memory
//	          StatusLimit       ukey_len over MaxStateValueBytes
//	          StatusNoKey       outside a record, or the stream is not keyed
//	owns:     both ranges are the guest's; the host keeps neither
func get(s *Scope, stack []uint64) {
	ukey, st := s.Limited(stack[1], stack[2], abi.MaxStateValueBytes)
	buf, ok := s.Bytes(stack[3], stack[4])
	switch {
	case st < 0:
		stack[0] = uint64(int64(st))
		return
	case !ok:
		stack[0] = status64(abi.StatusBadPointer)
		return
	}
	v, st := s.Env.Get(s.Record(), i32(stack[0]), ukey)
	switch {
	case st < 0:
		stack[0] = uint64(int64(st))
		return
	case len(v) <= len(buf):
		copy(buf, v)
		s.charge(len(v))
	}
	stack[0] = uint64(len(v))
}

// put sets a value, or the map entry ukey, of the current key.
//
//	params:   state i32; ukey, ukey_len; val, val_len
//	returns:  0
//	errors:   StatusBadArg      unknown, prefetched or list state
//	          StatusBadPointer  ukey or val not inside the memory
//	          StatusLimit       ukey_len or val_len over MaxStateValueBytes, or over the state's max_bytes
//	          StatusNoKey       outside a record, or the stream is not keyed
//	owns:     the host copies both ranges; the guest may overwrite them at once
func put(s *Scope, stack []uint64) {
	ukey, st := s.Limited(stack[1], stack[2], abi.MaxStateValueBytes)
	if st < 0 {
		stack[0] = result(st)
		return
	}
	v, st := s.Limited(stack[3], stack[4], abi.MaxStateValueBytes)
	if st >= 0 {
		s.charge(len(ukey) + len(v))
		st = s.Env.Put(s.Record(), i32(stack[0]), ukey, v)
	}
	stack[0] = result(st)
}

// del removes a value, or the map entry ukey, of the current key.
//
//	params:   state i32; ukey, ukey_len
//	returns:  0, also if there was none
//	errors:   as put
func del(s *Scope, stack []uint64) {
	ukey, st := s.Limited(stack[1], stack[2], abi.MaxStateValueBytes)
	if st >= 0 {
		st = s.Env.Delete(s.Record(), i32(stack[0]), ukey)
	}
	stack[0] = result(st)
}

// clearState removes everything that a state holds for the current key.
//
//	params:   state i32
//	returns:  0
//	errors:   StatusBadArg  unknown or prefetched state
//	          StatusNoKey   outside a record, or the stream is not keyed
func clearState(s *Scope, stack []uint64) {
	stack[0] = result(s.Env.Clear(s.Record(), i32(stack[0])))
}

// appendState adds an element at the end of a list state.
//
//	params:   state i32; val, val_len
//	returns:  0
//	errors:   as put; StatusBadArg also if the state is not a list
//	owns:     the host copies val
func appendState(s *Scope, stack []uint64) {
	v, st := s.Limited(stack[1], stack[2], abi.MaxStateValueBytes)
	if st >= 0 {
		s.charge(len(v))
		st = s.Env.Append(s.Record(), i32(stack[0]), v)
	}
	stack[0] = result(st)
}

// scan opens an iterator over the entries of a map or list state of the current key, in the order of
// their keys (list: of their place; the key is the index, 8 bytes big endian).
//
//	params:   state i32; from, from_len: the first key wanted, empty = from the start
//	returns:  number of the iterator, >= 0; valid until scan_close or the end of the record
//	errors:   StatusBadArg, StatusBadPointer, StatusNoKey as get
//	          StatusLimit  too many open iterators
//	owns:     the host copies from
func scan(s *Scope, stack []uint64) {
	from, st := s.Limited(stack[1], stack[2], abi.MaxStateValueBytes)
	if st < 0 {
		stack[0] = result(st)
		return
	}
	it, st := s.Env.Scan(s.Record(), i32(stack[0]), from)
	if st < 0 {
		stack[0] = result(st)
		return
	}
	stack[0] = uint64(uint32(it))
}

// scanEntryHeader is the size of what precedes an entry's bytes.
const scanEntryHeader = 8

// scanEntryPrice is what an entry costs beside its bytes, in bytes of fuel.
const scanEntryPrice = 1024

// scanNext writes as many whole entries as fit and moves the iterator past them.
//
//	params:   iter i32; buf, cap
//	returns:  bytes written, > 0; 0 at the end
//	errors:   StatusTooSmall    the next entry alone is longer than cap. The iterator stays. If cap >= 4, the
//	                            entry's size in bytes (header included) is at buf as a u32: call again with
//	                            at least that much
//	          StatusBadArg      no such iterator
//	          StatusBadPointer  buf not inside the memory
//
// Each entry:
//
//	0  u32 key length
//	4  u32 value length
//	8  key, then value; the next entry follows without padding
//
//	owns:     buf is the guest's
func scanNext(s *Scope, stack []uint64) {
	buf, ok := s.Bytes(stack[1], stack[2])
	if !ok {
		stack[0] = result(abi.StatusBadPointer)
		return
	}
	record, it, n := s.Record(), i32(stack[0]), 0
	for {
		k, v, ok, st := s.Env.ScanNext(record, it, false)
		if st < 0 {
			stack[0] = result(st)
			return
		}
		need := scanEntryHeader + len(k) + len(v)
		if ok && n == 0 && need > len(buf) {
			if len(buf) >= 4 {
				binary.LittleEndian.PutUint32(buf, uint32(need))
			}
			stack[0] = result(abi.StatusTooSmall)
			return
		}
		if !ok || n+need > len(buf) {
			stack[0] = uint64(uint32(n))
			return
		}
		e := buf[n:]
		binary.LittleEndian.PutUint32(e, uint32(len(k)))
		binary.LittleEndian.PutUint32(e[4:], uint32(len(v)))
		copy(e[scanEntryHeader:], k)
		copy(e[scanEntryHeader+len(k):], v)
		n += need
		s.charge(need + scanEntryPrice)
		if _, _, _, st := s.Env.ScanNext(record, it, true); st < 0 {
			stack[0] = result(st)
			return
		}
	}
}

// scanClose ends an iterator.
//
//	params:   iter i32
//	returns:  0
//	errors:   StatusBadArg  no such iterator
func scanClose(s *Scope, stack []uint64) {
	stack[0] = result(s.Env.ScanClose(s.Record(), i32(stack[0])))
}

func status64(s abi.Status) uint64 { return uint64(int64(s)) }
