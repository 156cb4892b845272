package main

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// spec is abi.yaml.
type spec struct {
	Version        int         `yaml:"version"`
	ImportModule   string      `yaml:"import_module"`
	ReservedPrefix string      `yaml:"reserved_prefix"`
	Exports        []signature `yaml:"exports"`
	Calls          []signature `yaml:"calls"`
	Constants      []group     `yaml:"constants"`
}

type signature struct {
	Name     string   `yaml:"name"`
	Const    string   `yaml:"const"`
	Params   []string `yaml:"params"` // "name type"
	Result   string   `yaml:"result"`
	Required bool     `yaml:"required"`
	Recorded bool     `yaml:"recorded"`
}

type group struct {
	Doc    string  `yaml:"doc"`
	Type   string  `yaml:"type"`
	Values []value `yaml:"values"`
}

type value struct {
	Name, Doc string
	N         int64
}

// UnmarshalYAML reads [name, number, doc].
func (v *value) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.SequenceNode || len(n.Content) != 3 {
		return fmt.Errorf("line %d: a constant is [name, number, doc]", n.Line)
	}
	return errors.Join(n.Content[0].Decode(&v.Name), n.Content[1].Decode(&v.N), n.Content[2].Decode(&v.Doc))
}

func parse(b []byte) (*spec, error) {
	s := &spec{}
	d := yaml.NewDecoder(strings.NewReader(string(b)))
	d.KnownFields(true)
	if err := d.Decode(s); err != nil {
		return nil, err
	}
	return s, s.validate()
}

func (s *spec) validate() error {
	seen := map[string]bool{}
	name := func(n string) error {
		if n == "" || seen[n] {
			return fmt.Errorf("name %q is empty or used twice", n)
		}
		seen[n] = true
		return nil
	}
	for _, g := range append(s.Calls, s.Exports...) {
		if err := name(g.Const); err != nil {
			return err
		}
		for _, p := range g.Params {
			if _, t, _ := strings.Cut(p, " "); t != "i32" && t != "i64" {
				return fmt.Errorf("%s: parameter %q, expected \"name i32\" or \"name i64\"", g.Name, p)
			}
		}
		if g.Result != "" && g.Result != "i32" && g.Result != "i64" {
			return fmt.Errorf("%s: result %q, expected i32, i64 or nothing", g.Name, g.Result)
		}
	}
	for _, g := range s.Constants {
		if _, ok := rustTypes[g.Type]; !ok {
			return fmt.Errorf("group %q: unknown type %q", g.Doc, g.Type)
		}
		for _, v := range g.Values {
			if err := name(v.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// rustTypes are the types of constants, with the suffix of the Go SDK's typed ones.
var rustTypes = map[string]string{"usize": "", "u8": "byte", "u32": "uint32", "i32": "int32", "i64": "int64"}
