package memimage_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/memimage"
	"github.com/millrace-io/millrace/state/statetest"
)

// machine stands for an instance: a memory that grows, and a global.
type machine struct {
	memory []byte
	global uint64
}

func (m *machine) capture(seed uint64, prev *memimage.Image, page func(n int, b []byte) error) (*memimage.Image, error) {
	img := &memimage.Image{Module: strings.Repeat("ab", 32), Globals: []memimage.Global{{Index: 3, Bits: m.global}}, In: 8, Out: 16, InBytes: 24}
	for n := 0; n*memimage.PageBytes < len(m.memory); n++ {
		b := m.memory[n*memimage.PageBytes : (n+1)*memimage.PageBytes]
		h, was := memimage.HashOf(b, seed), memimage.ZeroHash(seed)
		img.Pages = append(img.Pages, h)
		if prev != nil && n < len(prev.Pages) {
			was = prev.Pages[n]
		}
		if h != was {
			if err := page(n, b); err != nil {
				return nil, err
			}
		}
	}
	return img, nil
}

func (m *machine) adopt(seed uint64, img *memimage.Image, page func(n int, b []byte) error) error {
	m.memory = make([]byte, len(img.Pages)*memimage.PageBytes)
	m.global = img.Globals[0].Bits
	for n, h := range img.Pages {
		if h != memimage.ZeroHash(seed) {
			if err := page(n, m.memory[n*memimage.PageBytes:(n+1)*memimage.PageBytes]); err != nil {
				return err
			}
		}
	}
	return nil
}

// change writes some bytes, clears a page, or grows.
func (m *machine) change(rng *rand.Rand) {
	for range rng.IntN(8) {
		switch rng.IntN(5) {
		case 0:
			n := rng.IntN(len(m.memory) / memimage.PageBytes)
			clear(m.memory[n*memimage.PageBytes : (n+1)*memimage.PageBytes])
		case 1:
			if len(m.memory) < 1<<20 {
				m.memory = append(m.memory, make([]byte, memimage.PageBytes*(1+rng.IntN(4)))...)
			}
		default:
			m.memory[rng.IntN(len(m.memory))] = byte(rng.Uint32())
		}
	}
	m.global = rng.Uint64()
}

func wait(t *testing.T, c *memimage.Cut) memimage.Snapshot {
	t.Helper()
	<-c.Done()
	s, err := c.Result()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestCutsRestore: over random changes, commits, losses of what was never committed, and restarts from any
// complete snapshot, an instance comes back byte for byte.
func TestCutsRestore(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	dir := t.TempDir()
	objects := statetest.NewObjects(dir)
	open := func() *memimage.Keeper {
		k, err := memimage.New(memimage.Config{Dir: t.TempDir(), Objects: objects, Seed: rng.Uint64()})
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	type kept struct {
		memimage.Snapshot
		machine
	}
	m := &machine{memory: make([]byte, 16*memimage.PageBytes)}
	k := open()
	var complete []kept
	rewritten, sure := 0, map[string]bool{}
	for step := range 300 {
		m.change(rng)
		c, err := k.Cut(context.Background(), m.capture)
		if err != nil {
			t.Fatal(err)
		}
		s := wait(t, c)
		if len(s.Packs) <= 1 {
			rewritten++
		}
		if rng.IntN(3) > 0 {
			k.Committed(c)
			complete = append(complete, kept{s, machine{append([]byte(nil), m.memory...), m.global}})
			for _, f := range append(s.Packs, s.Table) {
				sure[f.Object] = true
			}
		} else if rng.IntN(2) == 0 { // given up: the store forgets what no complete snapshot names
			for _, f := range append(s.Packs, s.Table) {
				if !sure[f.Object] {
					if err := os.Remove(filepath.Join(dir, f.Object)); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		if len(complete) == 0 || rng.IntN(10) > 0 {
			continue
		}
		from := complete[max(0, len(complete)-1-rng.IntN(3))]
		k, m = open(), &machine{}
		if err := k.Restore(context.Background(), from.Snapshot, m.adopt); err != nil {
			t.Fatalf("seed %d, step %d: %v", seed, step, err)
		}
		if string(m.memory) != string(from.memory) || m.global != from.global {
			t.Fatalf("seed %d, step %d: restored is not what was", seed, step)
		}
	}
	if rewritten < 2 {
		t.Errorf("seed %d: the pages were rewritten %d times", seed, rewritten)
	}
}

// TestDamage: whatever is altered in the files is found, with the object's name.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	objects := statetest.NewObjects(t.TempDir())
	m := &machine{memory: make([]byte, 16*memimage.PageBytes)}
	for i := range m.memory {
		m.memory[i] = byte(i * 7)
	}
	k, err := memimage.New(memimage.Config{Dir: filepath.Join(dir, "work"), Objects: objects, Seed: 9})
	if err != nil {
		t.Fatal(err)
	}
	c, err := k.Cut(context.Background(), m.capture)
	if err != nil {
		t.Fatal(err)
	}
	s := wait(t, c)
	for _, object := range []string{s.Table.Object, s.Packs[0].Object} {
		path, err := objects.Path(context.Background(), object)
		if err != nil {
			t.Fatal(err)
		}
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, spoil := range []func(b []byte) []byte{
			func(b []byte) []byte { b[len(b)/2]++; return b },
			func(b []byte) []byte { return b[:len(b)-1] },
			func(b []byte) []byte { b[0] ^= 0x80; return b },
		} {
			if err := os.Chmod(path, 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, spoil(append([]byte(nil), good...)), 0o644); err != nil {
				t.Fatal(err)
			}
			fresh, err := memimage.New(memimage.Config{Dir: t.TempDir(), Objects: objects})
			if err != nil {
				t.Fatal(err)
			}
			err = fresh.Restore(context.Background(), s, (&machine{}).adopt)
			if !errors.Is(err, state.ErrCorrupt) || !strings.Contains(err.Error(), object) {
				t.Errorf("error %v, expected damage of %s", err, object)
			}
		}
		if err := os.WriteFile(path, good, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDamageIsNotMoved: a page that is no longer what was captured does not get into the pack that takes all over;
// the cut behind it has everything from memory again.
func TestDamageIsNotMoved(t *testing.T) {
	ctx := context.Background()
	objects := statetest.NewObjects(t.TempDir())
	m := &machine{memory: make([]byte, 40*memimage.PageBytes)}
	for i := range m.memory {
		m.memory[i] = byte(i * 7)
	}
	k, err := memimage.New(memimage.Config{Dir: t.TempDir(), Objects: objects, Seed: 9})
	if err != nil {
		t.Fatal(err)
	}
	cut := func() (memimage.Snapshot, error) {
		c, err := k.Cut(ctx, m.capture)
		if err != nil {
			t.Fatal(err)
		}
		<-c.Done()
		s, err := c.Result()
		if err == nil {
			k.Committed(c)
		}
		return s, err
	}
	s, err := cut()
	if err != nil {
		t.Fatal(err)
	}
	path, err := objects.Path(ctx, s.Packs[0].Object)
	if err != nil {
		t.Fatal(err)
	}
	bytes, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	bytes[30*memimage.PageBytes]++
	if err := errors.Join(os.Chmod(path, 0o644), os.WriteFile(path, bytes, 0o644)); err != nil {
		t.Fatal(err)
	}
	for i := 0; err == nil && i < 400; i++ {
		m.memory[0]++
		_, err = cut()
	}
	if !errors.Is(err, state.ErrCorrupt) || !strings.Contains(err.Error(), s.Packs[0].Object) || !strings.Contains(err.Error(), "page 30") {
		t.Fatalf("error %v, expected damage of page 30 of %s", err, s.Packs[0].Object)
	}
	after, err := cut()
	if err != nil {
		t.Fatal(err)
	}
	var back machine
	if err := memimage.Read(ctx, memimage.Config{Objects: objects}, after, back.adopt); err != nil || string(back.memory) != string(m.memory) {
		t.Errorf("error %v, or not what was", err)
	}
}
