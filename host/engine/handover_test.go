package engine

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/guests/cases"
	"github.com/millrace-io/millrace/host/engine/enginetest"
	"github.com/millrace-io/millrace/operators/guestop"
)

// ledgerModules are the guests that keep everything in their own variables.
func ledgerModules(t *testing.T) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for _, l := range []string{"c", "rust", "assemblyscript"} {
		all[l] = cases.In("ledger", l)
	}
	if testing.Short() {
		return all
	}
	out := filepath.Join(t.TempDir(), "ledger.wasm")
	build := exec.Command("go", "build", "-buildmode=c-shared", "-ldflags=-w", "-o", out, ".")
	build.Dir = filepath.Join("..", "..", "guests", "cases", "ledger", "go")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	wasm, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	all["go"] = wasm
	return all
}

// makesLedgers compiles each module once and makes instances of it.
func makesLedgers(t *testing.T, o Options, all map[string][]byte) func(language string) *kitchen {
	t.Helper()
	e, modules := newEngine(t, o), map[string]guestop.Module{}
	for l, wasm := range all {
		m, err := e.Compile(context.Background(), wasm, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := m.(*Module).Close(); err != nil {
				t.Error(err)
			}
		})
		modules[l] = m
	}
	return func(language string) *kitchen { return newGoGuest(t, modules[language]) }
}

// book sends records to a ledger and returns its lines.
func (k *kitchen) book(from, n, keys int) string {
	k.Helper()
	var lines strings.Builder
	for i := from; i < from+n; {
		var b abi.Batch
		for ; i < from+n && b.Len() < abi.DefaultBatchRecords; i++ {
			key := fmt.Sprintf("key-%d", i*7919%keys)
			b.Append(&abi.Record{Key: []byte(key), Value: fmt.Appendf(nil, "%s %d", key, i)})
		}
		block := enginetest.Block(&b, 0)
		in, err := k.In(len(block))
		if err != nil {
			k.Fatal(err)
		}
		copy(in, block)
		for first := uint32(0); int(first) < b.Len(); {
			o := k.Call(len(block), first)
			if o.Fault != nil {
				k.Fatal(o.Fault)
			}
			for _, r := range enginetest.Frames(k.Out()) {
				lines.Write(r.Value)
				lines.WriteByte('\n')
			}
			first = o.Consumed
		}
	}
	return lines.String()
}

func TestLedgersGoOn(t *testing.T) { ledgersGoOn(t, Options{}, Options{Interpreter: true}) }

// ledgersGoOn: in each language, an instance that adopts goes on as the original does, its memory grown on the way;
// so does one of the next language that loads what the original saves.
func ledgersGoOn(t *testing.T, from, to Options) {
	t.Helper()
	all := ledgerModules(t)
	languages := slices.Sorted(maps.Keys(all))
	before, after := makesLedgers(t, from, all), makesLedgers(t, to, all)
	const keys = 3000
	for i, language := range languages {
		a, b := before(language), after(language)
		size := a.Memory()
		a.book(0, 2*keys, keys)
		if a.Memory() <= size && language != "go" {
			t.Errorf("%s: the memory did not grow from %d bytes", language, size)
		}
		var book album
		book.take(t, a.Guest)
		b.book(5, 40, 11) // its own life ends
		if err := b.Adopt(captureSeed, book.Image, book.fill); err != nil {
			t.Fatalf("%s: %v", language, err)
		}
		next := languages[(i+1)%len(languages)]
		c := after(next)
		var stream []byte
		if err := b.Save(func(part []byte) error { stream = append(stream, part...); return nil }); err != nil {
			t.Fatalf("%s: %v", language, err)
		}
		for part := range slices.Chunk(stream, 777) {
			if err := c.Load(part); err != nil {
				t.Fatalf("%s to %s: %v", language, next, err)
			}
		}
		if err := c.Load(nil); err != nil {
			t.Fatalf("%s to %s: %v", language, next, err)
		}
		want := a.book(2*keys, keys+100, keys+50)
		if got := b.book(2*keys, keys+100, keys+50); got != want {
			t.Errorf("%s: who adopted does not go on as the original", language)
		}
		if got := c.book(2*keys, keys+100, keys+50); got != want {
			t.Errorf("%s to %s: who loaded does not go on as the original", language, next)
		}
		if !strings.Contains(want, `"count":3`) {
			t.Errorf("%s: lines %.200s", language, want)
		}
		for what, bad := range map[string][]byte{"another version": {9}, "cut": stream[:len(stream)-1]} {
			d := after(language)
			err := d.Load(bad)
			if err == nil {
				err = d.Load(nil)
			}
			if err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("%s: error %v, expected %q", language, err, what)
			}
		}
	}
}

// TestSaveAndLoadAreHeldToTheContract: what the exports return is checked, and a module that says it has them has to.
func TestSaveAndLoadAreHeldToTheContract(t *testing.T) {
	k := newKitchen(t, Options{}, guestop.InstanceOptions{})
	if err := k.Save(func([]byte) error { return nil }); err == nil || !strings.Contains(err.Error(), "no such export") {
		t.Errorf("error %v", err)
	}
	if err := k.Load(nil); err == nil || !strings.Contains(err.Error(), "no such export") {
		t.Errorf("error %v", err)
	}
	wasm := string(cases.In("ledger", "c"))
	for problem, bad := range map[string]string{
		"there is no export mr_save":   strings.Replace(wasm, "\x07mr_save", "\x07mr_sava", 1),
		"there is no export mr_load":   strings.Replace(wasm, "\x07mr_load", "\x07mr_loud", 1),
		"is of modules with snapshot ": strings.Replace(wasm, `"snapshot":"memory",`, strings.Repeat(" ", 20), 1),
	} {
		if _, err := compile(t, []byte(bad), nil); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("error %v, expected %q", err, problem)
		}
	}
}
