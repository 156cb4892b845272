package record

import (
	"encoding/binary"
	"fmt"

	"github.com/millrace-io/millrace/abi"
)

// The kinds of events.
const (
	eventBatch  = 1
	eventActive = 2 // a split of the task counts for the watermark again
	eventIdle   = 3 // none does
	eventOver   = 4 // everything there will ever be has been read
)

// event is what one poll of a task gave. As bytes: its kind; of a batch also the records, the marks, the dead
// letters and the lines, in that order. Numbers are varints. Frames are the ABI's, without key hashes; a
// mark is its index and watermark, zigzag; a line is the number of the record and that of its line, where that is
// not the one behind the line of the record before of the same split in the block.
type event struct {
	kind     byte
	batch    abi.Batch
	rejected abi.Batch
	lines    []lineAt
}

// lineAt says in which line a record is.
type lineAt struct {
	record int
	line   int64 // from 1
}

func appendBatch(dst []byte, b *abi.Batch) []byte {
	dst = binary.AppendUvarint(dst, uint64(b.Len()))
	dst = binary.AppendUvarint(dst, uint64(len(b.Data)))
	return append(dst, b.Data...)
}

// appendEvent encodes e.
func appendEvent(dst []byte, e *event) []byte {
	dst = append(dst, e.kind)
	if e.kind != eventBatch {
		return dst
	}
	dst = appendBatch(dst, &e.batch)
	dst = binary.AppendUvarint(dst, uint64(len(e.batch.Marks)))
	for _, m := range e.batch.Marks {
		dst = binary.AppendUvarint(dst, uint64(m.Index))
		dst = binary.AppendVarint(dst, m.Watermark)
	}
	dst = appendBatch(dst, &e.rejected)
	dst = binary.AppendUvarint(dst, uint64(len(e.lines)))
	for _, l := range e.lines {
		dst = binary.AppendUvarint(dst, uint64(l.record))
		dst = binary.AppendUvarint(dst, uint64(l.line))
	}
	return dst
}

// cursor decodes the events of a block.
type cursor struct {
	rest []byte
	err  error
}

func (c *cursor) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
	}
}

func (c *cursor) uvarint(most uint64, what string) int {
	v, n := binary.Uvarint(c.rest)
	if n <= 0 || v > most {
		c.fail("%s is %d, expected at most %d", what, v, most)
		return 0
	}
	c.rest = c.rest[n:]
	return int(v)
}

// batch decodes frames; b's bytes are those of the block.
func (c *cursor) batch(b *abi.Batch, what string) {
	n := c.uvarint(uint64(len(c.rest)), "number of "+what)
	size := c.uvarint(uint64(len(c.rest)), "size of "+what)
	if c.err != nil || size > len(c.rest) {
		c.fail("%s have %d bytes, there are %d", what, size, len(c.rest))
		return
	}
	b.Reset()
	b.Data = append(b.Data, c.rest[:size]...)
	c.rest = c.rest[size:]
	for rest := b.Data; len(rest) > 0; {
		b.Off = append(b.Off, uint32(size-len(rest)))
		_, after, err := abi.NextFrame(rest)
		if err != nil {
			c.fail("%s: %v", what, err)
			return
		}
		rest = after
	}
	if b.Len() != n {
		c.fail("there are %d %s, expected %d", b.Len(), what, n)
	}
}

// next decodes an event into e; false: there is none, or err says why not.
func (c *cursor) next(e *event) bool {
	if len(c.rest) == 0 || c.err != nil {
		return false
	}
	e.kind, e.lines = c.rest[0], e.lines[:0]
	e.batch.Reset()
	e.rejected.Reset()
	c.rest = c.rest[1:]
	if e.kind != eventBatch {
		if e.kind > eventOver || e.kind == 0 {
			c.fail("an event of kind %d", e.kind)
		}
		return c.err == nil
	}
	c.batch(&e.batch, "records")
	for range c.uvarint(uint64(len(c.rest)), "number of marks") {
		m := abi.Mark{Index: uint32(c.uvarint(uint64(e.batch.Len()), "place of a mark"))}
		w, n := binary.Varint(c.rest)
		if n <= 0 {
			c.fail("a mark is cut off")
			return false
		}
		m.Watermark, c.rest = w, c.rest[n:]
		if k := len(e.batch.Marks); k > 0 && (e.batch.Marks[k-1].Index > m.Index || e.batch.Marks[k-1].Watermark >= w) {
			c.fail("marks out of order")
			return false
		}
		e.batch.Marks = append(e.batch.Marks, m)
	}
	c.batch(&e.rejected, "dead letters")
	for range c.uvarint(uint64(len(c.rest)), "number of lines") {
		at := c.uvarint(uint64(e.batch.Len()), "place of a line")
		e.lines = append(e.lines, lineAt{at, int64(c.uvarint(1<<62, "a line"))})
	}
	return c.err == nil
}
