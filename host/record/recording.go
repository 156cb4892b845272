package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
)

// Recording is a recorded input in a file. Its methods may be called by any goroutine; blocks are checked as they
// are read.
type Recording struct {
	Header Header
	End    End
	file   io.ReaderAt
	closer io.Closer
	blocks []placed
	mu     sync.Mutex // what follows serves Describe
	z      *zstd.Decoder
	lines  lineIndex
}

// placed is a block and where it is.
type placed struct {
	block
	at int64
}

// Open reads the first and the last block of a recorded input and where the others are. Errors: ErrNotRecording,
// ErrDamaged with the block.
func Open(path string) (*Recording, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	r := &Recording{file: f, closer: f, lines: lineIndex{last: -1}}
	st, err := f.Stat()
	if err == nil {
		err = r.index(st.Size())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), r.Close())
	}
	return r, nil
}

// Close closes the file.
func (r *Recording) Close() error {
	if r.z != nil {
		r.z.Close()
	}
	return r.closer.Close()
}

// index finds the blocks by their headers.
func (r *Recording) index(size int64) (err error) {
	if r.z, err = newDecoder(); err != nil {
		return err
	}
	start := make([]byte, len(magic))
	if n, _ := r.file.ReadAt(start, 0); string(start[:n]) != magic {
		return fmt.Errorf("%w: it begins with %.8q", ErrNotRecording, start[:n])
	}
	var head [blockHeader]byte
	for at := int64(len(magic)); ; {
		n := len(r.blocks)
		if at+blockHeader > size {
			return fmt.Errorf("%w: it ends in block %d: it was not finished, or was cut", ErrDamaged, n)
		}
		if _, err := r.file.ReadAt(head[:], at); err != nil {
			return fmt.Errorf("block %d: %w", n, err)
		}
		b, err := decodeBlock(head[:], n)
		if err != nil {
			return err
		}
		r.blocks = append(r.blocks, placed{b, at})
		at += blockHeader + int64(b.stored)
		if at > size {
			return fmt.Errorf("%w: it ends in block %d: it was not finished, or was cut", ErrDamaged, n)
		}
		if b.kind == kindEnd {
			break
		}
	}
	return r.ends()
}

// ends reads the first and the last block.
func (r *Recording) ends() error {
	raw, err := r.read(0, r.z, nil)
	if err != nil {
		return err
	}
	if r.blocks[0].kind != kindHeader {
		return fmt.Errorf("%w: what was recorded is not said in block 0", ErrDamaged)
	}
	h, err := decodeHeader(raw)
	if err != nil {
		return err
	}
	r.Header = *h
	if raw, err = r.read(len(r.blocks)-1, r.z, nil); err != nil {
		return err
	}
	e, err := decodeEnd(raw)
	if err != nil {
		return err
	}
	r.End = *e
	return nil
}

// read reads block n into a slice that it may grow.
func (r *Recording) read(n int, z *zstd.Decoder, into []byte) ([]byte, error) {
	b := &r.blocks[n]
	buf := make([]byte, blockHeader+b.stored)
	if _, err := r.file.ReadAt(buf, b.at); err != nil {
		return nil, fmt.Errorf("block %d: %w", n, err)
	}
	return b.open(z, buf[:blockHeader], buf[blockHeader:], into)
}

// Fits says whether a pipeline's sources would have made the records that were recorded, of whatever other
// operators. Errors: ErrOther with everything that differs.
func (r *Recording) Fits(g *operators.Graph) error {
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("%w: %s", ErrOther, fmt.Sprintf(format, args...)))
	}
	seen := map[string]bool{}
	for _, n := range g.Nodes {
		if n.Source == nil {
			continue
		}
		seen[n.ID] = true
		i := r.source(n.ID)
		if i < 0 {
			bad("source %s was not recorded", n.ID)
			continue
		}
		was, is := r.Header.Sources[i], sourceOf(n, nil)
		if text(was.Schema) != text(is.Schema) {
			bad("source %s was recorded with the fields %s, the pipeline uses %s; export the input again", n.ID, fields(was.Schema), fields(is.Schema))
		}
		if key(was) != key(is) {
			bad("source %s was recorded with the key %s, the pipeline wants %s; export the input again", n.ID, key(was), key(is))
		}
	}
	for _, s := range r.Header.Sources {
		if !seen[s.Operator] {
			bad("source %s was recorded, the pipeline has none of that id", s.Operator)
		}
	}
	return errors.Join(problems...)
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func fields(fs []abi.Field) string {
	if len(fs) == 0 {
		return "(raw)"
	}
	names := []string{}
	for _, f := range fs {
		names = append(names, f.Name+" "+string(f.Type))
	}
	return fmt.Sprint(names)
}

func key(s Source) string {
	switch {
	case s.Key == nil && s.Keyed:
		return "(its own)"
	case s.Key == nil:
		return "(none)"
	case s.Key.Whole:
		return "(the whole value)"
	}
	return fmt.Sprint(s.Key.Fields)
}

// source is the number of a source; -1: it was not recorded.
func (r *Recording) source(operator string) int {
	return slices.IndexFunc(r.Header.Sources, func(s Source) bool { return s.Operator == operator })
}

// Restored is what a source's tasks had left where the recording begins.
func (r *Recording) Restored(operator string) []checkpoint.SplitPosition {
	if i := r.source(operator); i >= 0 {
		return r.Header.Sources[i].Splits
	}
	return nil
}

// Describe names a position of a source as the source would: "payments.ndjson:17 (byte 4711)". Positions before the
// recording have no line. "": it has no such split. It reads a block, so it is for messages.
func (r *Recording) Describe(operator string, p abi.Position) string {
	i := r.source(operator)
	if i < 0 {
		return ""
	}
	s := &r.Header.Sources[i]
	at := slices.IndexFunc(s.Splits, func(sp checkpoint.SplitPosition) bool { return sp.Index == p.Split })
	if at < 0 {
		return ""
	}
	line := int64(0)
	if s.Places == placesLine {
		line = r.line(i, p)
	}
	return s.describe(s.Splits[at].Split, p.Offset, line)
}
