package spec

import (
	"fmt"
	"strings"
)

// Reference is the description of pipeline files for people, in Markdown, made from the same table that the
// reader checks against.
func Reference() []byte {
	var b strings.Builder
	b.WriteString("# Pipeline files\n\nMade from the table that `millrace lint` checks against; `millrace schema` prints the same as JSON Schema.\n" +
		"Durations and sizes are strings: `5s`, `28h`, `512MiB`. A field that is not listed is refused.\n\n## The file\n\n")
	fieldTable(&b, top)
	seen := map[*shape]bool{top: true}
	b.WriteString("\n## Operators\n\nEach entry of `operators` is one of these, told by its first field.\n")
	for _, v := range variants {
		fmt.Fprintf(&b, "\n### %s\n\n%s\n\n", strings.TrimSpace(v.by+" "+v.value), v.shape.doc)
		fieldTable(&b, v.shape)
	}
	b.WriteString("\n## Objects in them\n")
	for _, v := range variants {
		objects(&b, v.shape, seen)
	}
	objects(&b, top, seen)
	return []byte(b.String())
}

// objects writes every object that a shape's fields hold, each once.
func objects(b *strings.Builder, s *shape, seen map[*shape]bool) {
	for i := range s.fields {
		f := &s.fields[i]
		o := f.object
		switch f.kind {
		case kindPolicy:
			o = policyShape
		case kindKey:
			o = keyShape
		case kindAggregates:
			o = aggregateShape
		case kindTTLs:
			o = ttlShape
		}
		if o == nil || seen[o] {
			continue
		}
		seen[o] = true
		fmt.Fprintf(b, "\n### `%s`\n\n", f.name)
		fieldTable(b, o)
		objects(b, o, seen)
	}
}

func fieldTable(b *strings.Builder, s *shape) {
	b.WriteString("| field | what it takes | |\n|---|---|---|\n")
	for i := range s.fields {
		f := &s.fields[i]
		name := "`" + f.name + "`"
		if f.required {
			name = "**" + name + "**"
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", name, takes(f), f.doc)
	}
	for _, group := range s.either {
		fmt.Fprintf(b, "\nExactly one of `%s`.\n", strings.Join(group, "`, `"))
	}
}

// takes says which values a field may have.
func takes(f *field) string {
	switch f.kind {
	case kindID, kindString:
		return "text"
	case kindRef:
		return "operator"
	case kindRefs:
		return "operator or list"
	case kindInt, kindNumber:
		if f.min != 0 || f.max != 0 {
			return fmt.Sprintf("%d to %d", f.min, f.max)
		}
		return "number"
	case kindBool:
		return "true, false"
	case kindDuration:
		return "duration"
	case kindDurationOff:
		return "duration or off"
	case kindDurationOr:
		return "duration, " + strings.Join(f.enum, ", ")
	case kindOffset:
		return "duration, also negative"
	case kindSpan:
		return "duration, or a number of records"
	case kindAggregates:
		return "name: " + strings.Join(bareAggregates, ", ") + ", or an object"
	case kindTTLs:
		return "name: duration, off, or an object"
	case kindSize:
		return "size"
	case kindEnum:
		return strings.Join(f.enum, ", ")
	case kindConst:
		return f.enum[0]
	case kindStrings:
		return "text or list"
	case kindFields:
		return "name: type (" + strings.Join(fieldTypes, ", ") + ")"
	case kindPolicy:
		return strings.Join(policies, ", ") + ", or an object"
	case kindKey:
		return "field, list of fields, or an object"
	case kindTextOr:
		return "text, or an object"
	case kindOperators, kindList:
		return "list"
	}
	return "object"
}
