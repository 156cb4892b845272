// Package schema reads and writes bytes of state by their schema (abi.Schema), judges how one schema differs
// from another, and rewrites values where a change needs it.
package schema

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"

	"github.com/millrace-io/millrace/abi"
)

// ErrValue is wrapped by every error about bytes that do not fit their schema, or JSON that does not.
var ErrValue = errors.New("value does not fit its schema")

// Codec turns state bytes into JSON for people, and JSON into state bytes. It keeps no state between calls
// and may be used by several goroutines.
type Codec interface {
	// AppendJSON appends the value of b. Errors wrap ErrValue; dst is returned as it was then.
	AppendJSON(dst, b []byte) ([]byte, error)
	// Encode appends the bytes of a JSON value. Errors wrap ErrValue.
	Encode(dst []byte, value json.RawMessage) ([]byte, error)
}

// Compile makes the codec of a schema. Nil, and a type this build does not know, give Raw.
func Compile(s *abi.Schema) (Codec, error) {
	if s == nil {
		return Raw{}, nil
	}
	switch s.Type {
	case abi.SchemaUTF8:
		return text{}, nil
	case abi.SchemaJSON:
		return document{}, nil
	case abi.SchemaBytes:
		return blob{s.Size}, nil
	case abi.SchemaStruct, abi.SchemaArray:
		return compileFixed(s)
	case abi.SchemaRow:
		return compileRow(s)
	case abi.SchemaAvro:
		return compileAvro(s)
	case abi.SchemaProtobuf:
		return compileMessage(s)
	}
	if n, ok := numbers[s.Type]; ok {
		return n, nil
	}
	return Raw{}, nil
}

func bad(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrValue, fmt.Errorf(format, args...))
}

// Raw is the codec of undescribed bytes: text where they are that, else {"hex":"00ff"}. It takes those, and
// {"base64":"AP8="}.
type Raw struct{}

// AppendJSON implements Codec.
func (Raw) AppendJSON(dst, b []byte) ([]byte, error) {
	if printable(b) {
		return AppendText(dst, b), nil
	}
	dst = append(dst, `{"hex":"`...)
	return append(hex.AppendEncode(dst, b), `"}`...), nil
}

// Encode implements Codec.
func (Raw) Encode(dst []byte, value json.RawMessage) ([]byte, error) {
	var s string
	if json.Unmarshal(value, &s) == nil && value[0] == '"' {
		return append(dst, s...), nil
	}
	var o struct{ Hex, Base64 *string }
	if err := strict(value, &o); err != nil || (o.Hex == nil) == (o.Base64 == nil) {
		return dst, bad(`%.60s, expected text, {"hex":...} or {"base64":...}`, value)
	}
	var b []byte
	var err error
	if o.Hex != nil {
		b, err = hex.DecodeString(*o.Hex)
	} else {
		b, err = base64.StdEncoding.DecodeString(*o.Base64)
	}
	if err != nil {
		return dst, bad("%w", err)
	}
	return append(dst, b...), nil
}

// printable says that b is text for people: UTF-8 without control characters but line ends and tabs.
func printable(b []byte) bool {
	if !utf8.Valid(b) {
		return false
	}
	for _, r := range string(b) {
		if unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t' {
			return false
		}
	}
	return true
}

// AppendText appends a JSON string without escaping what HTML would need.
func AppendText(dst, b []byte) []byte {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(string(b)); err != nil {
		panic(err) // strings always encode
	}
	return append(dst, bytes.TrimSuffix(out.Bytes(), []byte("\n"))...)
}

// strict decodes exactly one value without unknown fields; numbers keep their text.
func strict(value json.RawMessage, into any) error {
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("more than one JSON value")
	}
	return nil
}
