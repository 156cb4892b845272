package ci

import (
	"strings"
	"testing"
)

const threeModules = `name: p
operators:
  - id: in
    source: stdin
    time: {watermarks: {module: marks.wasm, function: m}}
  - {id: clean, map: {module: "a.wasm", function: f}} # the first
  - id: totals
    window: {type: tumbling, size: 1h}
    aggregates:
      n: count
      spread: {guest: {module: b.wasm, function: spread}}
  - {id: out, sink: stdout}
`

func TestModulesAreReplacedWhereverNamed(t *testing.T) {
	out, err := ReplaceModules([]byte(threeModules), []Module{{"totals", "/new/b.wasm"}, {"in", "/new/m.wasm"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, says := range []string{`module: "/new/b.wasm"`, `module: "/new/m.wasm"`, `module: "a.wasm"`, "# the first"} {
		if !strings.Contains(string(out), says) {
			t.Errorf("%q is missing in\n%s", says, out)
		}
	}
	one := strings.NewReplacer("b.wasm", "a.wasm", "marks.wasm", "a.wasm").Replace(threeModules)
	if out, err = ReplaceModules([]byte(one), []Module{{"", "/new/x.wasm"}}); err != nil || strings.Count(string(out), "/new/x.wasm") != 3 {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestModulesThatFitNowhere(t *testing.T) {
	_, err := ReplaceModules([]byte(threeModules), []Module{{"", "/x"}, {"out", "/x"}, {"gone", "/x"}})
	for _, says := range []string{"the pipeline has 3 modules; say of which operator", "operator out has no module", `no operator "gone"; those with modules are in, clean, totals`} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q is missing in %v", says, err)
		}
	}
}
