// Package archive moves one snapshot as one file: its manifest and all its objects, so that it can be run
// again anywhere.
//
// The file is a tar archive in one Zstandard frame: manifest.json, then objects/<digest> in order of their
// digests, without times and owners, so that the same snapshot gives the same bytes. A skippable frame with
// the SHA-256 of all before it ends the file; common tools pass over it. A file without that end was never
// finished, and is not imported. With a key all of that is sealed: see package seal. Between the two may be the
// input that followed the snapshot: see Input.
package archive

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/millrace-io/millrace/checkpoint/seal"
)

// Errors of archives.
var (
	// ErrNotArchive: the file is something else, or of a later version.
	ErrNotArchive = errors.New("not a snapshot archive")
	// ErrDamaged: the file is not what was exported, or only part of it.
	ErrDamaged = errors.New("snapshot archive is damaged")
	// ErrSealed: it can be opened with its key only.
	ErrSealed = errors.New("snapshot archive is sealed")
)

// Sealing says how archives are sealed. Without a key they are not.
type Sealing struct {
	Keys   []seal.Key // the first one seals; all open
	Tenant string
	Random io.Reader // of salts; crypto/rand.Reader
}

// The end of a file: a skippable frame of Zstandard (magic and length, little endian), the text, the digest.
const (
	skippable  = 0x184D2A5D
	endText    = "MRSNAP1\n"
	endContent = len(endText) + sha256.Size
	endBytes   = 8 + endContent
)

func end(h hash.Hash) []byte {
	b := binary.LittleEndian.AppendUint32(nil, skippable)
	b = binary.LittleEndian.AppendUint32(b, uint32(endContent))
	b = append(b, endText...)
	return h.Sum(b)
}

// body reads all but the end of a file, and then checks that.
type body struct {
	from io.Reader
	hash hash.Hash
	buf  []byte // read and not yet given on: at least the end while there is more
	eof  bool
	err  error
}

func newBody(from io.Reader) *body { return &body{from: from, hash: sha256.New()} }

// Read implements io.Reader. io.EOF says that the end is there and right.
func (b *body) Read(p []byte) (int, error) {
	for !b.eof && b.err == nil && len(b.buf) <= endBytes {
		chunk := make([]byte, 64<<10)
		n, err := b.from.Read(chunk)
		b.buf = append(b.buf, chunk[:n]...)
		switch {
		case err == io.EOF:
			b.eof = true
		case err != nil:
			b.err = err
		}
	}
	if n := min(len(p), len(b.buf)-endBytes); n > 0 {
		copy(p, b.buf[:n])
		b.hash.Write(b.buf[:n])
		b.buf = b.buf[n:]
		return n, nil
	}
	if b.err != nil {
		return 0, b.err
	}
	if b.eof {
		return 0, b.checkEnd()
	}
	return 0, nil
}

func (b *body) checkEnd() error {
	if len(b.buf) != endBytes || string(b.buf[8:8+len(endText)]) != endText {
		return fmt.Errorf("%w: it has no end: the export was not finished, or the file was cut", ErrDamaged)
	}
	if want := end(b.hash); string(want) != string(b.buf) {
		return fmt.Errorf("%w: its SHA-256 is %x, its end says %x", ErrDamaged, want[8+len(endText):], b.buf[8+len(endText):])
	}
	return io.EOF
}
