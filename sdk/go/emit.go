package millrace

// Emit is one output being made. Key, event time and position are those of the current record or timer
// until set; the closing call (Value, Null, Text, or Send of JSON and Row) writes it. One at a time.
//
// Outputs of a timer have the timer's time if it is an event timer, and none if it is a processing
// timer.
type Emit struct {
	c       *Ctx
	output  uint8
	op      Op
	time    int64
	key     []byte
	headers []Header

	start, valueAt int // in the buffer under construction
	spilled        bool
}

// Emit starts an output.
func (c *Ctx) Emit() *Emit {
	e := &c.emit
	e.c, e.key, e.time = c, c.rec.Key(), NoTime
	e.output, e.op = 0, Insert
	if e.headers != nil {
		e.headers = nil
	}
	if c.kind != kindProcessingTimers {
		e.time = c.rec.Time()
	}
	return e
}

// To sends it to a side output.
func (e *Emit) To(o *Output) *Emit {
	e.output = o.index
	return e
}

// Key sets the key; nil is null.
func (e *Emit) Key(k []byte) *Emit {
	e.key = k
	return e
}

// Time sets the event time in ms.
func (e *Emit) Time(ms int64) *Emit {
	e.time = ms
	return e
}

// Op sets the changelog operation.
func (e *Emit) Op(o Op) *Emit {
	e.op = o
	return e
}

// Headers sets the header list.
func (e *Emit) Headers(hs ...Header) *Emit {
	e.headers = hs
	return e
}

// Value writes the output with these bytes as value; nil is an empty value. Errors: over the host's
// limits.
func (e *Emit) Value(v []byte) error {
	if f := e.whole(len(v)); f != nil {
		copy(f[len(f)-len(v):], v)
		return nil
	}
	e.open()
	e.push(v)
	return e.close(flagValue)
}

// Parts writes the output with these pieces, one after the other, as value.
func (e *Emit) Parts(pieces ...[]byte) error {
	n := 0
	for _, p := range pieces {
		n += len(p)
	}
	if f := e.whole(n); f != nil {
		f = f[len(f)-n:]
		for _, p := range pieces {
			f = f[copy(f, p):]
		}
		return nil
	}
	e.open()
	for _, p := range pieces {
		e.push(p)
	}
	return e.close(flagValue)
}

// whole is the short way: header and key of a frame with n bytes of value, whose place is left to the
// caller; nil if it does not fit the buffer or has headers.
func (e *Emit) whole(n int) []byte {
	c := e.c
	at := frameHeader + len(e.key)
	size := at + n
	if size > len(c.out)-c.pos || e.headers != nil {
		return nil
	}
	f := c.out[c.pos : c.pos+size]
	c.pos += size
	c.frames++
	h, r := f[:frameHeader], c.rec.frame[:frameHeader]
	flags := uint64(flagValue)
	if e.key != nil {
		flags |= uint64(flagKey)
	}
	le.PutUint64(h, uint64(size)|flags<<32|uint64(e.op)<<40|uint64(e.output)<<48)
	le.PutUint64(h[frameTime:], uint64(e.time))
	le.PutUint64(h[frameKeyLen:], uint64(len(e.key))|uint64(n)<<32)
	le.PutUint64(h[frameSplit:], uint64(le.Uint32(r[frameSplit:]))|uint64(c.index)<<32)
	le.PutUint64(h[frameOffset:], le.Uint64(r[frameOffset:]))
	copy(f[frameHeader:], e.key)
	return f
}

// Text writes the output with this text as value.
func (e *Emit) Text(s string) error {
	e.open()
	e.pushString(s)
	return e.close(flagValue)
}

// Null writes the output with a null value: a tombstone.
func (e *Emit) Null() error {
	e.open()
	return e.close(0)
}

// JSON begins a JSON object as value; its Send writes the output.
func (e *Emit) JSON() *JSONWriter {
	e.open()
	e.pushString("{")
	e.c.json = JSONWriter{e: e, first: true}
	return &e.c.json
}

// Row begins a typed row of that many columns as value; its Send writes the output.
func (e *Emit) Row(fields int) *RowWriter {
	e.open()
	e.c.row = RowWriter{e: e, fields: fields}
	e.c.row.begin()
	return &e.c.row
}

var zeroHeader [frameHeader]byte

func (e *Emit) open() {
	e.start, e.spilled = e.c.pos, false
	e.push(zeroHeader[:])
	e.push(e.key)
	e.valueAt = e.len()
}

// close fills in the header and hands the frame over.
func (e *Emit) close(flags byte) error {
	c := e.c
	valueLen := e.len() - e.valueAt
	if len(e.headers) > 0 {
		flags |= flagHeaders
		e.pushHeaders()
	}
	f := e.frame()
	if e.key != nil {
		flags |= flagKey
	}
	split, offset := c.rec.Position()
	le.PutUint32(f[frameSize:], uint32(len(f)))
	f[frameFlags], f[frameOp], f[frameOutput] = flags, byte(e.op), e.output
	le.PutUint64(f[frameTime:], uint64(e.time))
	le.PutUint32(f[frameKeyLen:], uint32(len(e.key)))
	le.PutUint32(f[frameValueLen:], uint32(valueLen))
	le.PutUint32(f[frameSplit:], split)
	le.PutUint32(f[frameCause:], c.index)
	le.PutUint64(f[frameOffset:], offset)
	return e.finish()
}

func (e *Emit) finish() error {
	c := e.c
	if e.spilled {
		return failed("emit", hostEmit(c.spill, c.pos))
	}
	c.pos = e.start
	c.frames++
	return nil
}

func (e *Emit) pushHeaders() {
	var b [8]byte
	le.PutUint32(b[:], uint32(len(e.headers)))
	e.push(b[:4])
	for _, h := range e.headers {
		n := uint32(nullLen)
		if h.Value != nil {
			n = uint32(len(h.Value))
		}
		le.PutUint32(b[:], uint32(len(h.Key)))
		le.PutUint32(b[4:], n)
		e.push(b[:])
		e.push(h.Key)
		e.push(h.Value)
	}
}

// While a frame is built, e.start is where the next byte goes: in the output buffer while the frame
// fits, else at the end of the spill buffer, whose frame goes out by mr.emit.

func (e *Emit) len() int {
	if e.spilled {
		return len(e.c.spill)
	}
	return e.start - e.c.pos
}

func (e *Emit) frame() []byte {
	if e.spilled {
		return e.c.spill
	}
	return e.c.out[e.c.pos:e.start]
}

func (e *Emit) push(b []byte) {
	if !e.spilled {
		if len(b) <= len(e.c.out)-e.start {
			e.start += copy(e.c.out[e.start:], b)
			return
		}
		e.spillOver()
	}
	e.c.spill = append(e.c.spill, b...)
}

func (e *Emit) pushString(s string) {
	if !e.spilled {
		if len(s) <= len(e.c.out)-e.start {
			e.start += copy(e.c.out[e.start:], s)
			return
		}
		e.spillOver()
	}
	e.c.spill = append(e.c.spill, s...)
}

func (e *Emit) spillOver() {
	e.c.spill = append(e.c.spill[:0], e.frame()...)
	e.spilled = true
}

// Forward copies a record to the main output as it is.
func (c *Ctx) Forward(rec Record) error { return c.forward(rec, 0) }

// ForwardTo copies a record to a side output as it is.
func (c *Ctx) ForwardTo(o *Output, rec Record) error { return c.forward(rec, o.index) }

func (c *Ctx) forward(rec Record, output uint8) error {
	if n := len(rec.frame); n <= len(c.out)-c.pos {
		f := c.out[c.pos : c.pos+n]
		copy(f, rec.frame)
		f[frameOutput] = output
		le.PutUint32(f[frameCause:], c.index)
		c.pos += n
		c.frames++
		return nil
	}
	e := &c.emit
	*e = Emit{c: c, start: c.pos}
	e.push(rec.frame)
	f := e.frame()
	f[frameOutput] = output
	le.PutUint32(f[frameCause:], c.index)
	return e.finish()
}
