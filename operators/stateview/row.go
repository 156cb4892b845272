package stateview

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint/snapread"
	"github.com/millrace-io/millrace/operators/format"
	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/schema"
)

// A row is one entry as one line of JSON:
//
//	{"operator":"count","state":"total","key":"the","value":7}
//	{"operator":"seen","state":"days","key":"a","entry":19000,"value":true}      an entry of a map
//	{"operator":"log","state":"lines","key":"a","index":3,"value":"..."}         an element of a list
//	{"operator":"alarm","state":"timers","key":"a","timer":{"domain":"event","name":"end","at":"..."}}
//
// with "expires" where the state has a TTL, and "problem" where the value does not fit its schema; it is shown
// undecoded then. A key of several columns is an array. A raw row has "key_base64", "entry_base64" and
// "value_base64" instead.

// listItem stands before the elements of a list's entries, by operators/guestop.
const (
	listNext = 0x00
	listItem = 0x01
)

var domains = map[state.Domain]string{abi.DomainEvent: "event", abi.DomainProcessing: "processing"}

// shown says whether an entry is one that people know of.
func (d *decoder) shown(e *snapread.Entry) bool {
	return d.state.Kind != "list" || len(e.UserKey) > 0 && e.UserKey[0] == listItem
}

// appendRow appends an entry as a line without its end.
func (d *decoder) appendRow(dst []byte, e *snapread.Entry, raw bool) []byte {
	dst = schema.AppendText(append(dst, `{"operator":`...), []byte(d.state.Operator))
	dst = schema.AppendText(append(dst, `,"state":`...), []byte(d.state.Name))
	if raw {
		dst = d.appendRaw(dst, e)
	} else {
		dst = d.appendKey(append(dst, `,"key":`...), e.Key)
		dst = d.appendEntry(dst, e)
	}
	if t := e.Timer; t != nil {
		dst = append(dst, `,"timer":{"domain":"`+domains[t.Domain]+`","name":`...)
		dst, _ = schema.Raw{}.AppendJSON(dst, t.Name) // never fails
		dst = append(schema.AppendTime(append(dst, `,"at":`...), t.At), '}')
	}
	if at, ok := d.expiry(e); ok {
		dst = schema.AppendTime(append(dst, `,"expires":`...), at)
	}
	return append(dst, '}')
}

// expiry is when an entry expires; false: it does not, or ages from a watermark that is still to come.
func (d *decoder) expiry(e *snapread.Entry) (ms int64, ok bool) {
	if d.state.TTL == nil || e.Timer != nil || e.Stamp == abi.MinWatermark {
		return 0, false
	}
	return e.Stamp + d.state.TTL.MS, true
}

func (d *decoder) appendKey(dst, key []byte) []byte {
	if d.columns < 2 {
		dst, _ = schema.Raw{}.AppendJSON(dst, key) // never fails
		return dst
	}
	dst = append(dst, '[')
	for i, part := range format.SplitKey(key) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst, _ = schema.Raw{}.AppendJSON(dst, part) // never fails
	}
	return append(dst, ']')
}

// appendEntry appends user key and value.
func (d *decoder) appendEntry(dst []byte, e *snapread.Entry) []byte {
	var problem error
	decode := func(c schema.Codec, b []byte) {
		out, err := c.AppendJSON(dst, b)
		if err != nil {
			problem = err
			out, _ = schema.Raw{}.AppendJSON(dst, b) // never fails
		}
		dst = out
	}
	switch {
	case e.Timer != nil:
		return dst
	case d.windows != nil:
		out, err := append(dst, `,"value":`...), error(nil)
		if d.content {
			out, err = d.windows.AppendContent(out, e.UserKey, e.Value)
		} else {
			out, err = d.windows.AppendWindows(out, e.Value)
		}
		if err == nil {
			return out
		}
		problem = err
	case d.state.Kind == "list":
		dst = strconv.AppendUint(append(dst, `,"index":`...), index(e), 10)
	case d.state.Kind == "map":
		dst = append(dst, `,"entry":`...)
		decode(d.ukey, e.UserKey)
	}
	dst = append(dst, `,"value":`...)
	if problem == nil {
		decode(d.value, e.Value)
	} else {
		dst, _ = schema.Raw{}.AppendJSON(dst, e.Value) // never fails
	}
	if problem != nil {
		dst = schema.AppendText(append(dst, `,"problem":`...), []byte(problem.Error()))
	}
	return dst
}

// index is the number of a list's element.
func index(e *snapread.Entry) uint64 {
	if len(e.UserKey) != 9 {
		return 0
	}
	return binary.BigEndian.Uint64(e.UserKey[1:])
}

func (d *decoder) appendRaw(dst []byte, e *snapread.Entry) []byte {
	put := func(name string, b []byte) {
		dst = append(append(append(dst, `,"`...), name...), `":"`...)
		dst = append(base64.StdEncoding.AppendEncode(dst, b), '"')
	}
	put("key_base64", e.Key)
	if e.Timer != nil {
		return dst
	}
	if d.state.Kind != "value" {
		put("entry_base64", e.UserKey)
	}
	put("value_base64", e.Value)
	return dst
}

// encodeKey is the bytes of a key as rows show it.
func encodeKey(value json.RawMessage, columns int) ([]byte, error) {
	if columns < 2 {
		return schema.Raw{}.Encode(nil, value)
	}
	var parts []json.RawMessage
	if err := json.Unmarshal(value, &parts); err != nil || len(parts) != columns {
		return nil, fmt.Errorf("the key has %d columns, expected an array of so many", columns)
	}
	var key []byte
	for i, p := range parts {
		b, err := schema.Raw{}.Encode(nil, bytes.TrimSpace(p))
		if err != nil {
			return nil, err
		}
		key = format.AppendKeyPart(key, b, i == 0)
	}
	return key, nil
}
