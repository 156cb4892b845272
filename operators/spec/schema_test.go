package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

func compile(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("pipeline.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("pipeline.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// examples are the pipeline files of the repository.
func examples(t *testing.T) (paths []string) {
	t.Helper()
	for _, pattern := range []string{"testdata/*.yaml", "../../examples/*/*.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			if filepath.Base(f) != "policy.yaml" { // of millrace ci, no pipeline
				paths = append(paths, f)
			}
		}
	}
	if len(paths) < 2 {
		t.Fatalf("only %v", paths)
	}
	return paths
}

// bySchema says whether the schema takes the tree.
func bySchema(t *testing.T, s *jsonschema.Schema, tree any) bool {
	t.Helper()
	b, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(doc) == nil
}

// byReader says whether the reader finds nothing wrong in the form of the tree: what the schema can say.
func byReader(t *testing.T, text []byte) bool {
	t.Helper()
	r := &builder{reader: reader{file: "x"}}
	root := r.root(text)
	if root == nil {
		return false
	}
	o := r.object(root, top, "")
	if o != nil && o.fields["operators"] != nil {
		for i, n := range o.fields["operators"].Content {
			if v := r.variant(n, fmt.Sprint(i)); v != nil {
				r.object(n, v.shape, fmt.Sprint(i))
			}
		}
	}
	return len(r.problems) == 0
}

func TestSchemaTakesTheExamples(t *testing.T) {
	s := compile(t)
	for _, p := range examples(t) {
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		var tree any
		if err := yaml.Unmarshal(text, &tree); err != nil {
			t.Fatal(err)
		}
		tree = textKeys(tree)
		if !bySchema(t, s, tree) || !byReader(t, text) {
			t.Errorf("%s: schema %v, reader %v", p, bySchema(t, s, tree), byReader(t, text))
		}
	}
}

// TestSchemaAndReaderAgree changes one place of an example after the other, each run a random fifth of
// them (SCHEMA_ALL=1: all): schema and reader must take or refuse each change alike.
func TestSchemaAndReaderAgree(t *testing.T) {
	s := compile(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	all := os.Getenv("SCHEMA_ALL") != ""
	refused, taken := 0, 0
	for _, p := range examples(t) {
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		for change := 0; ; change++ {
			if !all {
				change += rnd.IntN(9)
			}
			var tree any
			if err := yaml.Unmarshal(text, &tree); err != nil {
				t.Fatal(err)
			}
			tree = textKeys(tree)
			left := change
			what := ""
			tree = mutate(tree, &left, &what, p)
			if what == "" {
				break
			}
			out, err := yaml.Marshal(tree)
			if err != nil {
				t.Fatal(err)
			}
			a, b := bySchema(t, s, tree), byReader(t, out)
			if a != b {
				t.Errorf("%s: schema %v, reader %v\n%s", what, a, b, out)
			}
			if a {
				taken++
			} else {
				refused++
			}
		}
	}
	if refused < 50 || taken == 0 {
		t.Errorf("%d changes refused, %d taken: that tests little", refused, taken)
	}
}

// textKeys makes JSON's objects of YAML's mappings: an unquoted `null` is text as a field's name.
func textKeys(v any) any {
	switch x := v.(type) {
	case map[any]any:
		m := map[string]any{}
		for k, e := range x {
			if k == nil {
				k = "null"
			}
			m[fmt.Sprint(k)] = textKeys(e)
		}
		return m
	case map[string]any:
		for k, e := range x {
			x[k] = textKeys(e)
		}
	case []any:
		for i, e := range x {
			x[i] = textKeys(e)
		}
	}
	return v
}

// mutate makes change number *left somewhere in the tree and says what it was.
func mutate(v any, left *int, what *string, path string) any {
	try := func(name string, to any) (any, bool) {
		if *what != "" {
			return v, false
		}
		if *left > 0 {
			*left--
			return v, false
		}
		*what = path + ": " + name
		return to, true
	}
	for _, c := range []struct {
		name string
		to   any
	}{{"a number", 7}, {"a list", []any{"x"}}, {"a truth", true}, {"text", "no such thing!"}, {"empty text", ""}, {"an object", map[string]any{"x": 1}}, {"minus", -1}} {
		if to, done := try(c.name, c.to); done {
			return to
		}
	}
	switch x := v.(type) {
	case map[string]any:
		keys := make([]string, 0, len(x))
		for k := range x {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			without := map[string]any{}
			renamed := map[string]any{k + "x": x[k]}
			for o, ov := range x {
				if o != k {
					without[o], renamed[o] = ov, ov
				}
			}
			if to, done := try("without "+k, without); done {
				return to
			}
			if to, done := try("renamed "+k, renamed); done {
				return to
			}
			x[k] = mutate(x[k], left, what, path+"."+k)
		}
	case []any:
		for i := range x {
			x[i] = mutate(x[i], left, what, fmt.Sprintf("%s[%d]", path, i))
		}
	}
	return v
}
