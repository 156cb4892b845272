package runs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/faultfs"
)

type kv struct {
	hash  uint64
	key   string
	value string
	tomb  bool
}

func byKey(a, b kv) int {
	return cmp.Or(cmp.Compare(a.hash, b.hash), strings.Compare(a.key, b.key))
}

// shape makes entries: few hashes with many keys each, many hashes, or one, with a few huge entries.
func shape(rng *rand.Rand, n, hashes int, big bool) []kv {
	hs := make([]uint64, hashes)
	for i := range hs {
		hs[i] = rng.Uint64()
	}
	if rng.IntN(3) == 0 {
		hs[0] = 0
		hs[len(hs)-1] = 1<<64 - 1
	}
	var es []kv
	for range n {
		e := kv{hash: hs[rng.IntN(len(hs))], key: fmt.Sprintf("%0*d", rng.IntN(30), rng.IntN(4*n)), tomb: rng.IntN(8) == 0}
		if !e.tomb {
			e.value = strings.Repeat(string(rune('a'+rng.IntN(26))), rng.IntN(60))
		}
		if big && rng.IntN(40) == 0 {
			e.key += strings.Repeat("k", rng.IntN(6000))
			if !e.tomb {
				e.value = strings.Repeat("v", rng.IntN(30000))
			}
		}
		es = append(es, e)
	}
	slices.SortFunc(es, byKey)
	return slices.CompactFunc(es, func(a, b kv) bool { return byKey(a, b) == 0 })
}

func write(t testing.TB, path string, es []kv) Info {
	t.Helper()
	w, err := NewWriter(state.OS{}, path)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range es {
		if err := w.Add(e.hash, []byte(e.key), []byte(e.value), e.tomb); err != nil {
			t.Fatal(err)
		}
	}
	info, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func open(t testing.TB, path string) *Run {
	t.Helper()
	r, err := Open(state.OS{}, path, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func collect(next func() bool, hash func() uint64, key, value func() []byte, tomb func() bool) (es []kv) {
	for next() {
		es = append(es, kv{hash(), string(key()), string(value()), tomb()})
	}
	return es
}

func all(it *Iter) []kv { return collect(it.Next, it.Hash, it.Key, it.Value, it.Tombstone) }

func seeded(t *testing.T) *rand.Rand {
	seed := rand.Uint64()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 1))
}

// TestRunAgainstModel writes runs of many shapes and reads them back in every way.
func TestRunAgainstModel(t *testing.T) {
	rng := seeded(t)
	for round := range 60 {
		n := []int{0, 1, 2, 80, 500, 3000}[round%6]
		es := shape(rng, n, max(1, []int{n, 3, 1, n / 20}[rng.IntN(4)]), round%2 == 1)
		path := filepath.Join(t.TempDir(), "a.run")
		info := write(t, path, es)
		r := open(t, path)
		if st, _ := os.Stat(path); st.Size() != info.Size || int(info.Count) != len(es) || r.Info() != info {
			t.Fatalf("info %+v, opened %+v, file %d, entries %d", info, r.Info(), st.Size(), len(es))
		}
		if got := all(r.Iter(0, 1<<64-1)); !slices.Equal(got, es) {
			t.Fatalf("round %d: iterated %d of %d entries or others", round, len(got), len(es))
		}
		checkGets(t, rng, r, es)
		checkSeeks(t, rng, r, es)
	}
}

func checkGets(t *testing.T, rng *rand.Rand, r *Run, es []kv) {
	t.Helper()
	var ls []Lookup
	var want []kv
	layers := []Layer{{}, {Run: r, Lo: 0, Hi: 1<<64 - 1}}
	for i, e := range es {
		if i%3 == 0 {
			v, tomb, ok, err := r.Get(e.hash, []byte(e.key))
			if err != nil || !ok || tomb != e.tomb || string(v) != e.value {
				t.Fatalf("get %x %.20q: %.20q %v %v %v", e.hash, e.key, v, tomb, ok, err)
			}
		}
		ls = append(ls, Lookup{Hash: e.hash, Key: []byte(e.key), Runs: layers})
		want = append(want, e)
		absent := kv{hash: e.hash, key: e.key + "\x00"}
		if rng.IntN(2) == 0 {
			absent.hash = rng.Uint64()
		}
		if _, there := slices.BinarySearchFunc(es, absent, byKey); !there {
			ls = append(ls, Lookup{Hash: absent.hash, Key: []byte(absent.key), Runs: layers})
			want = append(want, kv{hash: 1, key: "absent"})
		}
	}
	if err := GetAll(ls); err != nil {
		t.Fatal(err)
	}
	for i, l := range ls {
		w := want[i]
		if l.Found == (w.key == "absent") || l.Found && (l.Tombstone != w.tomb || string(l.Value) != w.value) {
			t.Fatalf("batched get %x %.20q: found %v %.20q", l.Hash, l.Key, l.Found, l.Value)
		}
	}
}

func checkSeeks(t *testing.T, rng *rand.Rand, r *Run, es []kv) {
	t.Helper()
	for range 50 {
		x := kv{hash: rng.Uint64()}
		if len(es) > 0 && rng.IntN(4) > 0 {
			e := es[rng.IntN(len(es))]
			x = kv{hash: e.hash, key: e.key[:rng.IntN(len(e.key)+1)]}
		}
		hi := x.hash
		if rng.IntN(2) == 0 {
			hi = max(hi, rng.Uint64())
		}
		var want []kv
		for _, e := range es {
			if byKey(e, x) >= 0 && e.hash <= hi {
				want = append(want, e)
			}
		}
		it := r.Iter(rng.Uint64N(x.hash|1), hi)
		it.Seek(x.hash, []byte(x.key))
		if got := all(it); it.Err() != nil || !slices.Equal(got, want) {
			t.Fatalf("from %x %.20q to %x: %d entries, expected %d, %v", x.hash, x.key, hi, len(got), len(want), it.Err())
		}
	}
}

// TestMerge compares a merge with a map laid over from the oldest run to the newest.
func TestMerge(t *testing.T) {
	rng := seeded(t)
	for round := range 30 {
		var layers []Layer
		model := map[[2]string]kv{}
		var lists [][]kv
		hs := 1 + rng.IntN(200)
		for range 1 + rng.IntN(5) {
			es := shape(rand.New(rand.NewPCG(uint64(round), uint64(rng.IntN(3)))), rng.IntN(300), hs, false)
			for i := range es {
				es[i].value += fmt.Sprint(len(lists))
				if es[i].tomb = rng.IntN(4) == 0; es[i].tomb {
					es[i].value = ""
				}
			}
			lists = append(lists, es)
		}
		drop := rng.IntN(2) == 0
		lo, hi := uint64(0), uint64(1<<64-1)
		if rng.IntN(2) == 0 {
			lo, hi = 1<<62, 3<<62-1
		}
		for i := len(lists) - 1; i >= 0; i-- { // oldest first
			clip := Layer{Lo: 0, Hi: 1<<64 - 1}
			if rng.IntN(3) == 0 {
				clip.Lo, clip.Hi = 1<<61, 1<<63
			}
			for _, e := range lists[i] {
				if e.hash >= max(lo, clip.Lo) && e.hash <= min(hi, clip.Hi) {
					model[[2]string{fmt.Sprint(e.hash), e.key}] = e
				}
			}
			path := filepath.Join(t.TempDir(), "x.run")
			write(t, path, lists[i])
			clip.Run = open(t, path)
			layers = append([]Layer{clip}, layers...)
		}
		var want []kv
		for _, e := range model {
			if !e.tomb || !drop {
				want = append(want, e)
			}
		}
		slices.SortFunc(want, byKey)
		out := filepath.Join(t.TempDir(), "m.run")
		w, _ := NewWriter(state.OS{}, out)
		if err := Merge(context.Background(), w, layers, lo, hi, drop); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Finish(); err != nil {
			t.Fatal(err)
		}
		if got := all(open(t, out).Iter(0, 1<<64-1)); !slices.Equal(got, want) {
			t.Fatalf("round %d: %d entries, expected %d", round, len(got), len(want))
		}
	}
}

// TestCorruption flips bytes and cuts the file at every place: either reading fails with ErrCorrupt and
// the file's name, or all entries are right (a flip in a block of which nothing is read is not seen).
func TestCorruption(t *testing.T) {
	rng := seeded(t)
	es := shape(rng, 150, 150, false)
	es = append(es, kv{hash: 1<<64 - 1, key: "~", value: strings.Repeat("x", 9000)})
	dir := t.TempDir()
	good := filepath.Join(dir, "good.run")
	write(t, good, es)
	data, _ := os.ReadFile(good)
	bad := filepath.Join(dir, "bad.run")
	check := func(what string, b []byte) {
		if err := os.WriteFile(bad, b, 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := Open(state.OS{}, bad, true)
		if !errors.Is(err, state.ErrCorrupt) || !strings.Contains(err.Error(), bad) {
			t.Fatalf("%s: opened and verified with %v", what, err)
		}
		r, err := Open(state.OS{}, bad, false)
		if err != nil {
			return
		}
		defer r.Close()
		it := r.Iter(0, 1<<64-1)
		if got := all(it); !errors.Is(it.Err(), state.ErrCorrupt) || !slices.Equal(got, es[:len(got)]) {
			t.Fatalf("%s: iterated %d with %v", what, len(got), it.Err())
		}
		for _, e := range es {
			v, tomb, ok, err := r.Get(e.hash, []byte(e.key))
			if err == nil && (!ok || tomb != e.tomb || string(v) != e.value) {
				t.Fatalf("%s: get gave %.20q %v %v", what, v, tomb, ok)
			} else if err != nil && (!errors.Is(err, state.ErrCorrupt) || !strings.Contains(err.Error(), "block")) {
				t.Fatalf("%s: %v", what, err)
			}
		}
	}
	for i := 0; i < len(data); i += 1 + rng.IntN(25) {
		b := bytes.Clone(data)
		b[i] ^= byte(1 + rng.IntN(255))
		check(fmt.Sprintf("byte %d flipped", i), b)
	}
	for n := 0; n < len(data); n += 1 + rng.IntN(200) {
		check(fmt.Sprintf("cut to %d", n), data[:n])
	}
	check("longer", append(bytes.Clone(data), 0))
}

// TestWriterOrder refuses what is out of order, and leaves no file then.
func TestWriterOrder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.run")
	w, _ := NewWriter(state.OS{}, path)
	if err := w.Add(5, []byte("k"), nil, false); err != nil {
		t.Fatal(err)
	}
	if err := w.Add(5, []byte("k"), nil, false); err == nil {
		t.Fatal("took an entry twice")
	}
	if _, err := w.Finish(); err == nil {
		t.Fatal("finished a run out of order")
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("file left: %v", err)
	}
}

// TestWriterFaults fails each operation in turn: an error of the right kind, and no file.
func TestWriterFaults(t *testing.T) {
	rng := seeded(t)
	es := shape(rng, 4000, 4000, true)
	for _, op := range []faultfs.Op{faultfs.Create, faultfs.Write, faultfs.Sync, faultfs.Close} {
		for nth := 1; nth < 4; nth++ {
			fs := faultfs.New()
			n := 0
			fs.Hook(func(o faultfs.Op, _ string) error {
				if o == op {
					if n++; n == nth {
						return syscall.ENOSPC
					}
				}
				return nil
			})
			path := filepath.Join(t.TempDir(), "a.run")
			w, err := NewWriter(fs, path)
			if err == nil {
				for _, e := range es {
					if err = w.Add(e.hash, []byte(e.key), []byte(e.value), e.tomb); err != nil {
						w.Abort()
						break
					}
				}
			}
			if err == nil {
				_, err = w.Finish()
			}
			if fs.Hits() == 0 {
				continue
			}
			if !errors.Is(err, state.ErrStorageFull) {
				t.Fatalf("%s %d: %v", op, nth, err)
			}
			if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
				t.Fatalf("%s %d: file left: %v", op, nth, err)
			}
		}
	}
}

// TestNewerVersion is refused, and not called corrupt.
func TestNewerVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.run")
	write(t, path, []kv{{hash: 1, key: "k"}})
	b, _ := os.ReadFile(path)
	f := b[len(b)-footerSize:]
	f[8]++
	binary.LittleEndian.PutUint32(f[124:], checksum(f[:124]))
	os.WriteFile(path, b, 0o644)
	if _, err := Open(state.OS{}, path, false); err == nil || errors.Is(err, state.ErrCorrupt) || !strings.Contains(err.Error(), "format version 2") {
		t.Fatal(err)
	}
}
