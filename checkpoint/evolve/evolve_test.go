package evolve

import (
	"strings"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
)

func value(version, bytes int, t abi.SchemaType) abi.StateDescriptor {
	d := abi.StateDescriptor{Name: "s", Kind: abi.StateValue, Version: version, MaxBytes: bytes}
	if t != "" {
		d.Schema = &abi.Schema{Type: t}
	}
	return d
}

func window(version int) abi.StateDescriptor { return value(version, 0, abi.SchemaWindow) }

func mapOf(version int, key, val abi.SchemaType) abi.StateDescriptor {
	return abi.StateDescriptor{Name: "s", Kind: abi.StateMap, Version: version, KeySchema: &abi.Schema{Type: key}, Schema: &abi.Schema{Type: val}}
}

func rowOf(version int, columns ...string) abi.StateDescriptor {
	s := &abi.Schema{Type: abi.SchemaRow}
	for _, c := range columns {
		name, t, _ := strings.Cut(c, " ")
		s.Fields = append(s.Fields, abi.SchemaField{Name: name, Schema: abi.Schema{Type: abi.SchemaType(t)}})
	}
	return abi.StateDescriptor{Name: "s", Kind: abi.StateValue, Version: version, Schema: s}
}

// Each pair both ways.
func TestStates(t *testing.T) {
	list := value(0, 0, "")
	list.Kind = abi.StateList
	for _, c := range []struct {
		name         string
		one, two     abi.StateDescriptor
		there, back  Verdict
		why, whyBack string
	}{
		{"nothing", value(1, 8, "u64"), value(1, 8, "u64"), Same, Same, "", ""},
		{"kind", value(0, 0, ""), list, Refused, Refused, "kind was value, is list", "kind was list, is value"},
		{"version", value(1, 8, "u64"), value(2, 8, "i64"), Migrate, Refused, "from schema version 1 to 2", "goes back from 2 to 1"},
		{"version alone", value(1, 8, ""), value(3, 8, ""), Migrate, Refused, "1 to 3", "back"},
		{"type under one version", value(1, 8, "u64"), value(1, 8, "f64"), Refused, Refused, "was u64, is f64: raise its version above 1", "was f64"},
		{"described at last", value(0, 8, ""), value(0, 8, "u64"), Same, Same, "not described before", "not described any more"},
		{"wider bound", value(0, 8, ""), value(0, 16, ""), Additive, Refused, "from 8 to 16", "may have 16 bytes, it now takes at most 8"},
		{"no bound", value(0, 8, ""), value(0, 0, ""), Additive, Refused, "grow", "at most 8"},
		{"column", rowOf(0, "a int64"), rowOf(0, "a int64", "b string"), Convert, Refused, "new columns b", "column b is gone"},
		{"map keys", mapOf(1, "utf8", "u64"), mapOf(1, "key_u64", "u64"), Refused, Refused, "its map keys", "its map keys"},
		{"map keys under a new version", mapOf(1, "utf8", "u64"), mapOf(2, "key_u64", "u64"), Refused, Refused, "its map keys", "back"},
		{"windows", window(1), window(2), Refused, Refused, "defined otherwise", "defined otherwise"},
		{"map values", mapOf(1, "utf8", "json"), mapOf(1, "utf8", "utf8"), Additive, Refused, "was json, is utf8", "raise"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if v, why := State(&c.one, &c.two); v != c.there || !strings.Contains(why, c.why) {
				t.Errorf("there: %v (%s), want %v (%s)", v, why, c.there, c.why)
			}
			if v, why := State(&c.two, &c.one); v != c.back || !strings.Contains(why, c.whyBack) {
				t.Errorf("back: %v (%s), want %v (%s)", v, why, c.back, c.whyBack)
			}
		})
	}
}

func TestKeys(t *testing.T) {
	key := func(s string) (fs []abi.Field) {
		for _, c := range strings.Fields(s) {
			n, typ, _ := strings.Cut(c, ":")
			fs = append(fs, abi.Field{Name: n, Type: abi.FieldType(typ)})
		}
		return fs
	}
	for _, c := range []struct {
		one, two string
		want     Verdict
		why      string
	}{
		{"a:string", "a:string", Same, ""}, {"a", "a:int64", Same, ""}, {"a:string", "b:string", Refused, "keyed by a, are by b"},
		{"a:string", "a:string b:string", Refused, "are by a+b"}, {"a:int64", "a:float64", Refused, "column a of its key was int64, is float64"},
		{"a:string", "", Refused, "are by bytes of their own"}, {"", "", Same, ""},
	} {
		v, why := Key(key(c.one), key(c.two))
		if v != c.want || !strings.Contains(why, c.why) {
			t.Errorf("%q to %q: %v (%s)", c.one, c.two, v, why)
		}
		if back, _ := Key(key(c.two), key(c.one)); back != c.want && c.two != "" {
			t.Errorf("%q to %q: %v", c.two, c.one, back)
		}
	}
}

// All findings at once, of keys, of states that came and of states that went.
func TestJudge(t *testing.T) {
	ref := func(op, key string, d abi.StateDescriptor, name string) checkpoint.StateRef {
		d.Name = name
		return checkpoint.StateRef{Operator: op, Key: []abi.Field{{Name: key}}, State: d}
	}
	old := []checkpoint.StateRef{ref("a", "k", value(1, 8, "u64"), "x"), ref("a", "k", value(1, 8, "u64"), "gone"), ref("b", "k", value(2, 8, ""), "y"), ref("left", "k", value(0, 0, ""), "z")}
	now := []checkpoint.StateRef{ref("a", "k", value(1, 8, "i64"), "x"), ref("a", "k", value(1, 8, ""), "fresh"), ref("b", "j", value(1, 8, ""), "y")}
	var got []string
	fs := Judge(old, now)
	for _, f := range fs {
		got = append(got, f.String())
	}
	want := []string{
		"operator a, state x: refused: the type was u64, is i64: raise its version above 1 and supply migrate",
		"operator a, state fresh: new",
		"operator b: refused: its records were keyed by k, are by j: the same entry would not be found again",
		"operator b, state y: refused: its schema version goes back from 2 to 1",
		"operator a, state gone: refused: nothing declares it any more",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	if Worst(fs) != Refused || Worst(nil) != Same {
		t.Error("worst")
	}
}
