package millrace

import (
	"errors"
	"math/bits"
	"strconv"
)

// reserve: when less output space than this is left, the loop yields before the next record.
const reserve = 4 << 10

const (
	noKey   = -1
	cleared = -1 // slot.pending
)

// slot is a prefetched state of the running function.
type slot struct {
	base, stride int
	at           int // of the pending value in Ctx.pending
	pending      int // its length, cleared
}

// Ctx is everything a callback can reach. Effects belong to the current record: they count once the
// callback returns nil, and are undone if it returns an error or panics. Do not keep it.
type Ctx struct {
	block   []byte
	offsets []byte
	keys    []byte // nil: not keyed
	kind    uint32
	index   uint32
	key     int
	rec     Record
	mark    int

	out    []byte // frames
	pos    int    // of whole frames
	frames uint32

	dirty   uint64 // slots with a pending value
	slots   []slot
	pending []byte

	emit    Emit
	json    JSONWriter
	row     RowWriter
	spill   []byte // a frame that does not fit
	scratch []byte // values of host calls
	enc     []byte // a value being encoded
	ukey    []byte // a map key being encoded
}

func (c *Ctx) word(at int) uint32 { return le.Uint32(c.block[at:]) }

func (c *Ctx) enter(block, out []byte) {
	c.block = block
	c.offsets = block[c.word(blockOffsets):]
	c.keys = nil
	if at := c.word(blockKeys); at != 0 {
		c.keys = block[at:]
	}
	c.kind = c.word(blockKind)
	c.out, c.pos, c.frames = out[outHeader:], 0, 0
	c.dirty, c.mark = 0, 0
	n, table, at := int(c.word(blockNStates)), int(c.word(blockStates)), 0
	c.slots = c.slots[:0]
	for i := 0; i < n; i++ {
		s := slot{base: int(c.word(table + 8*i)), stride: int(c.word(table + 8*i + 4)), at: at}
		c.slots = append(c.slots, s)
		at += s.stride
	}
	if len(c.pending) < at {
		c.pending = make([]byte, at)
	}
}

// process runs a call block from record first on. The exit test comes after next, so that the loop's
// head is billed to no record; the user's function is called through a function value and so has a
// frame of its own: fuel and garbage of a record are the same however the stream is cut into calls.
func (c *Ctx) process(m *Module, block, out []byte, first uint32) int32 {
	c.enter(block, out)
	n := c.word(blockN)
	f := &m.Functions[c.word(blockFunction)]
	timers := c.kind == kindEventTimers || c.kind == kindProcessingTimers
	if timers && f.OnTimer == nil {
		panic("a timer is due in " + f.Name + ", which has no OnTimer")
	}
	i := first
	for {
		stop := hostNext(i)
		full := len(c.out)-c.pos < reserve && i > first
		if stop != 0 || i >= n || full {
			break
		}
		c.begin(i)
		pos, frames := c.pos, c.frames
		var err error
		if !timers {
			err = f.OnRecord(c, c.rec)
		} else {
			err = f.OnTimer(c, Timer{c.rec, Domain(c.kind - kindEventTimers)})
		}
		if err != nil {
			c.pos, c.frames, c.dirty = pos, frames, 0
			hostFail(err.Error())
		} else if c.dirty != 0 {
			c.commit()
		}
		i++
	}
	le.PutUint32(out[outConsumed:], i)
	le.PutUint32(out[outBytes:], uint32(c.pos))
	le.PutUint32(out[outFrames:], c.frames)
	le.PutUint32(out[outFrames+4:], 0)
	c.block, c.offsets, c.keys, c.out, c.rec = nil, nil, nil, nil, Record{}
	if i == n {
		return statusDone
	}
	return statusYield
}

func (c *Ctx) begin(i uint32) {
	c.index = i
	at := le.Uint32(c.offsets[4*i:])
	end := at + le.Uint32(c.block[at:])
	c.rec = Record{c.block[at:end:end]}
	c.key = noKey
	if c.keys != nil {
		c.key = int(le.Uint32(c.keys[4*i:]))
	}
}

// commit writes back what the record changed.
func (c *Ctx) commit() {
	for c.dirty != 0 {
		s := &c.slots[bits.TrailingZeros64(c.dirty)]
		c.dirty &= c.dirty - 1
		cell := c.block[s.base+c.key*s.stride:][:s.stride]
		if s.pending == cleared {
			le.PutUint32(cell[4:], cellChanged)
			continue
		}
		le.PutUint32(cell, uint32(s.pending))
		le.PutUint32(cell[4:], cellPresent|cellChanged)
		copy(cell[cellHeader:], c.pending[s.at:s.at+s.pending])
	}
}

// cell returns the value of a prefetched state, nil if there is none.
func (c *Ctx) cell(i int) ([]byte, error) {
	if c.key == noKey {
		return nil, errNoKey
	}
	if i >= len(c.slots) {
		return nil, errOtherState
	}
	s := &c.slots[i]
	if c.dirty&(1<<i) != 0 {
		if s.pending == cleared {
			return nil, nil
		}
		return c.pending[s.at : s.at+s.pending : s.at+s.pending], nil
	}
	cell := c.block[s.base+c.key*s.stride:][:s.stride]
	if le.Uint32(cell[4:])&cellPresent == 0 {
		return nil, nil
	}
	return cell[cellHeader:][:le.Uint32(cell)], nil
}

func (c *Ctx) setCell(i int, v []byte) error {
	if c.key == noKey {
		return errNoKey
	}
	if i >= len(c.slots) {
		return errOtherState
	}
	s := &c.slots[i]
	if most := s.stride - cellHeader; len(v) > most {
		return errors.New("state value of " + strconv.Itoa(len(v)) + " bytes, at most " + strconv.Itoa(most) + " are declared")
	}
	s.pending = copy(c.pending[s.at:], v)
	c.dirty |= 1 << i
	return nil
}

func (c *Ctx) clearCell(i int) error {
	if c.key == noKey {
		return errNoKey
	}
	if i >= len(c.slots) {
		return errOtherState
	}
	c.slots[i].pending = cleared
	c.dirty |= 1 << i
	return nil
}

// Watermark is the watermark at the cursor, ms: no further record at or before it is expected.
func (c *Ctx) Watermark() int64 {
	n, table := int(c.word(blockNMarks)), int(c.word(blockMarks))
	for c.mark < n && c.word(table+16*c.mark) <= c.index {
		c.mark++
	}
	if c.mark == 0 {
		return int64(le.Uint64(c.block[blockWatermark:]))
	}
	return int64(le.Uint64(c.block[table+16*(c.mark-1)+8:]))
}

// ProcessingTime is the wall clock in ms, the same for all records of a call. Not the same in a replay.
func (c *Ctx) ProcessingTime() int64 { return int64(le.Uint64(c.block[blockProcessing:])) }

// SetTimer sets an event-time timer for the current key. Setting it again changes nothing.
func (c *Ctx) SetTimer(name string, atMS int64) error { return c.SetTimerIn(EventTime, name, atMS) }

// DeleteTimer deletes an event-time timer of the current key; fine if there is none.
func (c *Ctx) DeleteTimer(name string, atMS int64) error {
	return c.DeleteTimerIn(EventTime, name, atMS)
}

// SetTimerIn is SetTimer on either clock. Errors: not keyed, an undeclared clock, too many timers, too
// long a name.
func (c *Ctx) SetTimerIn(d Domain, name string, atMS int64) error {
	return failed("timer_set", hostTimerSet(uint32(d), name, atMS))
}

// DeleteTimerIn is DeleteTimer on either clock.
func (c *Ctx) DeleteTimerIn(d Domain, name string, atMS int64) error {
	return failed("timer_delete", hostTimerDelete(uint32(d), name, atMS))
}

// Level is the weight of a log line.
type Level uint32

// Log levels.
const (
	Debug = Level(logDebug) // for the author
	Info  = Level(logInfo)  // worth knowing
	Warn  = Level(logWarn)  // odd
	Error = Level(logError) // wrong
)

// Log writes a line to the operator's log, cut at 1 KiB.
func (c *Ctx) Log(l Level, line string) {
	hostLog(uint32(l), line[:min(len(line), maxLogLineBytes)])
}

// Count adds to a counter of the operator.
func (c *Ctx) Count(name string, add int64) { hostMetric(name, add) }

// Random fills b from the record's (or timer's) seed: the same in a replay.
func (c *Ctx) Random(b []byte) { hostRandom(b) }

// RandomUint64 is a random number from the record's (or timer's) seed: the same in a replay.
func (c *Ctx) RandomUint64() uint64 {
	if cap(c.enc) < 8 {
		c.enc = make([]byte, 64)
	}
	b := c.enc[:8]
	hostRandom(b)
	return le.Uint64(b)
}
