package guestop

import "github.com/millrace-io/millrace/abi"

// HostCall is one call of the guest to the host. Slices are borrowed.
type HostCall struct {
	Name   string // get, put, delete, clear, append, scan, next, close, timer_set, timer_delete, emit, fail, log, count, random, now
	Record int    // in the call; -1: outside any record
	State  int    // number, -1: none
	Domain int    // of a timer
	Arg    []byte // user key, timer's or counter's name, text
	Value  []byte // given, or got
	Number int64  // a timer's time, an addend, an iterator, the time that was told
	Status abi.Status
}

// hostCalls is where the instance's host calls go.
func (o *Op) hostCalls() Env {
	if o.cfg.Observe == nil || !o.cfg.Trace {
		return o.env
	}
	return &tracer{o.env, o.cfg.Observe}
}

// tracer tells an observer of every host call.
type tracer struct {
	env  *env
	tell Observer
}

func (t *tracer) told(h HostCall) abi.Status {
	t.tell.Host(&h)
	return h.Status
}

// Get implements Env.
func (t *tracer) Get(record, st int, ukey []byte) ([]byte, abi.Status) {
	v, s := t.env.Get(record, st, ukey)
	return v, t.told(HostCall{Name: "get", Record: record, State: st, Arg: ukey, Value: v, Status: s})
}

// Put implements Env.
func (t *tracer) Put(record, st int, ukey, v []byte) abi.Status {
	return t.told(HostCall{Name: "put", Record: record, State: st, Arg: ukey, Value: v, Status: t.env.Put(record, st, ukey, v)})
}

// Delete implements Env.
func (t *tracer) Delete(record, st int, ukey []byte) abi.Status {
	return t.told(HostCall{Name: "delete", Record: record, State: st, Arg: ukey, Status: t.env.Delete(record, st, ukey)})
}

// Clear implements Env.
func (t *tracer) Clear(record, st int) abi.Status {
	return t.told(HostCall{Name: "clear", Record: record, State: st, Status: t.env.Clear(record, st)})
}

// Append implements Env.
func (t *tracer) Append(record, st int, v []byte) abi.Status {
	return t.told(HostCall{Name: "append", Record: record, State: st, Value: v, Status: t.env.Append(record, st, v)})
}

// Scan implements Env.
func (t *tracer) Scan(record, st int, from []byte) (int, abi.Status) {
	n, s := t.env.Scan(record, st, from)
	return n, t.told(HostCall{Name: "scan", Record: record, State: st, Arg: from, Number: int64(n), Status: s})
}

// ScanNext implements Env.
func (t *tracer) ScanNext(record, iter int, advance bool) (ukey, v []byte, ok bool, s abi.Status) {
	ukey, v, ok, s = t.env.ScanNext(record, iter, advance)
	t.told(HostCall{Name: "next", Record: record, State: -1, Arg: ukey, Value: v, Number: int64(iter), Status: s})
	return ukey, v, ok, s
}

// ScanClose implements Env.
func (t *tracer) ScanClose(record, iter int) abi.Status {
	return t.told(HostCall{Name: "close", Record: record, State: -1, Number: int64(iter), Status: t.env.ScanClose(record, iter)})
}

// TimerSet implements Env.
func (t *tracer) TimerSet(record, domain int, name []byte, at int64) abi.Status {
	return t.told(HostCall{Name: "timer_set", Record: record, State: -1, Domain: domain, Arg: name, Number: at, Status: t.env.TimerSet(record, domain, name, at)})
}

// TimerDelete implements Env.
func (t *tracer) TimerDelete(record, domain int, name []byte, at int64) abi.Status {
	return t.told(HostCall{Name: "timer_delete", Record: record, State: -1, Domain: domain, Arg: name, Number: at, Status: t.env.TimerDelete(record, domain, name, at)})
}

// Emit implements Env.
func (t *tracer) Emit(record int, frame []byte, at int) abi.Status {
	return t.told(HostCall{Name: "emit", Record: record, State: -1, Value: frame, Number: int64(at), Status: t.env.Emit(record, frame, at)})
}

// Fail implements Env.
func (t *tracer) Fail(record int, msg []byte) {
	t.env.Fail(record, msg)
	t.told(HostCall{Name: "fail", Record: record, State: -1, Arg: msg})
}

// Log implements Env.
func (t *tracer) Log(record, level int, msg []byte) {
	t.env.Log(record, level, msg)
	t.told(HostCall{Name: "log", Record: record, State: -1, Arg: msg, Number: int64(level)})
}

// Metric implements Env.
func (t *tracer) Metric(record int, name []byte, add int64) abi.Status {
	return t.told(HostCall{Name: "count", Record: record, State: -1, Arg: name, Number: add, Status: t.env.Metric(record, name, add)})
}

// Random implements Env.
func (t *tracer) Random(record int, b []byte) {
	t.env.Random(record, b)
	t.told(HostCall{Name: "random", Record: record, State: -1, Value: b})
}

// NowMS implements Env.
func (t *tracer) NowMS(record int) int64 {
	at := t.env.NowMS(record)
	t.told(HostCall{Name: "now", Record: record, State: -1, Number: at})
	return at
}
