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
//	{"format":1,"sha256":"<64 hex digits>","body":{...}}\n
const (
	framePrefix = `{"format":`
	frameDigest = `,"sha256":"`
	frameBody   = `","body":`
	frameEnd    = "}\n"
	hexDigest   = 2 * sha256.Size
)

// Encode checks m and returns its file. Errors: ErrInvalid, with what is wrong.
func Encode(m *Manifest) ([]byte, error) {
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
	sum := sha256.Sum256(body)
	out := make([]byte, 0, len(body)+128)
	out = append(out, framePrefix...)
	out = strconv.AppendInt(out, FormatVersion, 10)
	out = append(out, frameDigest...)
	out = hex.AppendEncode(out, sum[:])
	out = append(out, frameBody...)
	out = append(out, body...)
	return append(out, frameEnd...), nil
}

// Decode returns the manifest of a file. Truncated, extended or altered bytes give ErrCorrupt, a later
// format ErrNewerFormat, another slot count or a missing participant ErrInvalid.
func Decode(data []byte) (*Manifest, error) {
	body, err := openFrame(data)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	// A field that this build does not know could hold state that it would lose.
	dec.DisallowUnknownFields()
	m := new(Manifest)
	if err := dec.Decode(m); err != nil {
		return nil, fmt.Errorf("%w: body: %w", ErrCorrupt, err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("%w: more than one value in the body", ErrCorrupt)
	}
	if m.Format != FormatVersion {
		return nil, fmt.Errorf("%w: frame says format %d, body says %d", ErrCorrupt, FormatVersion, m.Format)
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	return m, nil
}

// openFrame checks the frame and returns the body.
func openFrame(data []byte) ([]byte, error) {
	rest, ok := bytes.CutPrefix(data, []byte(framePrefix))
	if !ok {
		return nil, fmt.Errorf("%w: %d bytes that do not begin with %s", ErrCorrupt, len(data), framePrefix)
	}
	comma := bytes.IndexByte(rest, ',')
	if comma < 0 {
		return nil, fmt.Errorf("%w: ends after %d bytes, inside its frame", ErrCorrupt, len(data))
	}
	format, err := strconv.Atoi(string(rest[:comma]))
	if err != nil || strconv.Itoa(format) != string(rest[:comma]) || format < 1 {
		return nil, fmt.Errorf("%w: format %q is not a number", ErrCorrupt, rest[:comma])
	}
	if format > FormatVersion {
		return nil, fmt.Errorf("%w: %d, this build reads up to %d", ErrNewerFormat, format, FormatVersion)
	}
	rest, ok = bytes.CutPrefix(rest[comma:], []byte(frameDigest))
	if !ok || len(rest) < hexDigest {
		return nil, fmt.Errorf("%w: no digest in its frame", ErrCorrupt)
	}
	want := string(rest[:hexDigest])
	rest, ok = bytes.CutPrefix(rest[hexDigest:], []byte(frameBody))
	if !ok {
		return nil, fmt.Errorf("%w: no body in its frame", ErrCorrupt)
	}
	body, ok := bytes.CutSuffix(rest, []byte(frameEnd))
	if !ok {
		return nil, fmt.Errorf("%w: its end is missing or altered (%d bytes)", ErrCorrupt, len(data))
	}
	sum := sha256.Sum256(body)
	if got := hex.EncodeToString(sum[:]); got != want {
		return nil, fmt.Errorf("%w: SHA-256 of its body is %s, expected %s", ErrCorrupt, got, want)
	}
	return body, nil
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
