package drive

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWindowsAreCounted writes the output that is right, then damages it in each way.
func TestWindowsAreCounted(t *testing.T) {
	const keys, splits = 2, 2
	var lines []string
	for s := range splits {
		for start := -windowSlide; start <= windowEnd; start += windowSlide {
			for k := range keys {
				lines = append(lines, fmt.Sprintf(`{"key":"%s","window_start":%d,"window_end":%d,"n":%d}`+"\n",
					windowKey(s, k), start, start+windowSize, recordsIn(int64(start))))
			}
		}
	}
	all := uint64(len(lines))
	swap := func(i, j int) func([]string) []string {
		return func(l []string) []string { l[i], l[j] = l[j], l[i]; return l }
	}
	for name, c := range map[string]struct {
		damage func([]string) []string
		late   int
		want   Windows
	}{
		"right":     {func(l []string) []string { return l }, 0, Windows{Results: all}},
		"lost":      {func(l []string) []string { return l[1:] }, 0, Windows{Results: all - 1, Missing: 1}},
		"twice":     {func(l []string) []string { return append(l, l[len(l)-1]) }, 0, Windows{Results: all, Repeated: 1}},
		"reordered": {swap(0, keys), 0, Windows{Results: all - 1, Reordered: 1}},
		"wrong": {func(l []string) []string { l[5] = strings.Replace(l[5], `"n":`, `"n":1`, 1); return l }, 0,
			Windows{Results: all - 1, Different: 1}},
		"alien": {func(l []string) []string {
			return append(l, `{"key":"a0001","window_start":1,"window_end":10001,"n":20}`+"\n")
		}, 0,
			Windows{Results: all, Different: 1}},
		"other key": {func(l []string) []string {
			return append(l, `{"key":"a9999","window_start":0,"window_end":10000,"n":20}`+"\n")
		}, 0,
			Windows{Results: all, Different: 1}},
		"late": {func(l []string) []string { return l }, 2, Windows{Results: all, Late: 2}},
	} {
		tr := &trial{cfg: &Config{Variant: Variant{Keys: keys, Splits: splits}}, dir: t.TempDir()}
		write := func(folder, name string, lines []string) {
			dir := filepath.Join(tr.dir, folder)
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Join(lines, "")), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		damaged := c.damage(append([]string(nil), lines...))
		half := len(damaged) / 2
		write(outFolder, "part-2.ndjson", damaged[:half])
		write(outFolder, "part-10.ndjson", damaged[half:])
		write(lettersFolder+"/dead", "part-1.ndjson", strings.SplitAfter(strings.Repeat("{}\n", c.late), "\n"))
		var got Windows
		if err := tr.countWindows(&got); err != nil {
			t.Fatal(err)
		}
		if got != c.want {
			t.Errorf("%s: %+v, expected %+v", name, got, c.want)
		}
	}
}
