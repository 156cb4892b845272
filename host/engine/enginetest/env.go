package enginetest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sort"

	"github.com/millrace-io/millrace/abi"
)

// Env is a guestop.Env that keeps state in maps, whatever the key of the record, and a list of all calls.
// It copies what it keeps. Not safe for concurrent use.
type Env struct {
	Calls []string
	Now   int64  // what clocks read, ms
	Seed  uint64 // of random bytes

	Values map[string][]byte // "state/ukey"
	iters  []iter
	Quiet  bool // don't list calls
	// On is asked before each call is answered; nil: nothing.
	On func(call string)
}

type iter struct {
	keys []string
	at   int
}

// NewEnv is an empty one, with the clock at 1 s.
func NewEnv() *Env { return &Env{Now: 1000, Seed: 1, Values: map[string][]byte{}} }

func (e *Env) call(format string, args ...any) {
	if e.Quiet && e.On == nil {
		return
	}
	c := fmt.Sprintf(format, args...)
	e.Calls = append(e.Calls, c)
	if e.On != nil {
		e.On(c)
	}
}

func key(st int, ukey []byte) string { return fmt.Sprintf("%d/%s", st, ukey) }

func status(st int) abi.Status {
	if st < 0 || st > 1 {
		return abi.StatusBadArg
	}
	return abi.StatusOK
}

func (e *Env) Get(record, st int, ukey []byte) ([]byte, abi.Status) {
	e.call("get %d %d %q", record, st, ukey)
	v, ok := e.Values[key(st, ukey)]
	if !ok {
		return nil, abi.StatusAbsent
	}
	return v, status(st)
}

func (e *Env) Put(record, st int, ukey, v []byte) abi.Status {
	e.call("put %d %d %q %q", record, st, ukey, v)
	if s := status(st); s < 0 {
		return s
	}
	e.Values[key(st, ukey)] = bytes.Clone(v)
	return abi.StatusOK
}

func (e *Env) Delete(record, st int, ukey []byte) abi.Status {
	e.call("delete %d %d %q", record, st, ukey)
	delete(e.Values, key(st, ukey))
	return status(st)
}

func (e *Env) Clear(record, st int) abi.Status {
	e.call("clear %d %d", record, st)
	return status(st)
}

func (e *Env) Append(record, st int, v []byte) abi.Status {
	e.call("append %d %d %q", record, st, v)
	return status(st)
}

func (e *Env) Scan(record, st int, from []byte) (int, abi.Status) {
	e.call("scan %d %d %q", record, st, from)
	prefix := key(st, nil)
	var it iter
	for k := range e.Values {
		if len(k) >= len(prefix) && k[:len(prefix)] == prefix && k[len(prefix):] >= string(from) {
			it.keys = append(it.keys, k[len(prefix):])
		}
	}
	sort.Strings(it.keys)
	e.iters = append(e.iters, it)
	return len(e.iters) - 1, status(st)
}

func (e *Env) ScanNext(_, i int, advance bool) (ukey, v []byte, ok bool, s abi.Status) {
	if i < 0 || i >= len(e.iters) {
		return nil, nil, false, abi.StatusBadArg
	}
	it := &e.iters[i]
	if it.at == len(it.keys) {
		return nil, nil, false, abi.StatusOK
	}
	k := it.keys[it.at]
	if advance {
		it.at++
	}
	return []byte(k), e.Values[key(1, []byte(k))], true, abi.StatusOK
}

func (e *Env) ScanClose(record, i int) abi.Status {
	e.call("scan_close %d %d", record, i)
	if i < 0 || i >= len(e.iters) {
		return abi.StatusBadArg
	}
	return abi.StatusOK
}

func (e *Env) TimerSet(record, domain int, name []byte, at int64) abi.Status {
	e.call("timer_set %d %d %q %d", record, domain, name, at)
	return abi.StatusOK
}

func (e *Env) TimerDelete(record, domain int, name []byte, at int64) abi.Status {
	e.call("timer_delete %d %d %q %d", record, domain, name, at)
	return abi.StatusOK
}

func (e *Env) Emit(record int, frame []byte, at int) abi.Status {
	e.call("emit %d %d bytes at %d", record, len(frame), at)
	return abi.StatusOK
}

func (e *Env) Fail(record int, msg []byte) { e.call("fail %d %q", record, msg) }

func (e *Env) Log(record, level int, msg []byte) { e.call("log %d %d %q", record, level, msg) }

func (e *Env) Metric(record int, name []byte, add int64) abi.Status {
	e.call("metric %d %q %d", record, name, add)
	return abi.StatusOK
}

func (e *Env) Random(record int, b []byte) {
	e.call("random %d %d", record, len(b))
	x := e.Seed + uint64(record+1)<<32
	for i := range b {
		x = x*6364136223846793005 + 1442695040888963407
		b[i] = byte(x >> 56)
	}
}

func (e *Env) NowMS(int) int64 { return e.Now }

// U32 is numbers as a guest reads them, to be put behind a request.
func U32(vs ...uint32) string {
	var b []byte
	for _, v := range vs {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return string(b)
}
