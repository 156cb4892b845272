// Package stateview shows the state of a snapshot to people and programs: keys and values decoded by the
// schemas that the snapshot keeps, as JSON lines; sums of it; and a new snapshot with some entries changed.
package stateview

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapread"
	"github.com/millrace-io/millrace/operators/window"
	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/schema"
)

// ErrQuery is wrapped by errors about what was asked for.
var ErrQuery = errors.New("bad query")

// View is a snapshot that is looked at. Its methods serve one goroutine at a time.
type View struct {
	snap     *snapread.Snapshot
	decoders map[*snapread.State]*decoder
}

// Open opens a snapshot. objects is its store, which has to keep the objects while they are read.
func Open(m *checkpoint.Manifest, objects state.Objects) *View {
	return &View{snapread.Open(m, objects, nil), map[*snapread.State]*decoder{}}
}

// ID is the snapshot's.
func (v *View) ID() checkpoint.ID { return v.snap.Manifest().ID }

// Info describes one state.
type Info struct {
	Operator  string         `json:"operator"`
	State     string         `json:"state"`
	Kind      string         `json:"kind"` // value, map, list, timers
	Version   int            `json:"version"`
	Schema    abi.SchemaType `json:"schema,omitempty"` // of values; empty: undescribed
	KeySchema abi.SchemaType `json:"key_schema,omitempty"`
	Key       []string       `json:"key,omitempty"` // columns of the key
	TTLMillis int64          `json:"ttl_ms,omitempty"`
	Tasks     int            `json:"tasks"`
	Entries   uint64         `json:"stored_entries"` // with those removed or overwritten since, until runs merge
	Bytes     int64          `json:"stored_bytes"`
}

// States lists the states.
func (v *View) States() []Info {
	var out []Info
	for _, x := range v.snap.States() {
		i := Info{Operator: x.Operator, State: x.Name, Kind: x.Kind, Version: x.Version, Tasks: x.Tasks()}
		i.Entries, i.Bytes = x.Stored()
		if x.Ref != nil && x.Ref.State.Schema != nil {
			i.Schema = x.Ref.State.Schema.Type
		}
		if x.Ref != nil && x.Ref.State.KeySchema != nil {
			i.KeySchema = x.Ref.State.KeySchema.Type
		}
		for _, f := range x.KeyFields() {
			i.Key = append(i.Key, f.Name)
		}
		if x.TTL != nil {
			i.TTLMillis = x.TTL.MS
		}
		out = append(out, i)
	}
	return out
}

// decoder reads entries of one state.
type decoder struct {
	state   *snapread.State
	columns int // of the key
	value   schema.Codec
	ukey    schema.Codec
	windows *window.Inspector
	content bool // entries are contents of windows
	problem string
}

// decoder of a state. One whose schema can't be used decodes as if there were none, and says why.
func (v *View) decoder(x *snapread.State) *decoder {
	if d := v.decoders[x]; d != nil {
		return d
	}
	d := &decoder{state: x, columns: len(x.KeyFields()), value: schema.Raw{}, ukey: schema.Raw{}}
	v.decoders[x] = d
	if x.Ref == nil {
		return d
	}
	s := &x.Ref.State
	var err error
	if s.Schema != nil && (s.Schema.Type == abi.SchemaWindow || s.Schema.Type == abi.SchemaContents) {
		d.windows, err = window.NewInspector(s.Schema.Definition)
		d.content = s.Schema.Type == abi.SchemaContents
	} else if c, cerr := schema.Compile(s.Schema); cerr != nil {
		err = cerr
	} else {
		d.value = c
	}
	if c, cerr := schema.Compile(s.KeySchema); cerr != nil {
		err = errors.Join(err, cerr)
	} else {
		d.ukey = c
	}
	if err != nil {
		d.problem = fmt.Sprintf("state %s.%s: its schema can't be used: %v", x.Operator, x.Name, err)
	}
	return d
}

// Problems are the schemas that could not be used so far.
func (v *View) Problems() (out []string) {
	for _, x := range v.snap.States() {
		if d := v.decoders[x]; d != nil && d.problem != "" {
			out = append(out, d.problem)
		}
	}
	return out
}

// ParseKey is the bytes of a key as Row shows it: text, {"hex":...}, {"base64":...}, or of several columns an
// array of those. Text that is no JSON stands for itself. Errors wrap ErrQuery.
func (v *View) ParseKey(x *snapread.State, text string) ([]byte, error) {
	value := json.RawMessage(text)
	if len(text) == 0 || !json.Valid(value) || text[0] != '"' && text[0] != '[' && text[0] != '{' {
		value = schema.AppendText(nil, []byte(text))
	}
	key, err := encodeKey(value, len(x.KeyFields()))
	if err != nil {
		return nil, fmt.Errorf("%w: key %.80s: %w", ErrQuery, text, err)
	}
	return key, nil
}

// ParseUserKey is the bytes of a map's user key as Row shows it. Errors wrap ErrQuery.
func (v *View) ParseUserKey(x *snapread.State, text string) ([]byte, error) {
	value := json.RawMessage(text)
	if !json.Valid(value) {
		value = schema.AppendText(nil, []byte(text))
	}
	b, err := v.decoder(x).ukey.Encode(nil, value)
	if err != nil {
		return nil, fmt.Errorf("%w: entry %.80s: %w", ErrQuery, text, err)
	}
	return b, nil
}
