package abitest

import (
	"os"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/abi"
)

// The text has one section of the fixed shape for each function of the machine source, and no other.
func TestSpecAndMachineSourceListTheSame(t *testing.T) {
	b, err := os.ReadFile("../spec/v0.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, s := range strings.Split(string(b), "\n### ")[1:] {
		name, text, _ := strings.Cut(s, "\n")
		text, _, _ = strings.Cut(text, "\n## ")
		sections[name] = text
	}
	check := func(s abi.Signature, labels []string) {
		text, ok := sections[s.Name]
		if !ok {
			t.Errorf("%s has no section", s.Name)
			return
		}
		delete(sections, s.Name)
		at := 0
		for _, l := range labels {
			i := strings.Index(text[at:], "- "+l+":")
			if i < 0 {
				t.Errorf("%s: no %q in its place", s.Name, l)
				return
			}
			at += i
		}
		if want := "- Signature: `" + s.String() + "`"; !strings.HasPrefix(text, want) {
			t.Errorf("%s: begins %.60q, expected %q", s.Name, text, want)
		}
		_, after, _ := strings.Cut(text, "Vectors: ")
		if file := strings.TrimSuffix(strings.TrimSpace(after), "."); file != "none" {
			if _, err := os.Stat("../vectors/" + file); err != nil {
				t.Errorf("%s: %v", s.Name, err)
			}
		}
	}
	for _, s := range abi.Exports {
		check(s, []string{"Signature", "Memory", "Results", "Called", "Recorded", "Since"})
	}
	for _, s := range abi.Calls {
		check(s, []string{"Signature", "Memory", "Results", "Allowed", "Recorded", "Since"})
	}
	for name := range sections {
		t.Errorf("section %s is of no function of abi.yaml", name)
	}
}
