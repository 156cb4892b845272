package millrace

import (
	"encoding/binary"
	"unicode/utf8"
)

var le = binary.LittleEndian

// NoTime is the event time of a record that has none.
const NoTime = noTime

// Ends of the watermark.
const (
	MinWatermark = minWatermark // before the first
	MaxWatermark = maxWatermark // end of input
)

// Op is what a record does to the table its stream describes.
type Op uint8

// Changelog operations; a plain stream holds only Insert.
const (
	Insert       = Op(opInsert)       // +I
	UpdateBefore = Op(opUpdateBefore) // -U
	UpdateAfter  = Op(opUpdateAfter)  // +U
	Delete       = Op(opDelete)       // -D
)

// Record is one record; copying it copies a pointer. It and its slices are valid until the callback
// returns.
//
// Null, empty and absent are three things: a null key or value is nil, an empty one is not.
type Record struct {
	frame []byte
}

// Frame is the whole frame, as the host wrote it.
func (r Record) Frame() []byte { return r.frame }

func (r Record) flags() byte { return r.frame[frameFlags] }

func (r Record) keyLen() int { return int(le.Uint32(r.frame[frameKeyLen:])) }

func (r Record) valueLen() int { return int(le.Uint32(r.frame[frameValueLen:])) }

// Key is the key; nil if null.
func (r Record) Key() []byte {
	if r.flags()&flagKey == 0 {
		return nil
	}
	end := frameHeader + r.keyLen()
	return r.frame[frameHeader:end:end]
}

// Value is the value; nil if null.
func (r Record) Value() []byte {
	if r.flags()&flagValue == 0 {
		return nil
	}
	at := frameHeader + r.keyLen()
	end := at + r.valueLen()
	return r.frame[at:end:end]
}

// Text is a copy of the value as text. Errors: a null value, bytes that are not UTF-8.
func (r Record) Text() (string, error) {
	v := r.Value()
	switch {
	case v == nil:
		return "", errNullText
	case !utf8.Valid(v):
		return "", errNotUTF8
	}
	return string(v), nil
}

// Row is the value as a typed row of that many columns. Errors: a null value, one too short.
func (r Record) Row(fields int) (Row, error) {
	v := r.Value()
	if v == nil {
		return Row{}, errNullRow
	}
	return NewRow(v, fields)
}

// Time is the event time in ms since 1970 UTC, NoTime if there is none.
func (r Record) Time() int64 { return int64(le.Uint64(r.frame[frameTime:])) }

// Op is the changelog operation.
func (r Record) Op() Op { return Op(r.frame[frameOp]) }

// Input is the input's number, for functions with several inputs.
func (r Record) Input() uint8 { return r.frame[frameOutput] }

// Position is where the record came from: split of the source, offset in it.
func (r Record) Position() (split uint32, offset uint64) {
	return le.Uint32(r.frame[frameSplit:]), le.Uint64(r.frame[frameOffset:])
}

// Header is an entry of a record's header list; a nil Value is null.
type Header struct {
	Key   []byte
	Value []byte
}

// Headers calls each with the headers in order, repeated keys too, until it returns false.
func (r Record) Headers(each func(Header) bool) {
	if r.flags()&flagHeaders == 0 {
		return
	}
	b := r.frame[frameHeader+r.keyLen()+r.valueLen():]
	n := le.Uint32(b)
	for b = b[4:]; n > 0; n-- {
		kl, vl := int(le.Uint32(b)), le.Uint32(b[4:])
		h := Header{Key: b[8 : 8+kl : 8+kl]}
		b = b[8+kl:]
		if vl != nullLen {
			h.Value, b = b[:vl:vl], b[vl:]
		}
		if !each(h) {
			return
		}
	}
}

// Header returns the value of the first header of that name.
func (r Record) Header(name string) (value []byte, ok bool) {
	r.Headers(func(h Header) bool {
		if ok = string(h.Key) == name; ok {
			value = h.Value
		}
		return !ok
	})
	return value, ok
}

// Timer is a timer that is due, valid until the callback returns.
type Timer struct {
	rec    Record
	domain Domain
}

// Time is what it was set for, ms.
func (t Timer) Time() int64 { return t.rec.Time() }

// Name is a copy of the name it was set with.
func (t Timer) Name() string { return string(t.rec.Value()) }

// Key is the key it was set under.
func (t Timer) Key() []byte { return t.rec.Key() }

// Domain is the clock it ran on.
func (t Timer) Domain() Domain { return t.domain }
