package checkpoint

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestAlignerScripts runs the command files of testdata/aligner. A command is a line, its answer the line
// under it, indented. -rewrite writes the answers anew.
//
//	new N [restored=ID]   barrier C ID [final]   end C   abort ID
func TestAlignerScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/aligner/*.txt")
	if err != nil || len(files) < 6 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := runScript(t, want)
			if *rewrite {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if !bytes.Equal(got, want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func runScript(t *testing.T, script []byte) []byte {
	var out bytes.Buffer
	var a *Aligner
	lines := bufio.NewScanner(bytes.NewReader(script))
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "\t") {
			continue
		}
		fmt.Fprintln(&out, line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		answer, err := runCommand(&a, line)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		fmt.Fprintf(&out, "\t%s\n", answer)
	}
	return out.Bytes()
}

func runCommand(a **Aligner, line string) (string, error) {
	var c int
	var id ID
	name, args, _ := strings.Cut(line, " ")
	switch name {
	case "new":
		if n, _ := fmt.Sscanf(args, "%d restored=%d", &c, &id); n < 1 {
			return "", fmt.Errorf("expected: new N [restored=ID]")
		}
		*a = NewAligner(c, id)
		return "ok", nil
	case "barrier":
		if _, err := fmt.Sscanf(args, "%d %d", &c, &id); err != nil {
			return "", err
		}
		d, err := (*a).Barrier(c, Barrier{ID: id, Final: strings.HasSuffix(args, "final")})
		if err != nil {
			return "error: " + err.Error(), nil
		}
		return describe(*a, d), nil
	case "end":
		_, err := fmt.Sscanf(args, "%d", &c)
		return describe(*a, (*a).End(c)), err
	case "abort":
		_, err := fmt.Sscanf(args, "%d", &id)
		return describe(*a, (*a).Abort(id)), err
	}
	return "", fmt.Errorf("unknown command")
}

func describe(a *Aligner, d Decision) string {
	var words []string
	add := func(on bool, format string, args ...any) {
		if on {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	add(d.GaveUp != 0, "give up %d", d.GaveUp)
	add(d.Unblock, "unblock")
	add(d.Block, "block")
	add(d.Cut.ID != 0 && !d.Cut.Final, "cut %d", d.Cut.ID)
	add(d.Cut.ID != 0 && d.Cut.Final, "cut %d final", d.Cut.ID)
	add(d.Late, "late")
	add(d.AllEnded, "all ended")
	add(len(words) == 0, "nothing")
	if blocked := blockedOf(a); len(blocked) > 0 {
		words = append(words, fmt.Sprintf("(blocked %v)", blocked))
	}
	return strings.Join(words, ", ")
}

func blockedOf(a *Aligner) (blocked []int) {
	for c := range a.arrived {
		if a.Blocked(c) {
			blocked = append(blocked, c)
		}
	}
	return blocked
}

// alignModel says what an aligner does from the whole history of a task, by the rules alone.
type alignModel struct {
	got   []map[ID]bool // barriers by channel
	ended []bool
	dead  map[ID]bool // aborted
	floor ID          // decided up to here
}

func newAlignModel(n int) *alignModel {
	m := &alignModel{ended: make([]bool, n), dead: map[ID]bool{}}
	for range n {
		m.got = append(m.got, map[ID]bool{})
	}
	return m
}

// current is the highest undecided id that came on any channel.
func (m *alignModel) current() (id ID) {
	for _, got := range m.got {
		for b := range got {
			if b > m.floor && !m.dead[b] {
				id = max(id, b)
			}
		}
	}
	return id
}

func (m *alignModel) whole(id ID) bool {
	for c, got := range m.got {
		if !got[id] && !m.ended[c] {
			return false
		}
	}
	return true
}

func (m *alignModel) blocked() (blocked []int) {
	id := m.current()
	for c, got := range m.got {
		if id != 0 && got[id] && !m.ended[c] {
			blocked = append(blocked, c)
		}
	}
	return blocked
}

// after applies change and says what the aligner has to answer.
func (m *alignModel) after(change func()) (d Decision) {
	before := m.current()
	change()
	now := m.current()
	if now != 0 && m.whole(now) {
		d.Cut.ID = now
		m.floor = now
	}
	if before != 0 && now != before {
		d.GaveUp = before
		m.floor = max(m.floor, before)
	}
	d.Unblock = before != 0 && (d.GaveUp != 0 || d.Cut.ID != 0)
	return d
}

func (m *alignModel) barrier(c int, id ID) Decision {
	if id <= m.floor || id < m.current() || m.dead[id] || m.got[c][id] {
		return Decision{Late: true}
	}
	d := m.after(func() { m.got[c][id] = true })
	d.Block = d.Cut.ID == 0
	return d
}

func (m *alignModel) end(c int) Decision {
	if m.ended[c] {
		return Decision{}
	}
	d := m.after(func() { m.ended[c] = true })
	d.AllEnded = !slices.Contains(m.ended, false)
	return d
}

func (m *alignModel) abort(id ID) Decision { return m.after(func() { m.dead[id] = true }) }

// TestAlignerAgainstModel runs every sequence of events on two channels to a depth, and random ones on
// more channels, also of senders that do not keep to the rules (blocked channels that deliver).
func TestAlignerAgainstModel(t *testing.T) {
	type event struct{ kind, c, id int }
	apply := func(a *Aligner, m *alignModel, e event) (got, want Decision) {
		switch id := ID(e.id); e.kind {
		case 0:
			if a.ended[e.c] {
				if _, err := a.Barrier(e.c, Barrier{ID: id}); err == nil {
					t.Fatal("a barrier after the end is no error")
				}
				return Decision{}, Decision{}
			}
			got, _ = a.Barrier(e.c, Barrier{ID: id})
			return got, m.barrier(e.c, id)
		case 1:
			return a.End(e.c), m.end(e.c)
		default:
			return a.Abort(id), m.abort(id)
		}
	}
	run := func(name string, n int, events []event) {
		a, m := NewAligner(n, 0), newAlignModel(n)
		for i, e := range events {
			got, want := apply(a, m, e)
			if got != want || !slices.Equal(blockedOf(a), m.blocked()) {
				t.Fatalf("%s: %d channels, events %v (kind 0 barrier, 1 end, 2 abort): at %d got %+v, blocked "+
					"%v; want %+v, blocked %v", name, n, events, i, got, blockedOf(a), want, m.blocked())
			}
		}
	}
	var alphabet []event
	for c := range 2 {
		alphabet = append(alphabet, event{1, c, 0})
		for id := 1; id <= 3; id++ {
			alphabet = append(alphabet, event{0, c, id})
		}
	}
	for id := 1; id <= 3; id++ {
		alphabet = append(alphabet, event{2, 0, id})
	}
	const depth = 5
	events := make([]event, depth)
	total := 1
	for range depth {
		total *= len(alphabet)
	}
	for i := range total {
		for j, rest := 0, i; j < depth; j, rest = j+1, rest/len(alphabet) {
			events[j] = alphabet[rest%len(alphabet)]
		}
		run("exhaustive", 2, events)
	}
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n := 1 + rng.IntN(5)
		events := make([]event, 60)
		for i := range events {
			e := event{0, rng.IntN(n), 1 + i/8 + rng.IntN(3)}
			if k := rng.IntN(20); k == 0 {
				e.kind = 1
			} else if k < 3 {
				e.kind = 2
			}
			events[i] = e
		}
		run(fmt.Sprintf("seed %d", seed), n, events)
	}
}

func TestAlignerAllocatesNothing(t *testing.T) {
	a := NewAligner(2, 0)
	id := ID(0)
	n := testing.AllocsPerRun(100, func() {
		id++
		for c := range 2 {
			if _, err := a.Barrier(c, Barrier{ID: id}); err != nil {
				t.Fatal(err)
			}
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestAlignerForgetsOldAborts(t *testing.T) {
	a := NewAligner(2, 0)
	for id := ID(1); id <= 1000; id++ {
		a.Abort(id)
	}
	if len(a.aborted) != maxAborted {
		t.Fatalf("%d remembered", len(a.aborted))
	}
	if d, _ := a.Barrier(0, Barrier{ID: 1000}); !d.Late {
		t.Error("the newest abort is forgotten")
	}
	a.Barrier(0, Barrier{ID: 1})
	a.Barrier(1, Barrier{ID: 2000})
	if d, _ := a.Barrier(0, Barrier{ID: 2000}); d.Cut.ID != 2000 || len(a.aborted) != 0 {
		t.Errorf("%+v, %d remembered", d, len(a.aborted))
	}
}
