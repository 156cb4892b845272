package guestop

import (
	"encoding/binary"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/zeebo/xxh3"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
)

// CallerConfig is what an operator with guest functions of its own gives for each of them.
type CallerConfig struct {
	Node    *operators.GuestNode // Fn resolved; Input is the schema of the records
	Module  Module
	Context *operators.Context
}

// caller is what guest functions inside a native operator have in common: an instance, and host calls
// without state and timers. What a call logs and counts is staged until it has gone well.
type caller struct {
	ctx     *operators.Context
	node    *operators.GuestNode
	fn      *abi.Function
	module  Module
	guest   Guest
	live    atomic.Pointer[Guest] // guest, for Stop
	now     int64                 // processing time of the callback
	frameAt func(record int) abi.Frame

	arena    []byte
	emits    []emit
	failures []failure
	logs     []logLine
	counts   []metric
	logged   int // of logs before the call
	counted  int // of counts
	draws    randomStream
	logRate  logRate
	metrics  map[string]int64
	stats    CallerStats
}

// CallerStats are counters of one function in one task.
// Billed is the part of Fuel that is the steps', windows' or records' own.
type CallerStats struct{ Calls, Faults, Resets, Fuel, Billed int64 }

func (c *caller) open(cfg CallerConfig) error {
	c.ctx, c.node, c.fn, c.module = cfg.Context, cfg.Node, cfg.Node.Fn, cfg.Module
	g, err := c.module.New(c, InstanceOptions{MemoryBytes: c.node.Memory, FuelPerRecord: c.node.Fuel})
	if err != nil {
		return fmt.Errorf("operator %s: make an instance of module %s: %w", c.ctx.Operator, c.node.Module, err)
	}
	c.guest = g
	c.live.Store(&g)
	return nil
}

// Stop ends a running call soon; from any goroutine.
func (c *caller) Stop() {
	if g := c.live.Load(); g != nil {
		(*g).Stop()
	}
}

// Close frees the instance.
func (c *caller) Close() error {
	if c.guest == nil {
		return nil
	}
	return c.guest.Close()
}

// Counters are what the function counted, by the names it gave.
func (c *caller) Counters() map[string]int64 { return c.metrics }

// Stats are the counters of its calls.
func (c *caller) Stats() CallerStats { return c.stats }

// begin begins a call. What earlier ones since the last accept logged and counted stays.
func (c *caller) begin() {
	c.emits, c.failures = c.emits[:0], c.failures[:0]
	c.logged, c.counted = len(c.logs), len(c.counts)
	c.draws.record = -1
}

// accept lets out what was logged and counted.
func (c *caller) accept() {
	for _, l := range c.logs {
		c.logRate.write(c.ctx, c.now, l.level, c.arena[l.lo:l.hi])
	}
	for _, m := range c.counts {
		if c.metrics == nil {
			c.metrics = map[string]int64{}
		}
		if _, ok := c.metrics[m.name]; ok || len(c.metrics) < maxMetrics {
			c.metrics[m.name] += m.add
		}
	}
	c.drop()
}

// drop forgets it.
func (c *caller) drop() { c.arena, c.logs, c.counts = c.arena[:0], c.logs[:0], c.counts[:0] }

// call runs the block of size bytes. A fault is returned with the instance made as new; an error fails the
// task.
func (c *caller) call(size int) (consumed int, f *Fault, err error) {
	c.begin()
	o := c.guest.Call(size, 0)
	c.stats.Calls++
	c.stats.Fuel += o.Fuel
	c.stats.Billed += o.Billed
	if o.Fault != nil {
		return 0, o.Fault, c.discard(o.Fault)
	}
	return int(o.Consumed), nil, nil
}

// discard makes the instance as new after a fault. A fault that is no record's doing is an error.
func (c *caller) discard(f *Fault) error {
	c.stats.Faults++
	f.Name, f.Func = c.node.Module, c.fn.Name
	for _, l := range c.logs[c.logged:] {
		if l.record == f.Record && l.level >= abi.LogError {
			f.Stderr = strings.TrimPrefix(f.Stderr+"\n"+string(c.arena[l.lo:l.hi]), "\n")
		}
	}
	c.logs, c.counts = c.logs[:c.logged], c.counts[:c.counted]
	if f.Record < 0 || f.Kind == FaultTimeout || f.Kind == FaultStopped {
		return fmt.Errorf("operator %s: %w", c.ctx.Operator, f)
	}
	c.stats.Resets++
	if err := c.guest.Reset(); err != nil {
		return fmt.Errorf("operator %s: reset the instance: %w", c.ctx.Operator, err)
	}
	return nil
}

func (c *caller) fault(k FaultKind, record int, format string, args ...any) *Fault {
	return &Fault{Kind: k, Record: record, Message: fmt.Sprintf(format, args...), Module: c.module.Digest(),
		Name: c.node.Module, Func: c.fn.Name, Export: abi.ExportProcess}
}

// write writes a guest's line, at most abi.MaxLogLinesPerSec in a second of processing time.
func (l *logRate) write(ctx *operators.Context, now int64, level int, msg []byte) {
	if sec := now / 1000; sec != l.second {
		if l.dropped > 0 {
			ctx.Log.Warn("guest log lines dropped", "operator", ctx.Operator, "lines", l.dropped)
		}
		*l = logRate{second: sec}
	}
	if l.lines++; l.lines > abi.MaxLogLinesPerSec {
		l.dropped++
		return
	}
	ctx.Log.Log(ctx, levels[min(max(level, 0), len(levels)-1)], string(msg), "guest", ctx.Operator, "task", ctx.Task)
}

func (c *caller) keep(b []byte) span {
	lo := len(c.arena)
	c.arena = append(c.arena, b...)
	return span{lo, len(c.arena)}
}

// Fail implements Env.
func (c *caller) Fail(record int, msg []byte) {
	if record < 0 {
		return
	}
	for n := len(c.emits); n > 0 && c.emits[n-1].record == record; n-- {
		c.emits = c.emits[:n-1]
	}
	for n := len(c.counts); n > c.counted && c.counts[n-1].record == record; n-- {
		c.counts = c.counts[:n-1]
	}
	c.failures = append(c.failures, failure{record, string(msg[:min(len(msg), abi.MaxLogLineBytes)])})
}

// Emit implements Env.
func (c *caller) Emit(record int, frame []byte, at int) abi.Status {
	if record < 0 {
		return abi.StatusForbidden
	}
	f, rest, err := abi.NextFrame(frame)
	switch {
	case err != nil || len(rest) != 0 || int(f.Cause()) != record || int(f.Output()) > len(c.fn.Outputs):
		return abi.StatusBadArg
	case len(f) > abi.MaxRecordBytes, len(c.emits) >= abi.MaxOutputsPerRecord:
		return abi.StatusLimit
	}
	c.emits = append(c.emits, emit{record, at, c.keep(f)})
	return abi.StatusOK
}

// Log implements Env.
func (c *caller) Log(record, level int, msg []byte) {
	if len(c.logs) < 2*abi.MaxLogLinesPerSec {
		c.logs = append(c.logs, logLine{record, level, c.keep(msg[:min(len(msg), abi.MaxLogLineBytes)])})
	}
}

// Metric implements Env.
func (c *caller) Metric(record int, name []byte, add int64) abi.Status {
	if len(name) == 0 || len(name) > abi.MaxTimerNameBytes || len(c.counts) >= 16*abi.MaxOutputsPerRecord {
		return abi.StatusLimit
	}
	c.counts = append(c.counts, metric{record, string(name), add})
	return abi.StatusOK
}

// Random implements Env.
func (c *caller) Random(record int, b []byte) {
	d := &c.draws
	if d.record != record || record < 0 {
		*d = randomStream{record: record, seed: c.seed(record)}
	}
	d.fill(b)
}

// seed is that of a step or window: of a record its position, else key, time and what the frame says.
func (c *caller) seed(record int) uint64 {
	h := xxh3.HashStringSeed(c.fn.Name, xxh3.HashString(c.ctx.Operator))
	if record < 0 {
		return h
	}
	f := c.frameAt(record)
	var p [21]byte
	pos := f.Pos()
	binary.LittleEndian.PutUint32(p[:], pos.Split)
	binary.LittleEndian.PutUint64(p[4:], pos.Offset)
	binary.LittleEndian.PutUint64(p[12:], uint64(f.Time()))
	p[20] = f.Output()
	return xxh3.HashSeed(f.Key(), xxh3.HashSeed(p[:], h))
}

// fill draws bytes.
func (d *randomStream) fill(b []byte) {
	for len(b) > 0 {
		if d.left == 0 {
			var n [8]byte
			binary.LittleEndian.PutUint64(n[:], d.drawn)
			binary.LittleEndian.PutUint64(d.word[:], xxh3.HashSeed(n[:], d.seed))
			d.drawn++
			d.left = 8
		}
		n := copy(b, d.word[8-d.left:])
		d.left -= n
		b = b[n:]
	}
}

// NowMS implements Env.
func (c *caller) NowMS(record int) int64 {
	if c.node.Clock == operators.TimeProcessing || record < 0 {
		return c.now
	}
	if t := c.frameAt(record).Time(); t != abi.NoTime {
		return t
	}
	return 0
}

// Get implements Env: these functions have no state of their own.
func (c *caller) Get(int, int, []byte) ([]byte, abi.Status) { return nil, abi.StatusForbidden }

// Put implements Env.
func (c *caller) Put(int, int, []byte, []byte) abi.Status { return abi.StatusForbidden }

// Delete implements Env.
func (c *caller) Delete(int, int, []byte) abi.Status { return abi.StatusForbidden }

// Clear implements Env.
func (c *caller) Clear(int, int) abi.Status { return abi.StatusForbidden }

// Append implements Env.
func (c *caller) Append(int, int, []byte) abi.Status { return abi.StatusForbidden }

// Scan implements Env.
func (c *caller) Scan(int, int, []byte) (int, abi.Status) { return 0, abi.StatusForbidden }

// ScanNext implements Env.
func (c *caller) ScanNext(int, int, bool) (ukey, v []byte, ok bool, s abi.Status) {
	return nil, nil, false, abi.StatusForbidden
}

// ScanClose implements Env.
func (c *caller) ScanClose(int, int) abi.Status { return abi.StatusForbidden }

// TimerSet implements Env: windows are what waits.
func (c *caller) TimerSet(int, int, []byte, int64) abi.Status { return abi.StatusForbidden }

// TimerDelete implements Env.
func (c *caller) TimerDelete(int, int, []byte, int64) abi.Status { return abi.StatusForbidden }
