package engine

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/abi"
	w "github.com/millrace-io/millrace/host/instrument/wasmtest"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/state/memimage"
)

const captureSeed = 20301130

// album keeps what captures give: pages by number, newest first.
type album struct {
	*memimage.Image
	pages map[int][]byte
	taken int // pages of the last capture
}

func (a *album) take(t *testing.T, g *Guest) {
	t.Helper()
	if a.pages == nil {
		a.pages = map[int][]byte{}
	}
	a.taken = 0
	img, err := g.Capture(captureSeed, a.Image, func(n int, b []byte) error {
		a.pages[n] = append([]byte(nil), b...)
		a.taken++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	a.Image = img
}

func (a *album) fill(n int, b []byte) error {
	if a.pages[n] == nil {
		return fmt.Errorf("page %d was never captured", n)
	}
	copy(b, a.pages[n])
	return nil
}

func counted(t *testing.T, out []abi.Record) string {
	t.Helper()
	return fmt.Sprintf("%x", out[len(out)-1].Value)
}

// TestCaptureAndAdopt: variables, hidden globals and grown memory go over to another instance, which then
// does the same at the same price.
func TestCaptureAndAdopt(t *testing.T) { captureAndAdopt(t, Options{}, Options{Interpreter: true}) }

func captureAndAdopt(t *testing.T, from, to Options) {
	t.Helper()
	a, b := newKitchen(t, from, guestop.InstanceOptions{}), newKitchen(t, to, guestop.InstanceOptions{})
	var book album
	a.ask("c", "c", "G"+u32(3), "c")
	book.take(t, a.Guest)
	all := book.taken
	a.ask("c")
	book.take(t, a.Guest)
	if book.taken == 0 || book.taken > 4 || book.taken >= all {
		t.Errorf("%d pages after one record, %d at first", book.taken, all)
	}
	b.ask("c", "c", "c", "c", "c", "c", "c", "c", "c") // its own life ends
	if err := b.Adopt(captureSeed, book.Image, book.fill); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		x, y := a.tell("c", "ehello", "G"+u32(1), "q"+u32(100)), b.tell("c", "ehello", "G"+u32(1), "q"+u32(100))
		if x != y {
			t.Fatalf("the original\n%s\nwho adopted\n%s", x, y)
		}
	}
	if got := counted(t, b.ask("c")); got != "0100000008000000" {
		t.Errorf("initialised and counted %s, expected 1 and 8", got)
	}
	// Who adopted may be made as new, and adopt again.
	b.fault(guestop.FaultTrap, 0, "b")
	b.reset()
	if got := counted(t, b.ask("c")); got != "0100000001000000" {
		t.Errorf("after a reset: %s, expected 1 and 1", got)
	}
	if err := b.Adopt(captureSeed, book.Image, book.fill); err == nil && counted(t, b.ask("c")) != "0100000005000000" {
		t.Error("the second adoption is not the first")
	} else if err != nil {
		t.Error(err)
	}
}

func TestAdoptRefuses(t *testing.T) {
	a := newKitchen(t, Options{}, guestop.InstanceOptions{})
	var book album
	a.ask("c", "G"+u32(100))
	book.take(t, a.Guest)
	for what, spoil := range map[string]func(*memimage.Image){
		"another module": func(i *memimage.Image) { i.Module = strings.Repeat("0", 64) },
		"globals":        func(i *memimage.Image) { i.Globals = i.Globals[1:] },
		"whole memory":   func(i *memimage.Image) { i.Pages = i.Pages[1:] },
		"not what was":   func(i *memimage.Image) { i.Pages[len(i.Pages)-1].Lo++ },
		"outside":        func(i *memimage.Image) { i.In = 1 << 31 },
		"has more":       func(i *memimage.Image) { i.Pages = i.Pages[:16] },
	} {
		b := newKitchen(t, Options{}, guestop.InstanceOptions{})
		img := *book.Image
		img.Pages = append(img.Pages[:0:0], img.Pages...)
		spoil(&img)
		if err := b.Adopt(captureSeed, &img, book.fill); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: error %v", what, err)
		}
	}
	small := newKitchen(t, Options{}, guestop.InstanceOptions{MemoryBytes: 2 << 20})
	if err := small.Adopt(captureSeed, book.Image, book.fill); err == nil || !strings.Contains(err.Error(), "limit of an instance") {
		t.Errorf("error %v", err)
	}
}

// TestModulesThatCantBeCaptured: what an image would not hold is refused by name, when the module is made and
// when it is inspected.
func TestModulesThatCantBeCaptured(t *testing.T) {
	describe := func(snapshot string, function abi.Function) func(m *w.Module) {
		return func(m *w.Module) {
			text, err := json.Marshal(abi.Descriptor{Snapshot: snapshot, Functions: []abi.Function{function}})
			if err != nil {
				t.Fatal(err)
			}
			m.Customs = []w.Custom{{Name: abi.DescriptorSection, Bytes: text}}
		}
	}
	keyed := abi.Function{Name: "f", Kind: abi.FunctionProcess, Keyed: true}
	for problem, wasm := range map[string][]byte{
		"changes tables": assemble(func(m *w.Module) {
			m.Tables = []w.Table{{Elem: w.FuncRef, Min: 1, Max: 4}}
			m.Func(none, none, nil, w.Op(0xd0, w.FuncRef), w.I32Const(1), w.TableGrow(0), w.Op(0x1a))
		}, describe(abi.SnapshotMemory, keyed)),
		"drops segments": assemble(func(m *w.Module) {
			m.DataCount, m.Datas = true, []w.Data{{Passive: true, Bytes: []byte("x")}}
			m.Func(none, none, nil, w.Op(0xfc, 9, 0))
		}, describe(abi.SnapshotMemory, keyed)),
		"global 1 holds a reference": assemble(func(m *w.Module) {
			m.Global(w.I32, true, w.I32Const(1))
			m.Global(w.ExternRef, true, w.Op(0xd0, w.ExternRef))
		}, describe(abi.SnapshotMemory, keyed)),
		"global 0 holds a reference": assemble(func(m *w.Module) {
			m.Global(w.FuncRef, true, w.Op(0xd0, w.FuncRef))
		}, describe(abi.SnapshotMemory, keyed)),
		"function f is not keyed":    assemble(nil, describe(abi.SnapshotMemory, abi.Function{Name: "f", Kind: abi.FunctionProcess})),
		`snapshot "disk" is unknown`: assemble(nil, describe("disk", keyed)),
	} {
		if _, err := compile(t, wasm, nil); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("error %v, expected %q", err, problem)
		}
		if r, err := Inspect(wasm); err != nil || !strings.Contains(strings.Join(r.Problems, "; "), problem) {
			t.Errorf("inspect: %v, problems %q, expected %q", err, r.Problems, problem)
		}
	}
	if _, err := compile(t, assemble(nil, describe(abi.SnapshotMemory, keyed)), nil); err != nil {
		t.Error(err)
	}
}

// TestMemoriesThatCantBeCaptured: what the host does not own, or another thread writes, is refused by name too.
func TestMemoriesThatCantBeCaptured(t *testing.T) {
	good := assemble(nil, func(m *w.Module) {
		m.Customs = []w.Custom{{Name: abi.DescriptorSection, Bytes: []byte(`{"abi":0,"snapshot":"memory","functions":[{"name":"f","kind":"process","keyed":true}]}`)}}
	})
	for problem, wasm := range map[string][]byte{
		"uses threads (shared memory)":  withSection(t, good, 5, []byte{1, 3, 32, 64}),
		"imports the memory env.memory": withSection(t, good, 2, slices.Concat([]byte{2}, importSection(t, good)[1:], []byte("\x03env\x06memory\x02\x00\x20"))),
	} {
		if _, err := compile(t, wasm, nil); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("error %v, expected %q", err, problem)
		}
		if r, err := Inspect(wasm); err != nil || !strings.Contains(strings.Join(r.Problems, "; "), problem) {
			t.Errorf("inspect: %v, problems %q, expected %q", err, r.Problems, problem)
		}
	}
}

// eachSection gives the sections of a module: whole, and what is behind the length.
func eachSection(t *testing.T, wasm []byte, f func(id byte, whole, payload []byte)) {
	t.Helper()
	for at := 8; at < len(wasm); {
		n, used := binary.Uvarint(wasm[at+1:])
		end := at + 1 + used + int(n)
		f(wasm[at], wasm[at:end], wasm[at+1+used:end])
		at = end
	}
}

func importSection(t *testing.T, wasm []byte) (payload []byte) {
	t.Helper()
	eachSection(t, wasm, func(id byte, _, p []byte) {
		if id == 2 {
			payload = p
		}
	})
	return payload
}

// withSection puts another payload into a section.
func withSection(t *testing.T, wasm []byte, id byte, payload []byte) []byte {
	t.Helper()
	out := append([]byte(nil), wasm[:8]...)
	eachSection(t, wasm, func(is byte, whole, _ []byte) {
		if is == id {
			out = append(binary.AppendUvarint(append(out, id), uint64(len(payload))), payload...)
			return
		}
		out = append(out, whole...)
	})
	return out
}
