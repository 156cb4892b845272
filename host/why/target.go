package why

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/state/schema"
)

// ErrTarget is wrapped by errors about the output that was asked for.
var ErrTarget = errors.New("which output")

// Target is an output as its sink wrote it.
type Target struct {
	Sink *operators.Node
	Line json.RawMessage // as written
	// Snapshot is the one before it, Pos the record it comes from; both only with provenance. A Pos of
	// abi.NoPosition: a timer or window gave it.
	Snapshot checkpoint.ID
	Pos      *abi.Position

	bare []byte // Line without where it comes from
	time *int64
	enc  *operators.LineEncoder
}

// provenance is what a line with provenance says of itself.
type provenance struct {
	Time *int64 `json:"time"`
	From *struct {
		Snapshot checkpoint.ID `json:"snapshot"`
		Split    *uint32       `json:"split"`
		Offset   *uint64       `json:"offset"`
	} `json:"from"`
}

// NewTarget takes a line that a sink of a pipeline wrote. sink is its id; empty: the only one that could have.
// Errors wrap ErrTarget.
func NewTarget(g *operators.Graph, sink string, line []byte) (*Target, error) {
	line = bytes.TrimSpace(line)
	var p provenance
	if !json.Valid(line) || len(line) == 0 {
		return nil, fmt.Errorf("%w: %.80q is no line of JSON", ErrTarget, line)
	}
	if line[0] == '{' {
		_ = json.Unmarshal(line, &p) // a line of another form has none
	}
	n, err := sinkOf(g, sink, p.From != nil)
	if err != nil {
		return nil, err
	}
	t := &Target{Sink: n, Line: bytes.Clone(line), bare: line}
	s := *n.Sink
	if s.Provenance {
		if p.From == nil {
			return nil, fmt.Errorf(`%w: sink %s writes {"key","value","time","from"}, the line has no "from"`, ErrTarget, n.ID)
		}
		t.Snapshot, t.time, t.Pos = p.From.Snapshot, p.Time, &abi.Position{}
		*t.Pos = abi.NoPosition
		if p.From.Split != nil && p.From.Offset != nil {
			*t.Pos = abi.Position{Split: *p.From.Split, Offset: *p.From.Offset}
		}
		i := bytes.LastIndex(line, []byte(`,"from":`))
		t.bare = append(bytes.Clone(line[:i]), '}')
		s.Envelope, s.Provenance = true, false
	}
	t.enc = operators.NewLineEncoder(&s)
	return t, nil
}

func sinkOf(g *operators.Graph, id string, from bool) (*operators.Node, error) {
	var all, able []string
	var found *operators.Node
	for _, n := range g.Nodes {
		if n.Sink == nil || n.Sink.Connector == "blackhole" || n.Sink.DeadLetter {
			continue
		}
		all = append(all, n.ID)
		if n.ID == id || id == "" && n.Sink.Provenance == from {
			found = n
			able = append(able, n.ID)
		}
	}
	switch {
	case len(able) == 1:
		return found, nil
	case id != "":
		return nil, fmt.Errorf("%w: there is no sink %s; the pipeline has %s", ErrTarget, id, strings.Join(all, ", "))
	case len(able) == 0 && from:
		return nil, fmt.Errorf(`%w: the line says where it comes from, no sink of the pipeline has provenance: true`, ErrTarget)
	case len(able) == 0:
		return nil, fmt.Errorf(`%w: no sink could have written the line: it has no "from"`, ErrTarget)
	}
	return nil, fmt.Errorf("%w: sinks %s could have written it: say which with --sink", ErrTarget, strings.Join(able, ", "))
}

// key is that of the line, if it says; nil: it does not.
func (t *Target) key() []byte {
	if !t.enc.Enveloped() {
		return nil
	}
	var l struct {
		Key json.RawMessage `json:"key"`
	}
	if json.Unmarshal(t.bare, &l) != nil || l.Key == nil || string(l.Key) == "null" {
		return nil
	}
	key, err := schema.Raw{}.Encode(nil, l.Key)
	if err != nil {
		return nil
	}
	return key
}

// is says that a record that the sink gets is the output; rekeyed: its key is still another.
func (t *Target) is(f abi.Frame, rekeyed bool) (bool, error) {
	if t.Pos != nil && f.Pos() != *t.Pos {
		return false, nil
	}
	if t.time != nil && f.Time() != *t.time {
		return false, nil
	}
	line, err := t.enc.Append(nil, f)
	if err != nil {
		return false, err
	}
	line = bytes.TrimSuffix(line, []byte("\n"))
	if rekeyed && t.enc.Enveloped() {
		return bytes.Equal(behindKey(line), behindKey(t.bare)), nil
	}
	return bytes.Equal(line, t.bare), nil
}

// behindKey is an enveloped line without its key.
func behindKey(line []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(line))
	var key json.RawMessage
	for range 2 { // { and "key"
		if _, err := d.Token(); err != nil {
			return line
		}
	}
	if d.Decode(&key) != nil {
		return line
	}
	return line[d.InputOffset():]
}
