package record

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/millrace-io/millrace/abi"
)

// newDecoder makes what opens blocks.
func newDecoder() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(mostBytes), zstd.WithDecoderLowmem(true))
}

// open gives a body as it was; h and body are as read.
func (b *block) open(z *zstd.Decoder, h, body, into []byte) ([]byte, error) {
	if err := b.check(h, body); err != nil {
		return nil, err
	}
	if b.how == storedPlain {
		into = append(into[:0], body...)
	} else {
		var err error
		if into, err = z.DecodeAll(body, into[:0]); err != nil {
			return nil, fmt.Errorf("%w: block %d: %w", ErrDamaged, b.number, err)
		}
	}
	if len(into) != b.raw {
		return nil, fmt.Errorf("%w: block %d has %d bytes, its header says %d", ErrDamaged, b.number, len(into), b.raw)
	}
	return into, nil
}

// stream reads a recording block by block, from its beginning.
type stream struct {
	from   io.Reader
	hash   hash.Hash
	sum    string // of all before the last block
	blocks int
	at     int64 // offset of the next block
	head   [blockHeader]byte
	body   []byte
}

func newStream(from io.Reader) (*stream, error) {
	s := &stream{from: from, hash: sha256.New(), at: int64(len(magic))}
	start := make([]byte, len(magic))
	n, err := io.ReadFull(from, start)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	if string(start[:n]) != magic {
		return nil, fmt.Errorf("%w: it begins with %.8q", ErrNotRecording, start[:n])
	}
	s.hash.Write(start)
	return s, nil
}

// next reads a block's header, and with bodies its body.
func (s *stream) next() (block, error) {
	if _, err := io.ReadFull(s.from, s.head[:]); err != nil {
		return block{}, s.short(err)
	}
	b, err := decodeBlock(s.head[:], s.blocks)
	if err != nil {
		return b, err
	}
	if cap(s.body) < b.stored {
		s.body = make([]byte, b.stored)
	}
	s.body = s.body[:b.stored]
	if _, err := io.ReadFull(s.from, s.body); err != nil {
		return b, s.short(err)
	}
	if b.kind == kindEnd {
		s.sum = hex.EncodeToString(s.hash.Sum(nil))
	}
	s.hash.Write(s.head[:])
	s.hash.Write(s.body)
	s.blocks++
	s.at += blockHeader + int64(b.stored)
	return b, nil
}

func (s *stream) short(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends in block %d: it was not finished, or was cut", ErrDamaged, s.blocks)
	}
	return fmt.Errorf("block %d: %w", s.blocks, err)
}

// Check reads a whole recording and every event in it. Errors: ErrNotRecording, ErrDamaged with the block.
func Check(r io.Reader) (*Header, *End, error) { return Copy(io.Discard, r) }

// CheckAll is Check for who only wants to know that it is whole.
func CheckAll(r io.Reader) error {
	_, _, err := Check(r)
	return err
}

// Copy is Check that writes what it reads, as Write did: one Write per block. After an error w has a part.
func Copy(w io.Writer, r io.Reader) (*Header, *End, error) {
	s, err := newStream(r)
	if err == nil {
		_, err = io.WriteString(w, magic)
	}
	if err != nil {
		return nil, nil, err
	}
	z, err := newDecoder()
	if err != nil {
		return nil, nil, err
	}
	defer z.Close()
	c := checker{s: s}
	for c.end == nil {
		b, err := s.next()
		if err != nil {
			return nil, nil, err
		}
		if c.raw, err = b.open(z, s.head[:], s.body, c.raw); err != nil {
			return nil, nil, err
		}
		if err := c.block(&b); err != nil {
			return nil, nil, fmt.Errorf("%w (block %d, %s)", err, b.number, c.owner(&b))
		}
		if _, err := w.Write(append(s.head[:], s.body...)); err != nil {
			return nil, nil, err
		}
	}
	if n, err := r.Read(make([]byte, 1)); n > 0 || err != nil && err != io.EOF {
		return nil, nil, fmt.Errorf("%w: there is more behind its last block, %d", ErrDamaged, s.blocks-1)
	}
	return c.head, c.end, nil
}

// checker checks blocks in order.
type checker struct {
	s                 *stream
	raw               []byte
	head              *Header
	end               *End
	e                 event
	records, rejected int64
}

func (c *checker) owner(b *block) string {
	if c.head == nil || b.kind != kindEvents || b.source >= len(c.head.Sources) {
		return "of no source"
	}
	return fmt.Sprintf("task %d of source %s", b.task, c.head.Sources[b.source].Operator)
}

func (c *checker) block(b *block) (err error) {
	switch {
	case b.kind == kindHeader && c.head == nil:
		c.head, err = decodeHeader(c.raw)
		return err
	case c.head == nil || b.kind == kindHeader:
		return fmt.Errorf("%w: what was recorded is not said at its beginning", ErrDamaged)
	case b.kind == kindEnd:
		if c.end, err = decodeEnd(c.raw); err != nil {
			return err
		}
		if c.end.SHA256 != c.s.sum || c.end.Blocks != b.number || c.end.Records != c.records || c.end.Rejected != c.rejected {
			return fmt.Errorf("%w: it has %d records and %d dead letters in %d blocks with SHA-256 %s; its end says %d, %d, %d, %s", ErrDamaged,
				c.records, c.rejected, b.number, c.s.sum, c.end.Records, c.end.Rejected, c.end.Blocks, c.end.SHA256)
		}
		return nil
	case b.source >= len(c.head.Sources) || b.task >= c.head.Sources[b.source].Parallelism:
		return fmt.Errorf("%w: there is no such task", ErrDamaged)
	}
	events := cursor{rest: c.raw}
	for events.next(&c.e) {
		c.records += int64(c.e.batch.Len())
		c.rejected += int64(c.e.rejected.Len())
	}
	return events.err
}

func decodeHeader(raw []byte) (*Header, error) {
	h := &Header{}
	if err := json.Unmarshal(raw, h); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if h.Format != FormatVersion {
		return nil, fmt.Errorf("%w: it has format %d, this build reads %d", ErrNotRecording, h.Format, FormatVersion)
	}
	return h, nil
}

func decodeEnd(raw []byte) (*End, error) {
	e := &End{Times: [2]int64{abi.NoTime, abi.NoTime}}
	if err := json.Unmarshal(raw, e); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return e, nil
}
