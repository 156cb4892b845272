package spec

import "encoding/json"

// Schema is the JSON Schema (draft 2020-12) of pipeline files, made from the same table that the reader
// checks against. What depends on more than one place (references, cycles, modules) is not in it.
func Schema() []byte {
	s := schemaOf(top)
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "Millrace pipeline"
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic(err) // maps, strings and numbers always marshal
	}
	return append(b, '\n')
}

type node = map[string]any

func schemaOf(s *shape) node {
	props, required := node{}, []string{}
	for i := range s.fields {
		f := &s.fields[i]
		props[f.name] = schemaOfField(f)
		if f.required {
			required = append(required, f.name)
		}
	}
	n := node{"type": "object", "properties": props, "additionalProperties": false}
	if len(required) > 0 {
		n["required"] = required
	}
	if s.doc != "" {
		n["description"] = s.doc
	}
	for _, group := range s.either {
		var one []node
		for _, name := range group {
			one = append(one, node{"required": []string{name}})
		}
		n["oneOf"] = one
	}
	return n
}

func schemaOfField(f *field) node {
	n := schemaOfKind(f)
	if f.doc != "" {
		n["description"] = f.doc
	}
	return n
}

func schemaOfKind(f *field) node {
	text := node{"type": "string", "minLength": 1}
	list := func(item node) node { return node{"type": "array", "items": item, "minItems": 1} }
	switch f.kind {
	case kindID:
		return node{"type": "string", "pattern": idPattern}
	case kindRef:
		return node{"type": "string", "pattern": refPattern}
	case kindInt:
		n := node{"type": "integer"}
		if f.min != 0 || f.max != 0 {
			n["minimum"], n["maximum"] = f.min, f.max
		}
		return n
	case kindNumber:
		return node{"type": "number", "minimum": 0}
	case kindBool:
		return node{"type": "boolean"}
	case kindDuration:
		return node{"type": "string", "pattern": durationPattern}
	case kindDurationOff:
		return node{"anyOf": []node{{"type": "string", "pattern": durationPattern}, {"const": "off"}}}
	case kindDurationOr:
		return node{"anyOf": []node{{"type": "string", "pattern": durationPattern}, {"type": "string", "enum": f.enum}}}
	case kindOffset:
		return node{"type": "string", "pattern": "^-?" + durationPattern[1:]}
	case kindSpan:
		return node{"anyOf": []node{{"type": "string", "pattern": durationPattern}, {"type": "integer", "minimum": 1, "maximum": 1 << 50}}}
	case kindAggregates:
		return node{"type": "object", "minProperties": 1, "propertyNames": node{"minLength": 1},
			"additionalProperties": node{"anyOf": []node{{"type": "string", "enum": bareAggregates}, schemaOf(aggregateShape)}}}
	case kindTTLs:
		return node{"type": "object", "minProperties": 1, "propertyNames": node{"minLength": 1},
			"additionalProperties": node{"anyOf": []node{schemaOfKind(&field{kind: kindDurationOff}), schemaOf(ttlShape)}}}
	case kindSize:
		return node{"type": "string", "pattern": sizePattern}
	case kindEnum:
		return node{"type": "string", "enum": f.enum}
	case kindConst:
		return node{"const": f.enum[0]}
	case kindStrings:
		return node{"anyOf": []node{text, list(text)}}
	case kindRefs:
		r := schemaOfKind(&field{kind: kindRef})
		return node{"anyOf": []node{r, list(r)}}
	case kindList:
		return list(schemaOf(f.object))
	case kindObject:
		return schemaOf(f.object)
	case kindFields:
		return node{"type": "object", "minProperties": 1, "propertyNames": node{"minLength": 1},
			"additionalProperties": node{"type": "string", "enum": fieldTypes}}
	case kindPolicy:
		return node{"anyOf": []node{{"type": "string", "enum": policies}, schemaOf(policyShape)}}
	case kindTextOr:
		return node{"anyOf": []node{text, schemaOf(f.object)}}
	case kindKey:
		return node{"anyOf": []node{text, list(text), schemaOf(keyShape)}}
	case kindOperators:
		var forms []node
		for _, v := range variants {
			forms = append(forms, schemaOf(v.shape))
		}
		l := list(node{"oneOf": forms})
		l["maxItems"] = maxOperators
		return l
	}
	return text
}
