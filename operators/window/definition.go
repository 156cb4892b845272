package window

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/millrace-io/millrace/operators"
)

// StateName is the name of the value state that holds windows.
const StateName = "windows"

// definition is what of a node decides how its state lies.
func definition(w *operators.WindowNode) []byte {
	c := *w
	c.Late, c.KeyFields, c.HideBounds = false, nil, false
	c.Process, c.OnError = nil, operators.ErrorPolicy{}
	c.Aggregates = slices.Clone(w.Aggregates)
	for i := range c.Aggregates {
		a := &c.Aggregates[i]
		if a.Guest == nil {
			continue
		}
		fn := a.Guest.Fn
		a.Guest = &operators.GuestNode{Function: a.Guest.Function} // another module of the same accumulator goes on with it
		if fn == nil {
			continue
		}
		if acc := fn.Accumulator(); acc != nil {
			a.N = acc.MaxBytes<<16 | acc.Version
		}
	}
	b, err := json.Marshal(&c)
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	return b
}

// version is the schema version of the state: a changed definition of the windows is another one.
func version(w *operators.WindowNode) int { return int(xxh3.Hash(definition(w)) >> 34) }

// Reads says whether the operator of a node can read state that has a version.
func Reads(w *operators.WindowNode, v int) bool { return version(w) == v }

// Changed lists in what two definitions differ, as far as state is concerned: "window.size_ms 10000, now 20000".
func Changed(was, is *operators.WindowNode) (list []string) {
	var a, b any
	for x, w := range map[*any]*operators.WindowNode{&a: was, &b: is} {
		if err := json.Unmarshal(definition(w), x); err != nil {
			panic(err) // it was just made
		}
	}
	differences("", a, b, &list)
	return list
}

func differences(path string, a, b any, list *[]string) {
	ma, okA := a.(map[string]any)
	mb, okB := b.(map[string]any)
	if okA && okB {
		both := maps.Clone(ma)
		maps.Copy(both, mb)
		for _, k := range slices.Sorted(maps.Keys(both)) {
			differences(strings.TrimPrefix(path+"."+k, "."), ma[k], mb[k], list)
		}
		return
	}
	text := func(v any) string {
		if v == nil {
			return "none"
		}
		t, err := json.Marshal(v)
		if err != nil {
			panic(err) // it came from JSON
		}
		return string(t)
	}
	if ta, tb := text(a), text(b); ta != tb {
		*list = append(*list, fmt.Sprintf("%s %s, now %s", path, ta, tb))
	}
}
