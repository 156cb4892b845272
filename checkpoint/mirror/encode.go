package mirror

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/seal"
)

const (
	spoolBytes  = 4 << 20 // larger files are encoded on disk
	windowBytes = 8 << 20
	maxUnknown  = 16 << 20 // of an object whose size no manifest records: pipeline files
)

// encoded is a file as it is stored.
type encoded struct {
	io.ReaderAt
	size   int64
	sha256 string
	file   *os.File // nil: in memory
}

func (e *encoded) close() {
	if e.file != nil {
		e.file.Close()
		os.Remove(e.file.Name())
	}
}

// spool keeps what is written in memory or, beyond spoolBytes, in a file.
type spool struct {
	dir   string
	hash  hash.Hash
	n     int64
	moved *atomic.Int64
	buf   bytes.Buffer
	file  *os.File
}

// Write implements io.Writer.
func (s *spool) Write(p []byte) (int, error) {
	s.hash.Write(p)
	s.n += int64(len(p))
	s.moved.Add(int64(len(p)))
	if s.file == nil && s.n > spoolBytes {
		f, err := os.CreateTemp(s.dir, "millrace-upload-*")
		if err != nil {
			return 0, err
		}
		s.file = f
		if _, err := f.Write(s.buf.Bytes()); err != nil {
			return 0, err
		}
		s.buf = bytes.Buffer{}
	}
	if s.file != nil {
		return s.file.Write(p)
	}
	return s.buf.Write(p)
}

// encode compresses and seals what fill writes.
func (m *Mirror) encode(c seal.Context, fill func(io.Writer) error) (*encoded, error) {
	s := &spool{dir: m.o.Spool, moved: &m.moved, hash: sha256.New()}
	err := m.encodeInto(s, c, fill)
	e := &encoded{size: s.n, sha256: hex.EncodeToString(s.hash.Sum(nil)), file: s.file, ReaderAt: bytes.NewReader(s.buf.Bytes())}
	if s.file != nil {
		e.ReaderAt = s.file
	}
	if err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

func (m *Mirror) encodeInto(w io.Writer, c seal.Context, fill func(io.Writer) error) error {
	if len(m.o.Keys) == 0 {
		return compress(w, fill)
	}
	r, inner := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := compress(inner, fill)
		inner.CloseWithError(err)
		done <- err
	}()
	m.mu.Lock()
	salt := make([]byte, 32)
	_, err := io.ReadFull(m.o.Random, salt)
	m.mu.Unlock()
	if err == nil {
		err = seal.Seal(w, r, m.o.Keys[0], c, bytes.NewReader(salt))
	}
	r.CloseWithError(err)
	return errors.Join(<-done, err)
}

func compress(w io.Writer, fill func(io.Writer) error) error {
	z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(windowBytes))
	if err != nil {
		return err
	}
	return errors.Join(fill(z), z.Close())
}

// decode opens and decompresses a stored file into take. It has to be size bytes with the SHA-256 given, which
// take may rely on only when decode has returned nil.
func (m *Mirror) decode(ctx context.Context, key string, size int64, sum string, c seal.Context, take func(io.Reader) error) error {
	var err error
	for range bodyTries {
		var broken bool
		if broken, err = m.decodeOnce(ctx, key, size, sum, c, take); !broken || ctx.Err() != nil {
			break
		}
	}
	return err
}

// decodeOnce: broken says that the download broke off, so that another may go better.
func (m *Mirror) decodeOnce(ctx context.Context, key string, size int64, sum string, c seal.Context, take func(io.Reader) error) (broken bool, err error) {
	body, err := m.o.Store.Get(ctx, key)
	if err != nil {
		return false, fmt.Errorf("get %s: %w", key, err)
	}
	defer body.Close()
	in := &checked{from: body, hash: sha256.New(), left: size + 1}
	var plain io.Reader = in
	if len(m.o.Keys) == 0 {
		plain = unsealed{bufio.NewReader(in)}
	} else {
		r, w := io.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.CloseWithError(seal.Open(w, in, m.o.Keys, c))
		}()
		defer func() {
			r.Close()
			<-done
		}()
		plain = r
	}
	z, err := zstd.NewReader(plain, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(windowBytes), zstd.WithDecoderLowmem(true))
	if err != nil {
		return false, err
	}
	defer z.Close()
	err = take(z)
	if err == nil {
		// The rest, which has to be nothing: the end is where checks are made.
		var n int64
		if n, err = io.Copy(io.Discard, io.LimitReader(z, 1)); err == nil && n > 0 {
			err = errors.New("it holds more than expected")
		}
	}
	if err == nil {
		_, err = io.Copy(io.Discard, io.LimitReader(plain, 1))
	}
	unfit := errors.Is(err, seal.ErrNoKey) || errors.Is(err, seal.ErrNotSealed)
	if unfit { // genuine, and of other keys, or not genuine: its digest tells
		_, _ = io.Copy(io.Discard, in)
	}
	if in.err != nil { // the network's fault
		return true, fmt.Errorf("get %s: %w", key, in.err)
	}
	if got := hex.EncodeToString(in.hash.Sum(nil)); unfit && in.n == size && got == sum {
		return false, fmt.Errorf("%s: %w: %w", key, ErrKeys, err)
	} else if err == nil && (in.n != size || got != sum) {
		err = fmt.Errorf("it has %d bytes with SHA-256 %s, expected %d with %s", in.n, got, size, sum)
	}
	if err != nil {
		return false, &DamageError{Key: key, Problem: err}
	}
	return false, nil
}

// unsealed is a file in clear; one that is sealed says so.
type unsealed struct{ *bufio.Reader }

// Read implements io.Reader.
func (c unsealed) Read(p []byte) (int, error) {
	if b, err := c.Peek(len(seal.Magic)); err == nil && string(b) == seal.Magic {
		id, _, err := seal.Peek(c.Reader)
		if err == nil {
			err = fmt.Errorf("%w: %q, and no key is given", seal.ErrNoKey, id)
		}
		return 0, err
	}
	return c.Reader.Read(p)
}

// checked hashes a body and tells its errors from those of what reads it.
type checked struct {
	from io.Reader
	hash hash.Hash
	n    int64
	left int64
	err  error
}

// Read implements io.Reader.
func (c *checked) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF // more than there should be: counted, and told by its size
	}
	n, err := c.from.Read(p[:min(int64(len(p)), c.left)])
	c.hash.Write(p[:n])
	c.n += int64(n)
	c.left -= int64(n)
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}

// most is how large an object may be.
func most(size int64) int64 {
	if size == checkpoint.SizeUnknown {
		return maxUnknown
	}
	return size
}
