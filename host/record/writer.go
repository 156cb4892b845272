package record

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"
)

// writer writes blocks, each with one Write.
type writer struct {
	to      io.Writer
	hash    hash.Hash
	z       *zstd.Encoder
	blocks  int
	scratch []byte
}

func newWriter(to io.Writer) (*writer, error) {
	// One goroutine and a fixed level: the bytes must not depend on the machine.
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderCRC(false))
	if err != nil {
		return nil, err
	}
	return &writer{to: to, hash: sha256.New(), z: z}, nil
}

// begin writes what was recorded.
func (w *writer) begin(h *Header) error {
	if err := w.write([]byte(magic)); err != nil {
		return err
	}
	return w.json(kindHeader, h)
}

func (w *writer) json(kind byte, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return w.block(block{kind: kind}, body)
}

// block writes one block; b has its kind, source and task.
func (w *writer) block(b block, body []byte) error {
	if len(body) > mostBytes {
		return fmt.Errorf("%w: a block of %d bytes, at most %d go into one", ErrUnreadable, len(body), mostBytes)
	}
	b.number, b.raw = w.blocks, len(body)
	w.scratch = w.z.EncodeAll(body, w.scratch[:0])
	if b.how = storedZstd; len(w.scratch) >= len(body) {
		b.how, w.scratch = storedPlain, append(w.scratch[:0], body...)
	}
	w.blocks++
	return w.write(append(b.encode(w.scratch), w.scratch...))
}

func (w *writer) write(p []byte) error {
	w.hash.Write(p)
	_, err := w.to.Write(p)
	return err
}

// end writes the last block.
func (w *writer) end(e *End) error {
	e.Blocks, e.SHA256 = w.blocks, hex.EncodeToString(w.hash.Sum(nil))
	return w.json(kindEnd, e)
}

// taskWriter gathers the events of a task into blocks.
type taskWriter struct {
	w            *writer
	source, task int
	buf          []byte
	last         map[uint32]int64 // line of the last record, by split, in the block
	lines        []lineAt
}

// event adds an event, whose lines it finds.
func (t *taskWriter) event(e *event, places placer) error {
	if e.kind == eventBatch && places != nil {
		var err error
		if t.lines, err = places.mark(&e.batch, t.last, t.lines[:0]); err != nil {
			return err
		}
		e.lines = t.lines
	}
	t.buf = appendEvent(t.buf, e)
	if len(t.buf) >= blockBytes {
		return t.flush()
	}
	return nil
}

func (t *taskWriter) flush() error {
	if len(t.buf) == 0 {
		return nil
	}
	err := t.w.block(block{kind: kindEvents, source: t.source, task: t.task}, t.buf)
	t.buf = t.buf[:0]
	clear(t.last)
	return err
}
