package oracle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// right makes an input and the lines a correct run puts out.
func right(t *testing.T) (*Input, []string) {
	t.Helper()
	var buf bytes.Buffer
	in, err := Generator{Seed: 7, Keys: 5, Records: 400, Prefix: "k", StepMS: 10}.Write(&buf)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	done := map[string]int{}
	for _, l := range strings.Split(strings.TrimSpace(buf.String()), "\n") {
		var r struct {
			Key string
			N   uint64
			TS  int64
		}
		if err := json.Unmarshal([]byte(l), &r); err != nil {
			t.Fatal(err)
		}
		for _, key := range keysOf(in.Timers) {
			for done[key] < len(in.Timers[key]) && in.Timers[key][done[key]].At <= r.TS {
				lines = append(lines, timer(key, in.Timers[key][done[key]]))
				done[key]++
			}
		}
		lines = append(lines, count(r.Key, r.N))
	}
	for _, key := range keysOf(in.Timers) {
		for ; done[key] < len(in.Timers[key]); done[key]++ {
			lines = append(lines, timer(key, in.Timers[key][done[key]]))
		}
	}
	return in, lines
}

func count(key string, n uint64) string {
	x := uint64(0)
	for i := uint64(1); i <= n; i++ {
		x ^= i
	}
	return fmt.Sprintf(`{"key":"%s","count":%d,"n":%d,"xor":%d,"wm":0}`, key, n, n, x)
}

func timer(key string, tm Timer) string {
	return fmt.Sprintf(`{"key":"%s","timer":%d,"records":%d}`, key, tm.At, tm.Records)
}

func check(in *Input, lines []string) Verdict {
	c := New(in)
	half := len(lines) / 2
	c.File("part-0-1", []byte(strings.Join(lines[:half], "\n")+"\n"))
	c.File("part-0-2", []byte(strings.Join(lines[half:], "\n")+"\n"))
	v := *c.Verdict()
	v.Examples = nil
	return v
}

func TestRightOutputHasNoAnomaly(t *testing.T) {
	in, lines := right(t)
	v := check(in, lines)
	if v.Anomalies() != 0 || v.Records != in.Records() || v.Records != 400 || v.Timers < 15 {
		t.Errorf("got %+v", v)
	}
}

// find is the place of the i-th line that contains s.
func find(t *testing.T, lines []string, s string, i int) int {
	t.Helper()
	for at, l := range lines {
		if strings.Contains(l, s) {
			if i == 0 {
				return at
			}
			i--
		}
	}
	t.Fatalf("no line %d with %q", i, s)
	return 0
}

func TestPlantedAnomaliesAreCountedByKind(t *testing.T) {
	in, base := right(t)
	records, timers := uint64(400), check(in, base).Timers
	at := find(t, base, `"key":"k0001","count"`, 3) // record 4 of k0001
	next := find(t, base, `"key":"k0001","count"`, 4)
	last := find(t, base, `"key":"k0001","count"`, int(in.Totals["k0001"])-1)
	tick := find(t, base, `"timer"`, 2)
	edit := func(f func(l []string) []string) []string { return f(append([]string(nil), base...)) }
	swap := func(l []string, i, j int) []string { l[i], l[j] = l[j], l[i]; return l }
	cases := []struct {
		name  string
		lines []string
		want  Verdict
	}{
		{"lost in the middle", edit(func(l []string) []string { return append(l[:at], l[at+1:]...) }),
			Verdict{Records: records - 1, Timers: timers, Lost: 1}},
		{"lost at the end", edit(func(l []string) []string { return append(l[:last], l[last+1:]...) }),
			Verdict{Records: records - 1, Timers: timers, Lost: 1}},
		{"duplicated at once", edit(func(l []string) []string { return append(l[:at+1], l[at:]...) }),
			Verdict{Records: records + 1, Timers: timers, Duplicated: 1}},
		{"duplicated much later", edit(func(l []string) []string { return append(l, l[at]) }),
			Verdict{Records: records + 1, Timers: timers, Duplicated: 1}},
		{"two swapped", edit(func(l []string) []string { return swap(l, at, next) }),
			Verdict{Records: records, Timers: timers, Reordered: 1}},
		{"first one comes last", edit(func(l []string) []string { x := l[at]; return append(append(l[:at], l[at+1:]...), x) }),
			Verdict{Records: records, Timers: timers, Reordered: 1}},
		{"state applied twice", edit(func(l []string) []string {
			l[at] = `{"key":"k0001","count":5,"n":4,"xor":4,"wm":0}`
			return l
		}), Verdict{Records: records, Timers: timers, WrongState: 1}},
		{"xor alone is wrong", edit(func(l []string) []string {
			l[at] = `{"key":"k0001","count":4,"n":4,"xor":5,"wm":0}`
			return l
		}), Verdict{Records: records, Timers: timers, WrongState: 1}},
		{"an earlier watermark", edit(func(l []string) []string {
			l[at] = strings.Replace(l[at], `"wm":0`, `"wm":5`, 1)
			l[next] = strings.Replace(l[next], `"wm":0`, `"wm":4`, 1)
			for i := next + 1; i < len(l); i++ {
				l[i] = strings.Replace(l[i], `"wm":0`, `"wm":5`, 1)
			}
			return l
		}), Verdict{Records: records, Timers: timers, WentBack: 1}},
		{"unknown key", edit(func(l []string) []string { return append(l, count("other", 1)) }),
			Verdict{Records: records + 1, Timers: timers, Alien: 1}},
		{"n beyond the input", edit(func(l []string) []string { return append(l, count("k0001", in.Totals["k0001"]+1)) }),
			Verdict{Records: records + 1, Timers: timers, Alien: 1}},
		{"torn line", edit(func(l []string) []string { l[at] = l[at][:20]; return l }),
			Verdict{Records: records - 1, Timers: timers, Lost: 1, Malformed: 1}},
		{"two records in a line", edit(func(l []string) []string { l[at] += l[at]; return l }),
			Verdict{Records: records - 1, Timers: timers, Lost: 1, Malformed: 1}},
		{"a field is missing", edit(func(l []string) []string { l[at] = `{"key":"k0001","n":4}`; return l }),
			Verdict{Records: records - 1, Timers: timers, Lost: 1, Malformed: 1}},
		{"timer lost", edit(func(l []string) []string { return append(l[:tick], l[tick+1:]...) }),
			Verdict{Records: records, Timers: timers - 1, TimersLost: 1}},
		{"timer fired twice", edit(func(l []string) []string { return append(l, l[tick]) }),
			Verdict{Records: records, Timers: timers + 1, TimersTwice: 1}},
		{"timer never set", edit(func(l []string) []string { return append(l, timer("k0001", Timer{999_000, 1})) }),
			Verdict{Records: records, Timers: timers + 1, TimersTwice: 1}},
		{"timer tells another number", edit(func(l []string) []string {
			l[tick] = strings.Replace(l[tick], `"records":`, `"records":1`, 1)
			return l
		}), Verdict{Records: records, Timers: timers, WrongState: 1}},
		{"nothing came out", nil, Verdict{Lost: records, TimersLost: timers, Malformed: 2}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := check(in, c.lines); fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestACommittedFileEndsWithANewline(t *testing.T) {
	in, lines := right(t)
	c := New(in)
	c.File("part", []byte(strings.Join(lines, "\n")))
	if v := c.Verdict(); v.Malformed != 1 || v.Anomalies() == 0 {
		t.Errorf("got %+v", v)
	}
}

func TestFolderReadsPartsByNumberAndSkipsStagedOnes(t *testing.T) {
	in, lines := right(t)
	dir := t.TempDir()
	third := len(lines) / 3
	write := func(name string, l []string) {
		t.Helper()
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(strings.Join(l, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("part-0-2.ndjson", lines[:third])
	write("part-0-9.ndjson", lines[third:2*third])
	write("part-0-10.ndjson", lines[2*third:])
	write(".staged/part-0-11.ndjson", lines[:1])
	write(".part-0-12.ndjson", lines[:1])
	write("part-0-13.tmp", lines[:1])
	v, err := CheckFolder(in, dir)
	if err != nil || v.Anomalies() != 0 {
		t.Fatalf("got %+v, %v", v, err)
	}
	if v, err = CheckFolder(in, filepath.Join(dir, "absent")); err != nil || v.Lost != in.Records() {
		t.Errorf("a folder that is not there: %+v, %v", v, err)
	}
}

func TestXorUpTo(t *testing.T) {
	x := uint64(0)
	for n := uint64(1); n < 1000; n++ {
		if x ^= n; x != XorUpTo(n) {
			t.Fatalf("n %d: got %d, expected %d", n, XorUpTo(n), x)
		}
	}
}
