package ci

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Module is a new module for a pipeline: of one operator, or of all if they share one.
type Module struct {
	Operator string // empty: of every operator that runs a module
	Path     string // absolute
}

// ReplaceModules puts other modules into the text of a pipeline file, wherever in an operator one is named.
func ReplaceModules(text []byte, modules []Module) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	found := operatorsIn(&doc)
	var problems []error
	for _, m := range modules {
		if m.Operator == "" {
			if err := replaceOnly(found, m.Path); err != nil {
				problems = append(problems, err)
			}
			continue
		}
		i := slices.IndexFunc(found, func(o operatorText) bool { return o.id == m.Operator })
		switch {
		case i < 0:
			problems = append(problems, fmt.Errorf("--module %s=%s: the pipeline has no operator %q%s", m.Operator, m.Path, m.Operator, withModules(found)))
		case len(found[i].modules) == 0:
			problems = append(problems, fmt.Errorf("--module %s=%s: operator %s has no module%s", m.Operator, m.Path, m.Operator, withModules(found)))
		default:
			for _, n := range found[i].modules {
				n.Value, n.Style = m.Path, yaml.DoubleQuotedStyle
			}
		}
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(&doc); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// operatorText is an operator with the places where it names modules.
type operatorText struct {
	id      string
	modules []*yaml.Node
}

func operatorsIn(doc *yaml.Node) (found []operatorText) {
	if len(doc.Content) == 0 {
		return nil
	}
	list := field(doc.Content[0], "operators")
	if list == nil {
		return nil
	}
	for _, n := range list.Content {
		o := operatorText{}
		if id := field(n, "id"); id != nil {
			o.id = id.Value
		}
		modulesIn(n, &o.modules)
		found = append(found, o)
	}
	return found
}

// field is the value of a key of a mapping, nil if it is not there.
func field(n *yaml.Node, key string) *yaml.Node {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func modulesIn(n *yaml.Node, all *[]*yaml.Node) {
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			if v := n.Content[i+1]; c.Value == "module" && v.Kind == yaml.ScalarNode {
				*all = append(*all, v)
			}
			continue
		}
		modulesIn(c, all)
	}
}

// replaceOnly puts a module in place of the only one there is.
func replaceOnly(found []operatorText, path string) error {
	was := map[string]bool{}
	for _, o := range found {
		for _, n := range o.modules {
			was[n.Value] = true
		}
	}
	if len(was) != 1 {
		return fmt.Errorf("--module %s: the pipeline has %d modules; say of which operator, as in --module ID=%s%s", path, len(was), path, withModules(found))
	}
	for _, o := range found {
		for _, n := range o.modules {
			n.Value, n.Style = path, yaml.DoubleQuotedStyle
		}
	}
	return nil
}

// withModules names the operators that have modules.
func withModules(found []operatorText) string {
	var ids []string
	for _, o := range found {
		if len(o.modules) > 0 {
			ids = append(ids, o.id)
		}
	}
	if len(ids) == 0 {
		return ""
	}
	return "; those with modules are " + strings.Join(ids, ", ")
}
