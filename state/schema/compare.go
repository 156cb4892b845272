package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/hamba/avro/v2"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/millrace-io/millrace/abi"
)

// Change is how a schema differs from an older one.
type Change int

// Changes, from harmless to impossible.
const (
	Same         Change = iota
	Additive            // values of the old one are values of the new one as they are
	Convertible         // the host can rewrite old values: Converter
	Incompatible        // only the author knows what becomes of old values
)

func (c Change) String() string {
	return [...]string{"same", "additive", "convertible", "incompatible"}[c]
}

// Compare says how values of an old schema fare under a new one, and why. Nil is undescribed: nothing is
// known then, and nothing said.
func Compare(old, now *abi.Schema) (Change, string) {
	switch {
	case old == nil && now == nil:
		return Same, ""
	case old == nil:
		return Same, "it was not described before"
	case now == nil:
		return Same, "it is not described any more"
	case old.Type != now.Type:
		return typeChange(old, now)
	}
	switch old.Type {
	case abi.SchemaRow:
		return compareRows(old, now)
	case abi.SchemaAvro:
		return compareAvro(old, now)
	case abi.SchemaProtobuf:
		return compareMessages(old, now)
	case abi.SchemaStruct, abi.SchemaArray, abi.SchemaBytes:
		if diff := fixedDifference(old, now, ""); diff != "" {
			return Incompatible, diff
		}
	}
	return Same, "" // windows: their version says what their definition means
}

// typeChange: bytes hold anything, and text holds JSON.
func typeChange(old, now *abi.Schema) (Change, string) {
	reason := fmt.Sprintf("the type was %s, is %s", old.Type, now.Type)
	anySize := now.Type == abi.SchemaBytes && now.Size == 0
	if anySize || old.Type == abi.SchemaJSON && now.Type == abi.SchemaUTF8 {
		return Additive, reason
	}
	return Incompatible, reason
}

// fixedDifference says where two layouts of bytes part; "": nowhere.
func fixedDifference(old, now *abi.Schema, path string) string {
	at := func(what string, args ...any) string {
		s := fmt.Sprintf(what, args...)
		if path != "" {
			return "field " + path + ": " + s
		}
		return s
	}
	switch {
	case old.Type != now.Type:
		return at("the type was %s, is %s", old.Type, now.Type)
	case old.Size != now.Size:
		return at("the size was %d, is %d", old.Size, now.Size)
	case len(old.Fields) != len(now.Fields):
		return at("there were %d fields, are %d: a struct has no room for more or less", len(old.Fields), len(now.Fields))
	case (old.Items == nil) != (now.Items == nil):
		return at("items came or went")
	}
	for i := range old.Fields {
		o, n := &old.Fields[i], &now.Fields[i]
		if o.Name != n.Name {
			return at("field %d was %s, is %s", i, o.Name, n.Name)
		}
		if d := fixedDifference(&o.Schema, &n.Schema, strings.TrimPrefix(path+"."+o.Name, ".")); d != "" {
			return d
		}
	}
	if old.Items != nil {
		return fixedDifference(old.Items, now.Items, path+"[]")
	}
	return ""
}

// compareRows: columns may be added and reordered; the host writes old rows anew.
func compareRows(old, now *abi.Schema) (Change, string) {
	var added, problems []string
	moved := len(old.Fields) != len(now.Fields)
	for i, n := range now.Fields {
		j := slices.IndexFunc(old.Fields, func(o abi.SchemaField) bool { return o.Name == n.Name })
		switch {
		case j < 0:
			added = append(added, n.Name)
			if err := checkDefault(&now.Fields[i]); err != nil {
				problems = append(problems, err.Error())
			}
		case old.Fields[j].Type != n.Type:
			problems = append(problems, fmt.Sprintf("column %s was %s, is %s", n.Name, old.Fields[j].Type, n.Type))
		case j != i:
			moved = true
		}
	}
	for _, o := range old.Fields {
		if !slices.ContainsFunc(now.Fields, func(n abi.SchemaField) bool { return n.Name == o.Name }) {
			problems = append(problems, "column "+o.Name+" is gone")
		}
	}
	switch {
	case len(problems) > 0:
		return Incompatible, strings.Join(problems, ", ")
	case len(added) > 0:
		return Convertible, "new columns " + strings.Join(added, ", ")
	case moved:
		return Convertible, "the columns come in another order"
	}
	return Same, ""
}

// checkDefault says whether a column's default is one of its type.
func checkDefault(f *abi.SchemaField) error {
	if f.Default == nil {
		return nil
	}
	var b abi.RowBuilder
	b.Reset(1)
	if string(bytes.TrimSpace(f.Default)) == "null" {
		return nil
	}
	if err := setColumn(&b, 0, abi.FieldType(f.Type), f.Default); err != nil {
		return fmt.Errorf("default of column %s: %w", f.Name, err)
	}
	return nil
}

// compareAvro goes by Avro's schema resolution, with the new schema as the reader's.
func compareAvro(old, now *abi.Schema) (Change, string) {
	w, err := parseAvro(old)
	if err != nil {
		return Incompatible, "old " + err.Error()
	}
	r, err := parseAvro(now)
	if err != nil {
		return Incompatible, "new " + err.Error()
	}
	if w.Fingerprint() == r.Fingerprint() && sameJSON(old.Avro, now.Avro) {
		return Same, ""
	}
	if err := avro.NewSchemaCompatibility().Compatible(r, w); err != nil {
		return Incompatible, err.Error()
	}
	if w.Fingerprint() == r.Fingerprint() { // defaults and documentation only
		return Additive, "the encoding is the same"
	}
	return Convertible, "resolved by Avro's rules"
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// compareMessages goes by field numbers: what a number meant it has to mean.
func compareMessages(old, now *abi.Schema) (Change, string) {
	o, _, err := descriptorOf(old)
	if err != nil {
		return Incompatible, "old " + err.Error()
	}
	n, _, err := descriptorOf(now)
	if err != nil {
		return Incompatible, "new " + err.Error()
	}
	c := messageComparison{seen: map[[2]protoreflect.FullName]bool{}}
	c.compare(o, n)
	switch {
	case len(c.problems) > 0:
		return Incompatible, strings.Join(c.problems, ", ")
	case len(c.notes) > 0:
		return Additive, strings.Join(c.notes, ", ")
	}
	return Same, ""
}

type messageComparison struct {
	seen            map[[2]protoreflect.FullName]bool
	problems, notes []string
}

func (c *messageComparison) compare(o, n protoreflect.MessageDescriptor) {
	pair := [2]protoreflect.FullName{o.FullName(), n.FullName()}
	if c.seen[pair] {
		return
	}
	c.seen[pair] = true
	for i := range o.Fields().Len() {
		of := o.Fields().Get(i)
		nf := n.Fields().ByNumber(of.Number())
		where := fmt.Sprintf("field %d of %s", of.Number(), n.FullName())
		if nf == nil {
			switch {
			case of.Cardinality() == protoreflect.Required:
				c.problems = append(c.problems, fmt.Sprintf("%s (%s) was required and is gone", where, of.Name()))
			case n.Fields().ByName(of.Name()) != nil:
				c.problems = append(c.problems, fmt.Sprintf("%s (%s) has another number now", where, of.Name()))
			case !n.ReservedRanges().Has(of.Number()):
				c.notes = append(c.notes, fmt.Sprintf("%s (%s) is gone and its number not reserved", where, of.Name()))
			default:
				c.notes = append(c.notes, fmt.Sprintf("%s (%s) is gone", where, of.Name()))
			}
			continue
		}
		c.field(where, of, nf)
	}
	for i := range n.Fields().Len() {
		nf := n.Fields().Get(i)
		if o.Fields().ByNumber(nf.Number()) != nil {
			continue
		}
		if nf.Cardinality() == protoreflect.Required {
			c.problems = append(c.problems, fmt.Sprintf("field %d of %s (%s) is new and required", nf.Number(), n.FullName(), nf.Name()))
			continue
		}
		if o.ReservedRanges().Has(nf.Number()) {
			c.problems = append(c.problems, fmt.Sprintf("field %d of %s (%s) takes a reserved number", nf.Number(), n.FullName(), nf.Name()))
			continue
		}
		c.notes = append(c.notes, fmt.Sprintf("new field %s of %s", nf.Name(), n.FullName()))
	}
}

func (c *messageComparison) field(where string, o, n protoreflect.FieldDescriptor) {
	if wireClass(o.Kind()) != wireClass(n.Kind()) || narrows(o.Kind(), n.Kind()) {
		c.problems = append(c.problems, fmt.Sprintf("%s (%s) was %s, is %s", where, n.Name(), o.Kind(), n.Kind()))
		return
	}
	if o.IsList() != n.IsList() || o.IsMap() != n.IsMap() {
		c.problems = append(c.problems, fmt.Sprintf("%s (%s) was %s, is %s", where, n.Name(), shape(o), shape(n)))
		return
	}
	if o.Kind() != n.Kind() {
		c.notes = append(c.notes, fmt.Sprintf("%s (%s) was %s, is %s", where, n.Name(), o.Kind(), n.Kind()))
	} else if o.Name() != n.Name() {
		c.notes = append(c.notes, fmt.Sprintf("%s was %s, is %s", where, o.Name(), n.Name()))
	}
	if o.Message() != nil && n.Message() != nil {
		c.compare(o.Message(), n.Message())
	}
}

// narrows says that some values of the old kind are none of the new one.
func narrows(o, n protoreflect.Kind) bool {
	if o == protoreflect.BytesKind && n == protoreflect.StringKind {
		return true
	}
	return o != n && kindBits(n) < kindBits(o)
}

// kindBits is how many bits a varint's kind keeps.
func kindBits(k protoreflect.Kind) int {
	switch k {
	case protoreflect.BoolKind:
		return 1
	case protoreflect.Int32Kind, protoreflect.Uint32Kind, protoreflect.Sint32Kind, protoreflect.EnumKind:
		return 32
	}
	return 64
}

func shape(f protoreflect.FieldDescriptor) string {
	switch {
	case f.IsMap():
		return "a map"
	case f.IsList():
		return "repeated"
	}
	return "one value"
}

// wireClass groups kinds whose values can be read as each other without loss of what fits.
func wireClass(k protoreflect.Kind) string {
	switch k {
	case protoreflect.Int32Kind, protoreflect.Uint32Kind, protoreflect.Int64Kind, protoreflect.Uint64Kind, protoreflect.BoolKind, protoreflect.EnumKind:
		return "varint"
	case protoreflect.Sint32Kind, protoreflect.Sint64Kind:
		return "zigzag"
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind:
		return "fixed32"
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind:
		return "fixed64"
	case protoreflect.StringKind, protoreflect.BytesKind:
		return "bytes"
	}
	return k.String()
}
