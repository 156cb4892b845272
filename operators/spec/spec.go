package spec

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
)

// Modules tells what modules offer. The engine is behind it; lint works without.
type Modules interface {
	// ModuleInfo describes the module at path: its descriptor, nil if it has none, and the SHA-256 of the
	// file, hex.
	ModuleInfo(path string) (d *abi.Descriptor, digest string, err error)
}

// Options of Parse.
type Options struct {
	// Dir is the folder that paths in the file are relative to; "": that of the file.
	Dir string
	// Modules resolves functions. Nil: what depends on modules is not checked, and the graph can't run.
	Modules Modules
	// Confine refuses paths outside Dir: for pipelines of others.
	Confine bool
}

// Load reads the pipeline file at path.
func Load(path string, o Options) (*operators.Graph, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("pipeline file: %w", err)
	}
	if !st.Mode().IsRegular() {
		return nil, Problems{{File: path, Message: "is not a regular file"}}
	}
	if st.Size() > maxBytes {
		return nil, Problems{{File: path, Message: fmt.Sprintf("has %d bytes, at most %d are read", st.Size(), maxBytes)}}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("pipeline file: %w", err)
	}
	return Parse(path, text, o)
}

// Parse checks the text of a pipeline file and makes its graph. name is for messages. The error is
// Problems: everything that is wrong.
func Parse(name string, text []byte, o Options) (*operators.Graph, error) {
	if o.Dir == "" {
		o.Dir = filepath.Dir(name)
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("pipeline folder: %w", err)
	}
	o.Dir = dir
	b := &builder{reader: reader{file: name}, opts: o}
	g := b.graph(text)
	if len(b.problems) > 0 {
		return nil, b.problems.sorted()
	}
	return g, nil
}

// builder makes a graph of a checked file.
type builder struct {
	reader
	opts  Options
	g     *operators.Graph
	items []*item
	byID  map[string]*item
	mods  map[string]*moduleInfo
}

// item is an operator being built.
type item struct {
	node     *operators.Node
	obj      *object
	path     string
	refs     []ref
	dead     string // path for dead letters; "": none
	deadLine int
	reads    int  // edges that read its outputs
	main     int  // of them, the main output
	known    bool // the schema of its main output is known
	endless  bool // has no end
	// inputKnown: of a window, the schema of its late records is known
	inputKnown bool
	explicit   bool          // parallelism given
	functions  []functionRef // of a window
}

// ref is a reference to an operator's output.
type ref struct {
	line   int
	id     string
	output string
}

const (
	defaultMemory = 512 << 20
	defaultLinger = 5 * time.Millisecond
)

func (b *builder) graph(text []byte) *operators.Graph {
	root := b.root(text)
	if root == nil {
		return nil
	}
	o := b.object(root, top, "")
	if o == nil {
		return nil
	}
	g := &operators.Graph{Name: o.text("name"), File: b.file, Text: text, MemoryBytes: o.size("memory", defaultMemory),
		StateKind: o.textOr("state", "disk"), Linger: o.duration("linger", defaultLinger)}
	b.g, b.byID, b.mods = g, map[string]*item{}, map[string]*moduleInfo{}
	list := o.fields["operators"]
	if list == nil {
		return nil
	}
	if len(list.Content) > maxOperators {
		b.problem(list.Line, "operators", fmt.Sprintf("%d operators, at most %d are allowed", len(list.Content), maxOperators), "")
		return nil
	}
	for i, n := range list.Content {
		b.operator(n, fmt.Sprintf("operators[%d]", i), int(o.integer("parallelism", 1)))
	}
	b.mode(o)
	b.link()
	return g
}

// operator builds one entry of the list.
func (b *builder) operator(n *yaml.Node, path string, parallelism int) {
	v := b.variant(n, path)
	if v == nil {
		return
	}
	o := b.object(n, v.shape, path)
	if o == nil {
		return
	}
	id := o.text("id")
	if id == "" {
		return
	}
	if other := b.byID[id]; other != nil {
		b.problem(n.Line, path, fmt.Sprintf("the id %q is taken, first in line %d", id, other.node.Line), "")
		return
	}
	it := &item{obj: o, path: path, explicit: o.fields["parallelism"] != nil}
	it.node = &operators.Node{ID: id, Line: n.Line, Parallelism: int(o.integer("parallelism", int64(parallelism)))}
	it.refs = o.refs("from")
	b.byID[id] = it
	b.items = append(b.items, it)
	switch v.by {
	case "source":
		b.source(it, v.value)
	case "key_by":
		b.keyBy(it)
	case "union":
		it.node.Kind = operators.NodeUnion
		it.refs = o.refs("union")
	case "window":
		b.window(it)
	case "sink":
		b.sink(it, v.value)
	default:
		b.guest(it, v.by)
	}
}

// variant finds which form of operator n is.
func (b *builder) variant(n *yaml.Node, path string) *variant {
	keys, values, ok := b.mapping(n, path)
	if !ok {
		return nil
	}
	names := discriminators()
	var by, value []*yaml.Node
	for i, k := range keys {
		for _, d := range names {
			if k.Value == d {
				by, value = append(by, k), append(value, values[i])
			}
		}
	}
	switch {
	case len(by) == 0:
		hint := ""
		for _, k := range keys {
			if hint == "" && k.Value != "id" {
				hint = nearest(k.Value, names)
			}
		}
		b.problem(n.Line, path, "an operator needs one of the fields "+oneOf(names), hint)
		return nil
	case len(by) == 2 && by[0].Value == "window" && by[1].Value == "process":
		by, value = by[:1], value[:1] // a window's own function
	case len(by) == 2 && by[1].Value == "window" && by[0].Value == "process":
		by, value = by[1:], value[1:]
	case len(by) > 1:
		b.problem(by[1].Line, path, fmt.Sprintf("an operator has one kind, this one has %s and %s", by[0].Value, by[1].Value), "make two operators of it")
		return nil
	}
	var known []string
	for i := range variants {
		v := &variants[i]
		if v.by != by[0].Value {
			continue
		}
		if v.value == "" || value[0].Kind == yaml.ScalarNode && v.value == value[0].Value {
			return v
		}
		known = append(known, v.value)
	}
	b.problem(value[0].Line, join(path, by[0].Value), fmt.Sprintf("unknown %s %s, expected one of %s", by[0].Value, describe(value[0]), oneOf(known)), nearest(value[0].Value, known))
	return nil
}

// Getters of checked fields; a field that is missing or was wrong gives the default.

func (o *object) textOr(name, or string) string {
	if n := o.fields[name]; n != nil {
		return n.Value
	}
	return or
}

func (o *object) text(name string) string { return o.textOr(name, "") }

func (o *object) integer(name string, or int64) int64 {
	if n := o.fields[name]; n != nil {
		v, _ := strconv.ParseInt(n.Value, 10, 64) // checked
		return v
	}
	return or
}

func (o *object) number(name string) float64 {
	if n := o.fields[name]; n != nil {
		v, _ := strconv.ParseFloat(n.Value, 64) // checked
		return v
	}
	return 0
}

func (o *object) truth(name string) bool {
	n := o.fields[name]
	if n == nil {
		return false
	}
	v, _ := strconv.ParseBool(n.Value)
	return v
}

func (o *object) duration(name string, or time.Duration) time.Duration {
	if n := o.fields[name]; n != nil {
		d, _ := ParseDuration(n.Value) // checked
		return d
	}
	return or
}

func (o *object) size(name string, or int64) int64 {
	if n := o.fields[name]; n != nil {
		v, _ := ParseSize(n.Value) // checked
		return v
	}
	return or
}

func (o *object) strings(name string) []string {
	n := o.fields[name]
	if n == nil {
		return nil
	}
	if n.Kind == yaml.ScalarNode {
		return []string{n.Value}
	}
	var list []string
	for _, c := range n.Content {
		list = append(list, c.Value)
	}
	return list
}

func (o *object) refs(name string) (rs []ref) {
	n := o.fields[name]
	if n == nil {
		return nil
	}
	list := n.Content
	if n.Kind == yaml.ScalarNode {
		list = []*yaml.Node{n}
	}
	for _, c := range list {
		rs = append(rs, parseRef(c.Value, c.Line))
	}
	return rs
}

// sub is the checked object under name; nil if it is not there.
func (o *object) sub(name string) *object {
	n := o.fields[name]
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	return objectOf(n, join(o.path, name))
}

// objectOf is the object of a mapping that has been checked already.
func objectOf(n *yaml.Node, path string) *object {
	s := &object{node: n, path: path, fields: map[string]*yaml.Node{}}
	for i := 0; i+1 < len(n.Content); i += 2 {
		s.fields[n.Content[i].Value] = n.Content[i+1]
	}
	return s
}
