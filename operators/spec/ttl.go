package spec

import (
	"fmt"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
)

var ttlShape = &shape{fields: []field{
	{name: "after", kind: kindDuration, required: true, doc: "How long an entry lives: a value, an element of a list, an entry of a map."},
	{name: "domain", kind: kindEnum, enum: []string{abi.DomainNameEvent, abi.DomainNameProcessing}, doc: "The clock it ages by: the watermark, from the time of the record that wrote it (event, default), or the host's clock (processing)."},
	{name: "refresh", kind: kindEnum, enum: []string{abi.RefreshWrite, abi.RefreshRead}, doc: "What makes an entry young again: writing it (write, default), or reading as well (read; of a value that comes with the batch every record of its key is a reader)."},
}}

// ttls checks a kindTTLs value.
func (r *reader) ttls(n *yaml.Node, path string) bool {
	before := len(r.problems)
	keys, values, ok := r.mapping(n, path)
	if ok && len(keys) == 0 {
		r.problem(n.Line, path, "expected names of states with durations, like {seen: 1h}", "")
	}
	for i, k := range keys {
		p := join(path, clip(k.Value))
		f := &field{name: k.Value, kind: kindDurationOff}
		if values[i].Kind == yaml.MappingNode {
			if o := r.object(values[i], ttlShape, p); o == nil || o.fields["after"] == nil {
				continue
			}
			values[i] = objectOf(values[i], p).fields["after"]
			f.kind, p = kindDuration, join(p, "after")
		} else if !r.scalar(values[i], f, p) {
			continue
		}
		if d, err := ParseDuration(values[i].Value); err == nil && d < time.Millisecond {
			r.problem(values[i].Line, p, "a time to live is at least 1ms", "off: what the state holds stays")
		}
	}
	return len(r.problems) == before
}

// ttlList reads a checked kindTTLs value.
func ttlList(n *yaml.Node) (list []operators.StateTTL) {
	if n == nil {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		t := operators.StateTTL{State: n.Content[i].Value}
		switch v := n.Content[i+1]; {
		case v.Kind == yaml.MappingNode:
			o := objectOf(v, "")
			t.TTL = &abi.TTL{MS: o.duration("after", 0).Milliseconds(), Domain: o.text("domain"), Refresh: o.text("refresh")}
		case v.Value != "off":
			d, _ := ParseDuration(v.Value) // checked
			t.TTL = &abi.TTL{MS: d.Milliseconds()}
		}
		list = append(list, t)
	}
	return list
}

// expire gives a function's states the TTLs that the file says, in a copy of its descriptor.
func (b *builder) expire(c *object, g *operators.GuestNode) {
	if len(g.TTL) == 0 {
		return
	}
	f := *g.Fn
	f.States = slices.Clone(f.States)
	var names []string
	for _, s := range f.States {
		names = append(names, s.Name)
	}
	for i, t := range g.TTL {
		at := slices.Index(names, t.State)
		if at < 0 {
			line, path := c.fields["state_ttl"].Content[2*i].Line, join(c.path, "state_ttl")
			if len(names) == 0 {
				b.problem(line, path, fmt.Sprintf("function %q has no state", g.Function), "remove it")
				continue
			}
			b.problem(line, path, fmt.Sprintf("function %q has no state %q, it has %s", g.Function, clip(t.State), oneOf(names)), nearest(t.State, names))
			continue
		}
		f.States[at].TTL = t.TTL
	}
	g.Fn = &f
}
