package file

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/millrace-io/millrace/operators"
)

// identityBytes is how much of a file's beginning its identity covers.
const identityBytes = 4 << 10

// identity tells one input from another: the size at the first start and a hash of the first bytes.
type identity struct {
	size int64
	n    int64 // bytes hashed
	hash string
}

func (id identity) String() string { return fmt.Sprintf("%d:%d:%s", id.size, id.n, id.hash) }

func parseIdentity(s string) (id identity, err error) {
	if _, err = fmt.Sscanf(s, "%d:%d:%s", &id.size, &id.n, &id.hash); err != nil {
		err = fmt.Errorf("malformed identity %q of an input", s)
	}
	return id, err
}

// identify takes the identity of f, over n bytes of its beginning (negative: as many as it has, up to
// identityBytes).
func identify(f *os.File, n int64) (identity, error) {
	st, err := f.Stat()
	if err != nil {
		return identity{}, err
	}
	if n < 0 {
		n = min(st.Size(), identityBytes)
	}
	h := sha256.New()
	got, err := io.Copy(h, io.NewSectionReader(f, 0, n))
	if err != nil {
		return identity{}, err
	}
	return identity{st.Size(), got, hex.EncodeToString(h.Sum(nil)[:16])}, nil
}

// verify compares an input with what the checkpoint saw, offset being how far it was read.
func verify(f *os.File, name string, was identity, offset int64, follow bool) error {
	now, err := identify(f, was.n)
	if err != nil {
		return err
	}
	switch {
	case now.size < was.size:
		return fmt.Errorf("%w: %s has %d bytes, it had %d when the job started (read up to %d)", operators.ErrInputChanged, name, now.size, was.size, offset)
	case now.hash != was.hash:
		return fmt.Errorf("%w: the first %d bytes of %s are not what they were when the job started", operators.ErrInputChanged, was.n, name)
	case now.size != was.size && !follow:
		return fmt.Errorf("%w: %s has %d bytes, it had %d when the job started; to read on as it grows set `follow: true`", operators.ErrInputChanged, name, now.size, was.size)
	}
	return nil
}

// openInput opens a regular file for reading.
func openInput(path, name string) (*os.File, error) {
	st, err := os.Stat(path)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("input %s: there is no such file: %w", name, err)
		}
		return nil, fmt.Errorf("input %s: %w", name, err)
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("input %s is a %s, expected a file", name, kindOf(st.Mode()))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("input %s: %w", name, err)
	}
	return f, nil
}

func kindOf(m os.FileMode) string {
	switch {
	case m.IsDir():
		return "folder"
	case m&os.ModeNamedPipe != 0:
		return "pipe"
	case m&os.ModeSocket != 0:
		return "socket"
	case m&os.ModeSymlink != 0:
		return "symbolic link"
	}
	return "device"
}
