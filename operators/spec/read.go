package spec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/millrace-io/millrace/abi"
)

// reader checks a YAML tree against the table and collects problems.
type reader struct {
	file     string
	problems Problems
}

func (r *reader) problem(line int, path, message, hint string) {
	if len(r.problems) < 1000 {
		r.problems = append(r.problems, Problem{r.file, line, path, message, hint})
	}
}

// object is a checked mapping: the fields that are right. Wrong ones have been reported and are not in.
type object struct {
	node   *yaml.Node
	path   string
	fields map[string]*yaml.Node
	bad    map[string]bool // there, but wrong
}

var yamlLine = regexp.MustCompile(`line (\d+): `)

// root parses text into its top mapping; nil after a problem.
func (r *reader) root(text []byte) *yaml.Node {
	if len(text) > maxBytes {
		r.problem(0, "", fmt.Sprintf("the file has %d bytes, at most %d are read", len(text), maxBytes), "")
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			r.problem(1, "", "the file is empty, expected name and operators", "")
			return nil
		}
		msg, line := strings.TrimPrefix(err.Error(), "yaml: "), 1
		if m := yamlLine.FindStringSubmatch(msg); m != nil {
			line, _ = strconv.Atoi(m[1])
			msg = strings.Replace(msg, m[0], "", 1)
		}
		r.problem(line, "", "not YAML: "+msg, "")
		return nil
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		r.problem(1, "", "more than one YAML document, expected one", "remove the line `---`")
		return nil
	}
	if len(doc.Content) != 1 || !r.plain(doc.Content[0], 1) {
		return nil
	}
	return doc.Content[0]
}

// plain refuses what a pipeline file has no use for: anchors, aliases, own tags, deep nesting.
func (r *reader) plain(n *yaml.Node, depth int) bool {
	switch {
	case depth > maxDepth:
		r.problem(n.Line, "", fmt.Sprintf("nested deeper than %d levels", maxDepth), "")
		return false
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		r.problem(n.Line, "", "anchors and aliases are not allowed", "write the value out")
		return false
	case n.Style&yaml.TaggedStyle != 0:
		r.problem(n.Line, "", fmt.Sprintf("the tag %s is not allowed", clip(n.Tag)), "remove it")
		return false
	}
	ok := true
	for _, c := range n.Content {
		ok = r.plain(c, depth+1) && ok
	}
	return ok
}

// mapping checks that n is a mapping with distinct text keys.
func (r *reader) mapping(n *yaml.Node, path string) (keys, values []*yaml.Node, ok bool) {
	if n.Kind != yaml.MappingNode {
		r.problem(n.Line, path, "expected fields with values, got "+describe(n), "")
		return nil, nil, false
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if k.Kind != yaml.ScalarNode || k.Tag == "!!merge" {
			r.problem(k.Line, path, "a field's name must be text", "")
			continue
		}
		if at, dup := seen[k.Value]; dup {
			r.problem(k.Line, path, fmt.Sprintf("field %q is there twice, first in line %d", clip(k.Value), at), "")
			continue
		}
		seen[k.Value] = k.Line
		keys, values = append(keys, k), append(values, n.Content[i+1])
	}
	return keys, values, true
}

// object checks n against s.
func (r *reader) object(n *yaml.Node, s *shape, path string) *object {
	o := &object{node: n, path: path, fields: map[string]*yaml.Node{}, bad: map[string]bool{}}
	keys, values, ok := r.mapping(n, path)
	if !ok {
		return nil
	}
	for i, k := range keys {
		f := s.field(k.Value)
		if f == nil {
			r.problem(k.Line, path, fmt.Sprintf("unknown field %q, expected one of %s", clip(k.Value), oneOf(s.names())), nearest(k.Value, s.names()))
			continue
		}
		if r.value(values[i], f, join(path, f.name)) {
			o.fields[f.name] = values[i]
		} else {
			o.bad[f.name] = true
		}
	}
	for _, f := range s.fields {
		if f.required && o.fields[f.name] == nil && !o.bad[f.name] {
			r.problem(n.Line, path, fmt.Sprintf("the field %q is missing", f.name), f.doc)
		}
	}
	for _, group := range s.either {
		r.either(o, group)
	}
	return o
}

func (r *reader) either(o *object, group []string) {
	var have []string
	for _, g := range group {
		if o.fields[g] != nil || o.bad[g] {
			have = append(have, g)
		}
	}
	if len(have) != 1 {
		r.problem(o.node.Line, o.path, fmt.Sprintf("expected exactly one of the fields %s", strings.Join(group, ", ")), "")
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// value checks one value; false after a problem.
func (r *reader) value(n *yaml.Node, f *field, path string) bool {
	before := len(r.problems)
	switch f.kind {
	case kindObject:
		return r.object(n, f.object, path) != nil && len(r.problems) == before
	case kindList:
		return r.each(n, path, func(c *yaml.Node, p string) { r.object(c, f.object, p) })
	case kindOperators:
		if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
			r.problem(n.Line, path, "expected a list of operators, got "+describe(n), "each begins with `- id:`")
			return false
		}
		return true // the parser takes each apart
	case kindStrings, kindRefs:
		one := field{name: f.name, kind: kindString}
		if f.kind == kindRefs {
			one.kind = kindRef
		}
		if n.Kind == yaml.SequenceNode {
			return r.each(n, path, func(c *yaml.Node, p string) { r.scalar(c, &one, p) })
		}
		return r.scalar(n, &one, path)
	case kindFields:
		return r.fieldMap(n, path)
	case kindPolicy:
		if n.Kind == yaml.MappingNode {
			return r.object(n, policyShape, path) != nil && len(r.problems) == before
		}
		return r.scalar(n, &field{name: f.name, kind: kindEnum, enum: policies}, path)
	case kindAggregates:
		return r.aggregates(n, path)
	case kindTTLs:
		return r.ttls(n, path)
	case kindTextOr:
		if n.Kind == yaml.MappingNode {
			return r.object(n, f.object, path) != nil && len(r.problems) == before
		}
		return r.scalar(n, &field{name: f.name, kind: kindString}, path)
	case kindKey:
		if n.Kind == yaml.MappingNode {
			return r.object(n, keyShape, path) != nil && len(r.problems) == before
		}
		return r.value(n, &field{name: f.name, kind: kindStrings}, path)
	}
	return r.scalar(n, f, path)
}

// each checks the entries of a non-empty list.
func (r *reader) each(n *yaml.Node, path string, check func(*yaml.Node, string)) bool {
	before := len(r.problems)
	if n.Kind != yaml.SequenceNode {
		r.problem(n.Line, path, "expected a list, got "+describe(n), "")
		return false
	}
	if len(n.Content) == 0 {
		r.problem(n.Line, path, "the list is empty", "")
	}
	for i, c := range n.Content {
		check(c, fmt.Sprintf("%s[%d]", path, i))
	}
	return len(r.problems) == before
}

func (r *reader) fieldMap(n *yaml.Node, path string) bool {
	before := len(r.problems)
	keys, values, ok := r.mapping(n, path)
	if ok && len(keys) == 0 {
		r.problem(n.Line, path, "expected names with types, like {origin: string}", "")
	}
	for i, k := range keys {
		if k.Value == "" {
			r.problem(k.Line, path, "a field's name is empty", "")
		}
		r.scalar(values[i], &field{name: k.Value, kind: kindEnum, enum: fieldTypes}, join(path, clip(k.Value)))
	}
	return len(r.problems) == before
}

// scalar checks a single value.
func (r *reader) scalar(n *yaml.Node, f *field, path string) bool {
	want := map[kind]string{kindInt: "a whole number", kindNumber: "a number", kindBool: "true or false"}[f.kind]
	if want == "" {
		want = "text"
	}
	wrong := func(format string, args ...any) bool {
		r.problem(n.Line, path, fmt.Sprintf(format, args...), "")
		return false
	}
	if n.Kind != yaml.ScalarNode {
		return wrong("expected %s, got %s", want, describe(n))
	}
	switch f.kind {
	case kindInt:
		return r.integer(n, f, path)
	case kindSpan:
		if n.Tag == "!!int" {
			return r.integer(n, &field{kind: kindInt, min: 1, max: 1 << 50}, path)
		}
	case kindNumber:
		v, err := strconv.ParseFloat(n.Value, 64)
		if n.Tag != "!!int" && n.Tag != "!!float" || err != nil || v < 0 || math.IsInf(v, 0) || math.IsNaN(v) {
			return wrong("expected a number from 0 on, got %s", describe(n))
		}
		return true
	case kindBool:
		if n.Tag != "!!bool" {
			return wrong("expected true or false, got %s", describe(n))
		}
		return true
	}
	if n.Tag != "!!str" {
		hint := "put it in quotes"
		if n.Tag == "!!null" {
			hint = ""
		}
		if like := map[kind]string{kindDuration: "5s", kindDurationOff: "5m", kindDurationOr: "5s", kindOffset: "-3h", kindSize: "512MiB"}[f.kind]; like != "" {
			hint = "add a unit, like " + like
		}
		r.problem(n.Line, path, "expected text, got "+describe(n), hint)
		return false
	}
	return r.text(n, f, path)
}

func (r *reader) integer(n *yaml.Node, f *field, path string) bool {
	v, err := strconv.ParseInt(n.Value, 10, 64)
	if n.Tag != "!!int" || err != nil {
		r.problem(n.Line, path, "expected a whole number, got "+describe(n), "")
		return false
	}
	if (f.min != 0 || f.max != 0) && (v < f.min || v > f.max) {
		r.problem(n.Line, path, fmt.Sprintf("%d is out of range, expected %d to %d", v, f.min, f.max), "")
		return false
	}
	return true
}

func (r *reader) text(n *yaml.Node, f *field, path string) bool {
	var err error
	hint := ""
	switch f.kind {
	case kindString:
		if n.Value == "" {
			err = errors.New("the text is empty")
		} else if strings.ContainsRune(n.Value, 0) {
			err = errors.New("the text has a NUL byte")
		}
	case kindID:
		if !idForm.MatchString(n.Value) {
			err = fmt.Errorf("%q is no name, expected letters, digits, - and _, at most 100", clip(n.Value))
		}
	case kindRef:
		if !refForm.MatchString(n.Value) {
			err = fmt.Errorf("%q names no operator, expected `operator` or `operator.output`", clip(n.Value))
		}
	case kindDuration:
		_, err = ParseDuration(n.Value)
	case kindDurationOff:
		if n.Value != "off" {
			_, err = ParseDuration(n.Value)
		}
	case kindDurationOr:
		if !slices.Contains(f.enum, n.Value) {
			_, err = ParseDuration(n.Value)
		}
	case kindOffset:
		_, err = ParseDuration(strings.TrimPrefix(n.Value, "-"))
	case kindSpan:
		_, err = ParseDuration(n.Value)
	case kindSize:
		_, err = ParseSize(n.Value)
	case kindEnum, kindConst:
		if !slices.Contains(f.enum, n.Value) {
			err = fmt.Errorf("%q is not allowed, expected one of %s", clip(n.Value), oneOf(f.enum))
			hint = nearest(n.Value, f.enum)
		}
	}
	if err != nil {
		r.problem(n.Line, path, err.Error(), hint)
		return false
	}
	return true
}

func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "fields"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.Tag {
	case "!!null":
		return "nothing"
	case "!!str":
		return strconv.Quote(clip(n.Value))
	}
	return clip(n.Value)
}

func clip(s string) string {
	if len(s) > 60 {
		return strings.ToValidUTF8(s[:60], "") + "..."
	}
	return s
}

// fieldList reads a checked kindFields value.
func fieldList(n *yaml.Node) (fs []abi.Field) {
	if n == nil {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		fs = append(fs, abi.Field{Name: n.Content[i].Value, Type: abi.FieldType(n.Content[i+1].Value)})
	}
	return fs
}
