package seal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Errors of opening. Each wraps exactly one of them.
var (
	// ErrNotSealed: the bytes are no sealed file, or of a later version.
	ErrNotSealed = errors.New("not a sealed file")
	// ErrNoKey: it is sealed with a key that is not at hand.
	ErrNoKey = errors.New("sealed with a key that is not at hand")
	// ErrContext: it is another file than asked for: of another tenant, job, task, sequence or name.
	ErrContext = errors.New("sealed as something else")
	// ErrTampered: the bytes are not what was sealed, or not all of it.
	ErrTampered = errors.New("sealed file is damaged or altered")
)

// Context is what a sealed file is. It is in clear in the file's header, and the contents cannot be opened
// under another one: that is what detects swaps, replays and files of other tenants.
type Context struct {
	Tenant   string `json:"tenant"`
	Job      string `json:"job"`
	Task     string `json:"task"`     // vertex/number; empty for what belongs to no task
	Sequence uint64 `json:"sequence"` // id of the snapshot that it was sealed for
	Name     string `json:"name"`     // digest of an object, or "manifest", "archive"
}

// Magic is how every sealed file begins.
const Magic = "MRSEAL1\n"

// A sealed file:
//
//	"MRSEAL1\n"  8 bytes
//	n            2 bytes, big endian: length of the header
//	header       n bytes of JSON: key id, context
//	salt         32 random bytes
//	chunks       64 KiB of contents each (the last one 0 to 64 KiB), each with a tag of 16 bytes
//
// The key of a file is derived from the salt, so that no two files share one; the nonce is the number of the
// chunk and whether it is the last, so that chunks cannot be moved, dropped or added. All before the chunks is
// associated data of each of them.
const (
	saltBytes = 32
	tagBytes  = 16
	chunk     = 64 << 10
)

type header struct {
	Key string `json:"key"`
	Context
}

// Overhead is how many bytes a sealed file of n bytes has more than those and its header.
func Overhead(n int64) int64 {
	chunks := max(1, (n+chunk-1)/chunk)
	return int64(len(Magic)) + 2 + saltBytes + chunks*tagBytes
}

func aead(k Key, salt []byte) (cipher.AEAD, error) {
	secret, err := hkdf.Key(sha256.New, k.derive("content"), salt, "millrace seal 1", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

func nonce(n uint64, last bool) []byte {
	b := make([]byte, 12)
	binary.BigEndian.PutUint64(b[3:], n)
	if last {
		b[11] = 1
	}
	return b
}

// Seal writes what from yields, sealed, to to. random is where the salt comes from (crypto/rand.Reader).
func Seal(to io.Writer, from io.Reader, k Key, c Context, random io.Reader) error {
	text, err := json.Marshal(header{k.ID, c})
	if err != nil {
		return err
	}
	if len(text) > 1<<16-1 {
		return fmt.Errorf("seal: a header of %d bytes, expected less than 64 KiB", len(text))
	}
	prefix := append([]byte(Magic), 0, 0)
	binary.BigEndian.PutUint16(prefix[len(Magic):], uint16(len(text)))
	prefix = append(prefix, text...)
	salt := make([]byte, saltBytes)
	if _, err := io.ReadFull(random, salt); err != nil {
		return fmt.Errorf("seal: %w", err)
	}
	prefix = append(prefix, salt...)
	gcm, err := aead(k, salt)
	if err != nil {
		return err
	}
	if _, err := to.Write(prefix); err != nil {
		return err
	}
	buf, next := make([]byte, chunk), make([]byte, chunk)
	n, err := fill(from, buf)
	out := make([]byte, 0, chunk+tagBytes)
	for i := uint64(0); ; i++ {
		if err != nil {
			return err
		}
		more := 0
		if n == chunk {
			if more, err = fill(from, next); err != nil {
				return err
			}
		}
		last := more == 0
		if _, err := to.Write(gcm.Seal(out[:0], nonce(i, last), buf[:n], prefix)); err != nil {
			return err
		}
		if last {
			return nil
		}
		buf, next, n = next, buf, more
	}
}

// fill reads until b is full or the end; the end is no error.
func fill(from io.Reader, b []byte) (int, error) {
	n, err := io.ReadFull(from, b)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	return n, err
}

// Peek says what a file claims to be, from its beginning, without checking it. Errors: ErrNotSealed.
func Peek(from io.Reader) (keyID string, c Context, err error) {
	h, _, err := readPrefix(from)
	return h.Key, h.Context, err
}

func readPrefix(from io.Reader) (header, []byte, error) {
	prefix := make([]byte, len(Magic)+2)
	if _, err := io.ReadFull(from, prefix); err != nil || string(prefix[:len(Magic)]) != Magic {
		return header{}, nil, fmt.Errorf("%w: it does not begin with %q", ErrNotSealed, Magic)
	}
	n := int(binary.BigEndian.Uint16(prefix[len(Magic):]))
	rest := make([]byte, n+saltBytes)
	if _, err := io.ReadFull(from, rest); err != nil {
		return header{}, nil, fmt.Errorf("%w: it ends in its header", ErrTampered)
	}
	var h header
	dec := json.NewDecoder(bytes.NewReader(rest[:n]))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&h); err != nil {
		return header{}, nil, fmt.Errorf("%w: header: %w", ErrTampered, err)
	}
	return h, append(prefix, rest...), nil
}

// Open writes the contents of a sealed file to to, chunk by chunk, each checked before it is written: what was
// written before an error is genuine, but not all. want is what the file has to be. Errors: ErrNotSealed,
// ErrNoKey, ErrContext with what differs, ErrTampered with the place.
func Open(to io.Writer, from io.Reader, keys []Key, want Context) error {
	h, prefix, err := readPrefix(from)
	if err != nil {
		return err
	}
	if what := want.differs(h.Context); what != "" {
		return fmt.Errorf("%w: %s", ErrContext, what)
	}
	i := slices.IndexFunc(keys, func(k Key) bool { return k.ID == h.Key })
	if i < 0 {
		var have []string
		for _, k := range keys {
			have = append(have, k.ID)
		}
		return fmt.Errorf("%w: %q; at hand are %q", ErrNoKey, h.Key, have)
	}
	gcm, err := aead(keys[i], prefix[len(prefix)-saltBytes:])
	if err != nil {
		return err
	}
	buf, next := make([]byte, chunk+tagBytes), make([]byte, chunk+tagBytes)
	n, err := fill(from, buf)
	for i := uint64(0); ; i++ {
		if err != nil {
			return err
		}
		more := 0
		if n == len(buf) {
			if more, err = fill(from, next); err != nil {
				return err
			}
		}
		last := more == 0
		plain, err := gcm.Open(buf[:0], nonce(i, last), buf[:n], prefix)
		if err != nil {
			return fmt.Errorf("%w: chunk %d, bytes from %d on", ErrTampered, i, uint64(len(prefix))+i*(chunk+tagBytes))
		}
		if _, err := to.Write(plain); err != nil {
			return err
		}
		if last {
			return nil
		}
		buf, next, n = next, buf, more
	}
}

// differs names what is not as wanted.
func (c Context) differs(got Context) string {
	var out []string
	say := func(what, want, got string) {
		if want != got {
			out = append(out, fmt.Sprintf("%s is %q, expected %q", what, got, want))
		}
	}
	say("tenant", c.Tenant, got.Tenant)
	say("job", c.Job, got.Job)
	say("task", c.Task, got.Task)
	say("sequence", fmt.Sprint(c.Sequence), fmt.Sprint(got.Sequence))
	say("name", c.Name, got.Name)
	return strings.Join(out, ", ")
}
