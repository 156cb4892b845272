package replay

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/format"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/schema"
)

// shower shows what two versions of an operator did to people.
type shower struct {
	columns  int // of keys
	old, now *decoder
}

// decoder knows the forms of one version's values.
type decoder struct {
	fn     *abi.Function
	output *format.RowEncoder
	values []schema.Codec // by state
	ukeys  []schema.Codec
}

func newShower(g *operators.Graph, n *operators.Node, old, now *abi.Function) (s *shower, err error) {
	s = &shower{}
	for _, ref := range job.StateRefs(g) {
		if ref.Operator == n.ID {
			s.columns = len(ref.Key)
		}
	}
	if s.old, err = newDecoder(n.ID, old); err == nil {
		s.now, err = newDecoder(n.ID, now)
	}
	return s, err
}

func newDecoder(id string, fn *abi.Function) (*decoder, error) {
	d := &decoder{fn: fn}
	if fn == nil {
		return d, nil
	}
	if len(fn.Output) > 0 {
		d.output = format.NewRowEncoder(fn.Output)
	}
	for i := range fn.States {
		st := &fn.States[i]
		v, err := schema.Compile(st.Schema)
		if err != nil {
			return nil, fmt.Errorf("operator %s: schema of state %s: %w", id, st.Name, err)
		}
		k, err := schema.Compile(st.KeySchema)
		if err != nil {
			return nil, fmt.Errorf("operator %s: schema of the entries of state %s: %w", id, st.Name, err)
		}
		d.values, d.ukeys = append(d.values, v), append(d.ukeys, k)
	}
	return d, nil
}

// key shows a key: text as it is, several columns as an array.
func (s *shower) key(k []byte) string {
	if k == nil {
		return ""
	}
	if s.columns < 2 {
		return plain(k)
	}
	out := []byte{'['}
	for i, part := range format.SplitKey(k) {
		if i > 0 {
			out = append(out, ',')
		}
		out, _ = schema.Raw{}.AppendJSON(out, part) // never fails
	}
	return string(append(out, ']'))
}

// plain shows bytes as text where they are text.
func plain(b []byte) string {
	out, _ := schema.Raw{}.AppendJSON(nil, b) // never fails
	var s string
	if json.Unmarshal(out, &s) == nil {
		return s
	}
	return string(out)
}

// details shows everything that differs at a cause.
func (s *shower) details(c *comparison, f *finding) (ds []Detail) {
	if f.kinds&KindFault != 0 {
		ds = append(ds, Detail{Kind: KindFault, Before: failed(c.old, f.old), After: failed(c.now, f.now)})
	}
	if f.kinds&KindOutput != 0 {
		ds = append(ds, s.outputs(c, f)...)
	}
	for _, e := range f.states {
		ds = append(ds, s.state(c, e))
	}
	for _, e := range f.timers {
		ds = append(ds, timerDetail(c, e))
	}
	if f.kinds&KindTimer != 0 && len(f.timers) == 0 {
		fired := [2]string{"", ""}
		if f.old >= 0 {
			fired[0] = "fired"
		}
		if f.now >= 0 {
			fired[1] = "fired"
		}
		ds = append(ds, Detail{Kind: KindTimer, Of: "this timer", Before: fired[0], After: fired[1]})
	}
	if f.kinds&KindFuel != 0 {
		ds = append(ds, fuelDetail(f.oldFuel, f.newFuel))
	}
	return ds
}

func fuelDetail(old, now int64) Detail {
	return Detail{Kind: KindFuel, Before: strconv.FormatInt(old, 10), After: strconv.FormatInt(now, 10)}
}

func failed(r *recorder, step int) string {
	if step < 0 {
		return ""
	}
	return string(r.at(r.steps[step].fail))
}

// mostOutputs is how many outputs of a record are shown.
const mostOutputs = 8

// outputs shows the outputs that are not the same at the same place.
func (s *shower) outputs(c *comparison, f *finding) (ds []Detail) {
	var old, now []abi.Frame
	if f.old >= 0 {
		old = c.old.outputs(f.old)
	}
	if f.now >= 0 {
		now = c.now.outputs(f.now)
	}
	for i := range max(len(old), len(now)) {
		var a, b string
		of := ""
		if i < len(old) {
			a, of = s.old.frame(old[i]), s.old.outputName(old[i])
		}
		if i < len(now) {
			b = s.now.frame(now[i])
			if i >= len(old) {
				of = s.now.outputName(now[i])
			}
		}
		if i < len(old) && i < len(now) && string(old[i]) == string(now[i]) {
			continue
		}
		if i < len(old) && i < len(now) && a == b { // the values are the same: all of it
			a, b = whole(old[i], s.old), whole(now[i], s.now)
		}
		if ds = append(ds, Detail{Kind: KindOutput, Of: of, Before: a, After: b}); len(ds) == mostOutputs {
			break
		}
	}
	return ds
}

func (d *decoder) outputName(f abi.Frame) string {
	if n := int(f.Output()); d.fn != nil && n > 0 && n <= len(d.fn.Outputs) {
		return d.fn.Outputs[n-1]
	}
	return ""
}

// frame shows the value of an output.
func (d *decoder) frame(f abi.Frame) string {
	v := f.Value()
	switch {
	case v == nil:
		return "null"
	case d.output != nil && f.Output() == operators.OutputMain:
		if out, err := d.output.Append(nil, v); err == nil {
			return string(out)
		}
	}
	return plain(v)
}

// whole shows everything of an output.
func whole(f abi.Frame, d *decoder) string {
	s := fmt.Sprintf("%s key %s", d.frame(f), plain(f.Key()))
	if f.Time() != abi.NoTime {
		s += fmt.Sprintf(" time %d", f.Time())
	}
	if f.Output() != 0 {
		s += " to " + d.outputName(f)
	}
	for _, h := range f.Headers() {
		s += fmt.Sprintf(" %s=%s", plain(h.Key), plain(h.Value))
	}
	return s
}

// state shows an entry that is left with different values.
func (s *shower) state(c *comparison, e changedEntry) Detail {
	d := Detail{Kind: KindState}
	if e.old >= 0 {
		w := &c.old.states[e.old]
		d.Of, d.Before = s.old.entry(w.state, c.old.at(w.ukey)), s.old.value(w.state, c.old.at(w.now))
	}
	if e.now >= 0 {
		w := &c.now.states[e.now]
		d.After = s.now.value(w.state, c.now.at(w.now))
		if e.old < 0 {
			d.Of, d.Before = s.now.entry(w.state, c.now.at(w.ukey)), s.now.value(w.state, c.now.at(w.old))
		}
	} else {
		w := &c.old.states[e.old]
		d.After = s.old.value(w.state, c.old.at(w.old))
	}
	return d
}

// entry names an entry of a state.
func (d *decoder) entry(st int, ukey []byte) string {
	if d.fn == nil || st >= len(d.fn.States) {
		return ""
	}
	name := d.fn.States[st].Name
	switch d.fn.States[st].Kind {
	case abi.StateList:
		if guestop.IsListItem(ukey) {
			return fmt.Sprintf("%s[%d]", name, binary.BigEndian.Uint64(ukey[1:]))
		}
		return name + " (length)"
	case abi.StateMap:
		return name + "[" + decoded(d.ukeys[st], ukey) + "]"
	}
	return name
}

func (d *decoder) value(st int, v []byte) string {
	if v == nil {
		return ""
	}
	if d.fn == nil || st >= len(d.values) {
		return plain(v)
	}
	return decoded(d.values[st], v)
}

// decoded shows bytes by a schema, or as they are where they don't fit it.
func decoded(c schema.Codec, b []byte) string {
	if out, err := c.AppendJSON(nil, b); err == nil {
		return string(out)
	}
	return plain(b)
}

func timerDetail(c *comparison, e changedTimer) Detail {
	d := Detail{Kind: KindTimer}
	text := func(r *recorder, i int) string {
		if i < 0 {
			return ""
		}
		t := &r.timers[i]
		d.Of = domainName(t.domain) + " timer " + plain(r.at(t.name))
		if t.del {
			return "deleted"
		}
		return "set for " + timeText(t.at)
	}
	d.After = text(c.now, e.now)
	d.Before = text(c.old, e.old)
	return d
}

func domainName(d state.Domain) string {
	if d == abi.DomainProcessing {
		return "processing"
	}
	return "event"
}

// timeText writes ms since 1970 for people.
func timeText(ms int64) string {
	if t := time.UnixMilli(ms).UTC(); t.Year() >= 0 && t.Year() <= 9999 {
		return t.Format("2006-01-02T15:04:05.000Z")
	}
	return fmt.Sprintf("%d ms", ms)
}

// timerText names a timer that fired.
func timerText(kind uint32, name, key string, at int64) string {
	d := "timer"
	if kind == abi.KindProcessingTimers {
		d = "processing-time timer"
	}
	if name != "" {
		d += " " + plain([]byte(name))
	}
	return fmt.Sprintf("%s of key %s at %s", d, key, timeText(at))
}
