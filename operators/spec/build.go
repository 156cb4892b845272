package spec

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/format"
	"github.com/millrace-io/millrace/operators/generator"
)

func parseRef(s string, line int) ref {
	id, out, _ := strings.Cut(s, ".")
	return ref{line, id, out}
}

func (b *builder) source(it *item, connector string) {
	o := it.obj
	s := &operators.SourceNode{Connector: connector, Fields: fieldList(o.fields["fields"])}
	it.node.Kind, it.node.Source = operators.NodeSource, s
	it.known = true
	it.node.Schema = s.Fields
	if p := b.policy(it, "on_error"); p.Policy != "" {
		s.OnError = &p
	}
	b.timeOf(it, s)
	switch connector {
	case "file":
		b.fileSource(it, s)
	case "stdin":
		s.Format = o.textOr("format", "lines")
	case "tcp":
		s.Format = o.textOr("format", "lines")
		s.TCP = &operators.TCPSource{Address: o.text("address")}
		it.endless = true
		if _, port, err := net.SplitHostPort(s.TCP.Address); s.TCP.Address != "" && (err != nil || port == "") {
			b.problem(o.node.Line, join(it.path, "address"), fmt.Sprintf("%q is no address, expected host:port", clip(s.TCP.Address)), "")
		}
	case "generator":
		b.generator(it, s)
	}
	if connector == "stdin" || connector == "tcp" {
		it.node.Parallelism = 1
	}
	b.sourceFields(it, s)
	b.checkTime(it, s)
}

func (b *builder) fileSource(it *item, s *operators.SourceNode) {
	o := it.obj
	f := &operators.FileSource{Dir: b.opts.Dir, Paths: append(o.strings("path"), o.strings("paths")...), Follow: o.truth("follow")}
	s.File, it.endless = f, f.Follow
	for _, p := range f.Paths {
		b.confine(o.node.Line, join(it.path, "path"), p)
		if _, err := filepath.Match(p, ""); err != nil {
			b.problem(o.node.Line, join(it.path, "path"), fmt.Sprintf("%q is no glob: %v", clip(p), err), "")
		}
	}
	s.Format = o.text("format")
	if s.Format == "" && len(f.Paths) > 0 {
		s.Format = "ndjson"
		switch filepath.Ext(f.Paths[0]) {
		case ".parquet":
			s.Format = "parquet"
		case ".csv":
			s.Format = "csv"
		}
	}
	if f.Follow && s.Format != "ndjson" && s.Format != "lines" {
		b.problem(o.node.Line, join(it.path, "follow"), fmt.Sprintf("a file of format %s can't be followed, only lines", s.Format), "")
	}
}

// sourceFields checks format, fields and time against each other.
func (b *builder) sourceFields(it *item, s *operators.SourceNode) {
	line := it.node.Line
	switch s.Format {
	case "parquet", "csv":
		if len(s.Fields) == 0 && !it.obj.bad["fields"] {
			b.problem(line, it.path, fmt.Sprintf("format %s needs fields: the columns to read, with their types", s.Format), "fields: {name: string}")
		}
	case "lines", "binary":
		if len(s.Fields) > 0 {
			b.problem(line, join(it.path, "fields"), fmt.Sprintf("format %s has no fields", s.Format), "format: ndjson")
		}
		if t := s.Time; t != nil && t.Source == operators.TimeFromField && (t.Field != "" || s.Format == "lines") {
			b.problem(line, join(it.path, "time"), fmt.Sprintf("format %s has no fields to take the time from", s.Format), "format: ndjson")
		}
	}
	if s.Format == "binary" && s.Time == nil { // the frames carry it
		s.Time = &operators.TimeSettings{Quantum: operators.DefaultQuantum, MaxFutureSkew: operators.DefaultFutureSkew}
	}
	if s.Time == nil || s.Time.Field == "" || len(s.Fields) == 0 {
		return
	}
	i := format.FieldIndex(s.Fields, s.Time.Field)
	if i < 0 {
		b.problem(line, join(it.path, "time.field"), fmt.Sprintf("%q is none of the fields %s", clip(s.Time.Field), oneOf(fieldNames(s.Fields))), nearest(s.Time.Field, fieldNames(s.Fields)))
		return
	}
	if t := s.Fields[i].Type; t == abi.TypeBool || t == abi.TypeBytes {
		b.problem(line, join(it.path, "time.field"), fmt.Sprintf("field %q is a %s, expected timestamp, int64, float64 or string", s.Time.Field, t), "")
	}
}

func (b *builder) generator(it *item, s *operators.SourceNode) {
	o := it.obj
	g := &operators.GeneratorSpec{Kind: o.text("kind"), Records: o.integer("records", 0), Rate: o.number("rate"),
		Keys: o.integer("keys", 1000), ValueBytes: int(o.integer("value_bytes", 80)), Seed: uint64(o.integer("seed", 0)),
		StepMS: o.duration("step", time.Millisecond).Milliseconds(), StartMS: o.integer("start", 0), Splits: int(o.integer("splits", 0))}
	s.Generator, it.endless = g, g.Records == 0
	s.Format = o.textOr("format", "rows")
	s.Time = &operators.TimeSettings{Unit: "ms", OutOfOrderness: o.duration("out_of_orderness", 0), Quantum: operators.DefaultQuantum}
	if g.StepMS > 0 && g.Records > (1<<62)/g.StepMS {
		b.problem(o.node.Line, join(it.path, "step"), "the last record's event time is beyond 64 bits", "")
	}
	if g.Kind != generator.Payments {
		s.NaturalKey = true
		it.node.Keyed = true
		return
	}
	if s.Format == "rows" {
		s.Fields = generator.PaymentFields
		it.node.Schema = s.Fields
	}
}

func (b *builder) keyBy(it *item) {
	k := &operators.KeyByNode{ID: it.node.ID}
	it.node.Kind, it.node.KeyBy, it.node.Keyed = operators.NodeKeyBy, k, true
	n := it.obj.fields["key_by"]
	switch {
	case n == nil:
		return
	case n.Kind != yaml.MappingNode:
		k.Fields = it.obj.strings("key_by")
	default:
		o := it.obj.sub("key_by")
		k.Fields, k.Whole = o.strings("fields"), o.truth("whole")
		k.Null = b.policyOf(it, o, "null")
		if o.fields["whole"] != nil && !k.Whole {
			b.problem(n.Line, join(o.path, "whole"), "false leaves no key", "name fields")
		}
	}
}

func (b *builder) sink(it *item, connector string) {
	o := it.obj
	s := &operators.SinkNode{Connector: connector, Dir: b.opts.Dir, Path: o.text("path"), Format: "ndjson",
		Envelope: o.truth("envelope"), Provenance: o.truth("provenance"), PartBytes: o.size("part_size", 0)}
	it.node.Kind, it.node.Sink = operators.NodeSink, s
	if connector == "file" && s.Path != "" {
		s.Single = !strings.HasSuffix(s.Path, "/")
		b.confine(o.node.Line, join(it.path, "path"), s.Path)
		if s.Single {
			if it.explicit && it.node.Parallelism > 1 {
				b.problem(o.node.Line, join(it.path, "parallelism"), "a single file is written by one task", "give a folder: path: "+s.Path+"/")
			}
			it.node.Parallelism = 1
		}
	}
}

// policy reads an error policy and notes where its dead letters go.
func (b *builder) policy(it *item, name string) operators.ErrorPolicy {
	return b.policyOf(it, it.obj, name)
}

func (b *builder) policyOf(it *item, o *object, name string) (p operators.ErrorPolicy) {
	n := o.fields[name]
	if n == nil {
		return p
	}
	path := ""
	if n.Kind == yaml.MappingNode {
		po := o.sub(name)
		p.Policy, path = po.text("policy"), po.text("path")
	} else {
		p.Policy = n.Value
	}
	switch {
	case p.Policy == operators.PolicyDeadLetter:
		if path == "" {
			path = "dead-letters/" + it.node.ID + "/"
		}
		b.confine(n.Line, join(o.path, name), path)
		it.dead, it.deadLine = path, n.Line
	case path != "":
		b.problem(n.Line, join(o.path, name), fmt.Sprintf("the policy %s writes no dead letters, so path has no use", p.Policy), "policy: dead_letter")
	}
	return p
}

// confine refuses paths outside the pipeline's folder where Options ask for it.
func (b *builder) confine(line int, path, p string) {
	if b.opts.Confine && !filepath.IsLocal(p) {
		b.problem(line, path, fmt.Sprintf("%q is outside the pipeline's folder", clip(p)), "")
	}
}

func (b *builder) guest(it *item, kind string) {
	o := it.obj
	g := &operators.GuestNode{Kind: abi.FunctionKind(kind), OnError: b.policy(it, "on_error"), Clock: operators.TimeEvent,
		Memory: abi.DefaultMemoryBytes, Fuel: abi.FuelPerRecord}
	it.node.Kind, it.node.Guest = operators.NodeGuest, g
	if g.OnError.Policy == "" {
		g.OnError.Policy = operators.PolicyStop
	}
	c := o.sub(kind)
	if c == nil {
		return
	}
	b.guestSettings(g, c)
	g.DropOld, g.TTL = c.strings("drop_states"), ttlList(c.fields["state_ttl"])
}

func describeOf(d *object, g *operators.GuestNode) *abi.Descriptor {
	f := abi.Function{Name: g.Function, Kind: g.Kind, Keyed: d.truth("keyed"), Input: fieldList(d.fields["input"]),
		Output: fieldList(d.fields["output"]), Outputs: d.strings("outputs"), Timers: d.strings("timers")}
	if n := d.fields["states"]; n != nil {
		for _, c := range n.Content {
			s := objectOf(c, "")
			f.States = append(f.States, abi.StateDescriptor{Name: s.text("name"), Kind: abi.StateKind(s.text("kind")),
				Version: int(s.integer("version", 0)), MaxBytes: int(s.integer("max_bytes", 0))})
		}
	}
	return &abi.Descriptor{ABI: abi.Version, Functions: []abi.Function{f}}
}

func fieldNames(fs []abi.Field) (names []string) {
	for _, f := range fs {
		names = append(names, f.Name)
	}
	return names
}
