package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"unicode/utf8"
)

// Errors of manifests. Every error of Decode wraps exactly one of them.
var (
	// ErrCorrupt: the bytes are not what was written.
	ErrCorrupt = errors.New("manifest is damaged")
	// ErrNewerFormat: a later build wrote it; this one cannot read it.
	ErrNewerFormat = errors.New("manifest has a newer format")
	// ErrInvalid: intact, but it does not describe a checkpoint that can be restored here.
	ErrInvalid = errors.New("manifest is invalid")
)

// A manifest file is one JSON object with a fixed frame, so that people can use jq on it and no byte of
// it can change unseen: the digest covers the body, and the frame is compared byte for byte.
//
//	{"format":2,"sha256":"<64 hex digits>","signature":"<algorithm>:<key id>:<base64>","body":{...}}\n
//
// The signature may be missing. The digest covers all that follows it; in format 1 only the body.
const (
	framePrefix = `{"format":`
	frameDigest = `,"sha256":"`
	frameSigned = `,"signature":"`
	frameBody   = `,"body":`
	frameEnd    = "}\n"
	hexDigest   = 2 * sha256.Size
)

// Encode checks m and returns its file. Errors: ErrInvalid, with what is wrong.
func Encode(m *Manifest) ([]byte, error) { return EncodeSigned(m, nil) }

// EncodeSigned is Encode with a signature; a nil signer makes none.
func EncodeSigned(m *Manifest, signer Signer) ([]byte, error) {
	if m.Format != FormatVersion {
		return nil, fmt.Errorf("%w: format %d, this build writes %d", ErrInvalid, m.Format, FormatVersion)
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	if bad, found := invalidText(reflect.ValueOf(m)); found {
		return nil, fmt.Errorf("%w: text %q is not UTF-8 and would not survive", ErrInvalid, bad)
	}
	body, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	tail := []byte{'"'}
	if signer != nil {
		signature, err := sign(signer, body)
		if err != nil {
			return nil, err
		}
		tail = append(append(append(tail, frameSigned...), signature...), '"')
	}
	tail = append(append(append(tail, frameBody...), body...), frameEnd...)
	sum := sha256.Sum256(tail)
	out := make([]byte, 0, len(tail)+128)
	out = append(out, framePrefix...)
	out = strconv.AppendInt(out, FormatVersion, 10)
	out = append(out, frameDigest...)
	out = hex.AppendEncode(out, sum[:])
	return append(out, tail...), nil
}

// Decode returns the manifest of a file. Truncated, extended or altered bytes give ErrCorrupt, a later
// format ErrNewerFormat, another slot count or a missing participant ErrInvalid.
func Decode(data []byte) (*Manifest, error) {
	f, err := openFrame(data)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(f.body))
	// A field that this build does not know could hold state that it would lose.
	dec.DisallowUnknownFields()
	m := new(Manifest)
	if err := dec.Decode(m); err != nil {
		return nil, fmt.Errorf("%w: body: %w", ErrCorrupt, err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("%w: more than one value in the body", ErrCorrupt)
	}
	if m.Format != f.format {
		return nil, fmt.Errorf("%w: frame says format %d, body says %d", ErrCorrupt, f.format, m.Format)
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	return m, nil
}

// frame is a manifest file taken apart.
type frame struct {
	format    int
	signature string // empty: none
	body      []byte
}

// openFrame checks everything but the signature and the body's contents.
func openFrame(data []byte) (frame, error) {
	var f frame
	rest, ok := bytes.CutPrefix(data, []byte(framePrefix))
	if !ok {
		return f, fmt.Errorf("%w: %d bytes that do not begin with %s", ErrCorrupt, len(data), framePrefix)
	}
	comma := bytes.IndexByte(rest, ',')
	if comma < 0 {
		return f, fmt.Errorf("%w: ends after %d bytes, inside its frame", ErrCorrupt, len(data))
	}
	var err error
	f.format, err = strconv.Atoi(string(rest[:comma]))
	if err != nil || strconv.Itoa(f.format) != string(rest[:comma]) || f.format < 1 {
		return f, fmt.Errorf("%w: format %q is not a number", ErrCorrupt, rest[:comma])
	}
	if f.format > FormatVersion {
		return f, fmt.Errorf("%w: %d, this build reads up to %d", ErrNewerFormat, f.format, FormatVersion)
	}
	rest, ok = bytes.CutPrefix(rest[comma:], []byte(frameDigest))
	if !ok || len(rest) < hexDigest {
		return f, fmt.Errorf("%w: no digest in its frame", ErrCorrupt)
	}
	want := string(rest[:hexDigest])
	tail := rest[hexDigest:]
	if rest, ok = bytes.CutPrefix(tail, []byte{'"'}); !ok {
		return f, fmt.Errorf("%w: no end of the digest in its frame", ErrCorrupt)
	}
	if signed, has := bytes.CutPrefix(rest, []byte(frameSigned)); has && f.format >= 2 {
		end := max(0, bytes.IndexByte(signed, '"'))
		f.signature, rest = string(signed[:end]), signed[min(end+1, len(signed)):]
	}
	if f.body, ok = bytes.CutPrefix(rest, []byte(frameBody)); !ok {
		return f, fmt.Errorf("%w: no body in its frame", ErrCorrupt)
	}
	if f.body, ok = bytes.CutSuffix(f.body, []byte(frameEnd)); !ok {
		return f, fmt.Errorf("%w: its end is missing or altered (%d bytes)", ErrCorrupt, len(data))
	}
	covered := tail
	if f.format == 1 {
		covered = f.body
	}
	sum := sha256.Sum256(covered)
	if got := hex.EncodeToString(sum[:]); got != want {
		return f, fmt.Errorf("%w: SHA-256 of its contents is %s, expected %s", ErrCorrupt, got, want)
	}
	return f, nil
}

// invalidText finds a string that JSON would alter silently.
func invalidText(v reflect.Value) (string, bool) {
	switch v.Kind() {
	case reflect.String:
		return v.String(), !utf8.ValidString(v.String())
	case reflect.Pointer:
		if !v.IsNil() {
			return invalidText(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if s, found := invalidText(v.Field(i)); found {
				return s, true
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return "", false
		}
		for i := range v.Len() {
			if s, found := invalidText(v.Index(i)); found {
				return s, true
			}
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			if s, found := invalidText(k); found {
				return s, true
			}
		}
	}
	return "", false
}
