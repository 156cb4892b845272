package operators

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators/format"
)

// LineEncoder writes records as lines of JSON, one record a line.
//
// A typed row becomes an object. Raw bytes are written as they are: a line break in JSON becomes a
// blank, bytes with a line break that are no JSON become a JSON string. A null value is `null`, an empty
// one `""`: two things, but the key is lost. With Envelope each line is {"key","value","time"}, where keys
// survive too; raw values in it are JSON strings, or {"base64":"..."} if they are not text. With Provenance
// such a line also says where it comes from: "from":{"snapshot","split","offset"}, the last two null for
// what a timer or a window gave.
type LineEncoder struct {
	// Snapshot is the one before the records to come, 0: none.
	Snapshot checkpoint.ID

	rows       *format.RowEncoder
	envelope   bool
	provenance bool
	dead       bool
}

// NewLineEncoder makes the encoder of a sink.
func NewLineEncoder(s *SinkNode) *LineEncoder {
	e := &LineEncoder{envelope: s.Envelope || s.Provenance, provenance: s.Provenance, dead: s.DeadLetter}
	if len(s.Input) > 0 {
		e.rows = format.NewRowEncoder(s.Input)
	}
	return e
}

// Enveloped says that lines have key, value and time.
func (e *LineEncoder) Enveloped() bool { return e.envelope && !e.dead }

// Append appends f's line, with its newline.
func (e *LineEncoder) Append(dst []byte, f abi.Frame) (_ []byte, err error) {
	switch {
	case e.dead:
		dst = e.deadLetter(dst, f)
	case e.envelope:
		dst, err = e.enveloped(dst, f)
	default:
		dst, err = e.plain(dst, f.Value())
	}
	if err != nil {
		return dst, err
	}
	return append(dst, '\n'), nil
}

func (e *LineEncoder) plain(dst, v []byte) ([]byte, error) {
	switch {
	case v == nil:
		return append(dst, "null"...), nil
	case e.rows != nil:
		return e.rows.Append(dst, v)
	case len(v) == 0:
		return append(dst, `""`...), nil
	case bytes.IndexByte(v, '\n') < 0:
		return append(dst, v...), nil
	case !json.Valid(v):
		return format.AppendBytes(dst, v), nil
	}
	at := len(dst)
	dst = append(dst, v...)
	for i := at; i < len(dst); i++ {
		if dst[i] == '\n' || dst[i] == '\r' {
			dst[i] = ' '
		}
	}
	return dst, nil
}

func (e *LineEncoder) enveloped(dst []byte, f abi.Frame) (_ []byte, err error) {
	dst = append(dst, `{"key":`...)
	dst = format.AppendBytes(dst, f.Key())
	dst = append(dst, `,"value":`...)
	v := f.Value()
	if v != nil && e.rows != nil {
		if dst, err = e.rows.Append(dst, v); err != nil {
			return dst, err
		}
	} else {
		dst = format.AppendBytes(dst, v)
	}
	dst = appendTime(dst, f.Time())
	if e.provenance {
		dst = strconv.AppendUint(append(dst, `,"from":{"snapshot":`...), uint64(e.Snapshot), 10)
		dst = append(appendPosition(dst, f.Pos()), '}')
	}
	return append(dst, '}'), nil
}

func appendPosition(dst []byte, p abi.Position) []byte {
	if p == abi.NoPosition {
		return append(dst, `,"split":null,"offset":null`...)
	}
	dst = strconv.AppendUint(append(dst, `,"split":`...), uint64(p.Split), 10)
	return strconv.AppendUint(append(dst, `,"offset":`...), p.Offset, 10)
}

func appendTime(dst []byte, ms int64) []byte {
	dst = append(dst, `,"time":`...)
	if ms == abi.NoTime {
		return append(dst, "null"...)
	}
	return strconv.AppendInt(dst, ms, 10)
}

// deadLetter writes where and why, and the record byte for byte; typed rows also readable, as "row".
func (e *LineEncoder) deadLetter(dst []byte, f abi.Frame) []byte {
	r, d := SplitDeadLetter(f)
	text := func(name, v string) {
		dst = append(dst, name...)
		dst = format.AppendString(dst, []byte(v))
	}
	text(`{"operator":`, d.Operator)
	dst = append(dst, `,"task":`...)
	dst = strconv.AppendInt(dst, int64(d.Task), 10)
	text(`,"kind":`, d.Kind)
	text(`,"error":`, d.Error)
	text(`,"module":`, d.Module)
	dst = append(dst, `,"attempts":`...)
	dst = strconv.AppendInt(dst, int64(d.Attempts), 10)
	dst = append(dst, `,"key":`...)
	dst = format.AppendBytes(dst, r.Key)
	if d.Timer {
		dst = append(dst, `,"timer":`...)
	} else {
		dst = append(dst, `,"value":`...)
	}
	dst = format.AppendBytes(dst, r.Value)
	if e.rows != nil && d.Kind != KindMalformed && r.Value != nil && !d.Timer {
		at := len(dst)
		var err error
		if dst, err = e.rows.Append(append(dst, `,"row":`...), r.Value); err != nil {
			dst = dst[:at]
		}
	}
	dst = append(dst, `,"headers":[`...)
	for i, h := range r.Headers {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"key":`...)
		dst = format.AppendBytes(dst, h.Key)
		dst = append(dst, `,"value":`...)
		dst = append(format.AppendBytes(dst, h.Value), '}')
	}
	dst = appendPosition(append(dst, ']'), r.Pos)
	text(`,"position":`, d.Position)
	return append(appendTime(dst, r.Time), '}')
}

// SinkError names the record that a sink could not write.
func SinkError(ctx *Context, f abi.Frame, err error) error {
	p := f.Pos()
	at := fmt.Sprintf("split %d, offset %d", p.Split, p.Offset)
	if ctx.Describe != nil {
		at = ctx.Describe(p)
	}
	return &RecordError{ctx.Operator, at, err}
}
