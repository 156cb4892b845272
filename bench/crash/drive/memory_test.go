package drive

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestMemoryIsCounted takes the output that an input has to come to, then damages it in each way.
func TestMemoryIsCounted(t *testing.T) {
	tr := &trial{cfg: &Config{Records: 60, Variant: Variant{Keys: 2, Splits: 2, BadEvery: 10}}, dir: t.TempDir()}
	w, err := tr.ledgerInput(rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for l := range w.lines {
		lines = append(lines, l+"\n")
	}
	slices.SortFunc(lines, func(a, b string) int {
		x, y := strings.TrimSpace(a), strings.TrimSpace(b)
		if k := strings.Compare(w.keyOf[x], w.keyOf[y]); k != 0 {
			return k
		}
		return w.lines[x] - w.lines[y]
	})
	const all, bad = 54, 6
	if len(lines) != all || w.bad != bad {
		t.Fatalf("%d lines and %d bad ones, expected %d and %d", len(lines), w.bad, all, bad)
	}
	same := func(l []string) []string { return l }
	for name, c := range map[string]struct {
		damage  func([]string) []string
		letters int
		want    Memory
	}{
		"right":     {same, bad, Memory{Results: all, Letters: bad}},
		"lost":      {func(l []string) []string { return l[1:] }, bad, Memory{Results: all - 1, Missing: 1, Letters: bad}},
		"twice":     {func(l []string) []string { return append(l, l[all-1]) }, bad, Memory{Results: all, Repeated: 1, Letters: bad}},
		"reordered": {func(l []string) []string { l[0], l[1] = l[1], l[0]; return l }, bad, Memory{Results: all - 1, Reordered: 1, Letters: bad}},
		"wrong": {func(l []string) []string { l[5] = strings.Replace(l[5], `"xor":`, `"xor":1`, 1); return l }, bad,
			Memory{Results: all - 1, Missing: 1, Different: 1, Letters: bad}},
		"letter lost":  {same, bad - 1, Memory{Results: all, Letters: bad - 1, LettersNo: 1}},
		"letter twice": {same, bad + 1, Memory{Results: all, Letters: bad + 1, LettersNo: 1}},
	} {
		write := func(folder string, text string) {
			dir := filepath.Join(tr.dir, folder)
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "part-1.ndjson"), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		write(outFolder, strings.Join(c.damage(slices.Clone(lines)), ""))
		write(lettersFolder+"/dead", strings.Repeat("{}\n", c.letters))
		var got Memory
		if err := tr.countMemory(w, &got); err != nil {
			t.Fatal(err)
		}
		if got != c.want {
			t.Errorf("%s: %+v, expected %+v", name, got, c.want)
		}
	}
}
