package ordered

import (
	"bytes"
	"fmt"
	"math/rand"
	"sort"
	"testing"
)

// model is what a tree must hold.
type model struct {
	m map[string]string
}

func (m model) sorted() []string {
	ks := make([]string, 0, len(m.m))
	for k := range m.m {
		ks = append(ks, k)
	}
	sort.Strings(ks)
	return ks
}

func (m model) removeRange(lo, hi string) {
	for k := range m.m {
		if k >= lo && k < hi {
			delete(m.m, k)
		}
	}
}

func dump(t *tree, from string) (out []string) {
	var c cursor
	for c.seek(t, []byte(from)); c.valid(); c.next() {
		out = append(out, string(c.cell().key())+"="+string(c.cell().value()))
	}
	return out
}

func want(m model, from string) (out []string) {
	for _, k := range m.sorted() {
		if k >= from {
			out = append(out, k+"="+m.m[k])
		}
	}
	return out
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d entries, want %d", what, len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("%s: entry %d is %.80q, want %.80q", what, i, got[i], want[i])
		}
	}
}

// check walks the whole tree and compares its books with what is there.
func (t *tree) check(tb testing.TB) {
	tb.Helper()
	pages, entries := 0, int64(0)
	var live int64
	var walk func(id uint32, d int, lo, hi []byte)
	walk = func(id uint32, d int, lo, hi []byte) {
		p := t.page(id)
		pages++
		if p.leaf != (d == t.depth) {
			tb.Fatalf("page %d at level %d of %d: leaf %v", id, d, t.depth, p.leaf)
		}
		used := 0
		for i := range int(p.n) {
			c := p.cell(i)
			used += c.size(p.leaf)
			k := c.key()
			if i > 0 && bytes.Compare(p.cell(i-1).key(), k) >= 0 || lo != nil && bytes.Compare(k, lo) < 0 || hi != nil && bytes.Compare(k, hi) >= 0 {
				tb.Fatalf("page %d: key %d out of order or bounds", id, i)
			}
			if c.flags&flagLongKey != 0 {
				n := int(c.klen)
				if !p.leaf {
					n = longBlock
				}
				_, s := classOf(n)
				live += int64(s)
			}
			if c.flags&flagLongValue != 0 {
				_, s := classOf(int(c.x))
				if int(c.x) > largestShared {
					s = int(c.x+4095) &^ 4095
				}
				live += int64(s)
			}
		}
		if used+int(p.dead) != pageSize-int(p.top) {
			tb.Fatalf("page %d: cells %d + dead %d, top %d", id, used, p.dead, p.top)
		}
		if p.leaf {
			entries += int64(p.n)
			return
		}
		for i := 0; i <= int(p.n); i++ {
			l, h := lo, hi
			if i > 0 {
				l = p.cell(i - 1).key()
			}
			if i < int(p.n) {
				h = p.cell(i).key()
			}
			walk(p.child(i), d+1, l, h)
		}
	}
	if t.root != 0 {
		walk(t.root, 0, nil, nil)
	}
	if entries != t.count {
		tb.Fatalf("%d entries, count says %d", entries, t.count)
	}
	if t.open == 0 && (pages != t.pages.live || live != t.blocks.live) {
		tb.Fatalf("%d pages and %d block bytes reachable, %d and %d handed out", pages, live, t.pages.live, t.blocks.live)
	}
}

func randKey(r *rand.Rand, long bool) string {
	k := fmt.Sprintf("%04d", r.Intn(3000))
	if long {
		switch r.Intn(4) {
		case 0: // a long shared prefix
			return string(bytes.Repeat([]byte("p"), 1000)) + k
		case 1:
			return k + string(bytes.Repeat([]byte("x"), 500))
		}
	}
	return k
}

func randValue(r *rand.Rand, n int) string {
	size := r.Intn(40)
	switch r.Intn(20) {
	case 0:
		size = 280 + r.Intn(600)
	case 1:
		if r.Intn(20) == 0 {
			size = 100_000 + r.Intn(80_000)
		}
	}
	b := bytes.Repeat([]byte{byte('a' + n%26)}, size)
	return string(b)
}

// TestTreeAgainstModel runs random changes with iterators open across them: each must see what was there
// when it was opened.
func TestTreeAgainstModel(t *testing.T) {
	for _, long := range []bool{false, true} {
		seed := rand.Int63()
		t.Logf("seed %d long %v", seed, long)
		r := rand.New(rand.NewSource(seed))
		tr, m := newTree(), model{map[string]string{}}
		type view struct {
			c    cursor
			got  []string
			want []string
		}
		var views []*view
		for n := range 30_000 {
			k := randKey(r, long)
			switch x := r.Intn(1000); {
			case x < 550:
				v := randValue(r, n)
				if err := tr.put([]byte(k), []byte(v), kindValue); err != nil {
					t.Fatal(err)
				}
				m.m[k] = v
			case x < 950:
				_, in := m.m[k]
				if ok, err := tr.del([]byte(k)); err != nil || ok != in {
					t.Fatalf("del %q: %v %v, want %v", k, ok, err, in)
				}
				delete(m.m, k)
			case x < 953:
				hi := randKey(r, long)
				if hi < k {
					k, hi = hi, k
				}
				if r.Intn(3) > 0 {
					hi = min(hi, k+"5")
				}
				if _, _, err := tr.removeRange([]byte(k), []byte(hi)); err != nil {
					t.Fatal(err)
				}
				m.removeRange(k, hi)
			case x < 957 && len(views) < 3:
				v := &view{want: want(m, k)}
				tr.opened()
				v.c.seek(tr, []byte(k))
				views = append(views, v)
			default:
				for i, v := range views {
					for s := r.Intn(100); s > 0 && v.c.valid(); s-- {
						v.got = append(v.got, string(v.c.cell().key())+"="+string(v.c.cell().value()))
						v.c.next()
					}
					if !v.c.valid() {
						same(t, "iterator", v.got, v.want)
						tr.closed()
						views = append(views[:i], views[i+1:]...)
						break
					}
				}
			}
			v, _, ok := tr.get([]byte(k))
			if w, in := m.m[k]; ok != in || string(v) != w {
				t.Fatalf("get %.40q at %d: %v, want %v", k, n, ok, in)
			}
			if n%1000 == 0 {
				same(t, "scan", dump(tr, ""), want(m, ""))
				tr.check(t)
			}
		}
		for tr.open > 0 {
			tr.closed()
		}
		tr.check(t)
		if _, _, err := tr.removeRange(nil, []byte{0xFF}); err != nil || tr.count != 0 {
			t.Fatal(err, tr.count)
		}
		tr.check(t)
		if tr.pages.live > 1 || tr.blocks.live != 0 {
			t.Fatalf("empty tree holds %d pages, %d block bytes", tr.pages.live, tr.blocks.live)
		}
		tr.close()
	}
}

func BenchmarkTree(b *testing.B) {
	for _, n := range []int{10_000, 1_000_000} {
		tr := newTree()
		var k [28]byte
		r := rand.New(rand.NewSource(1))
		key := func(i int) []byte {
			h := uint64(i) * 0x9e3779b97f4a7c15
			for j := range 8 {
				k[j] = byte(h >> (56 - 8*j))
			}
			copy(k[8:], fmt.Sprintf("%010d", i))
			return k[:]
		}
		keys := make([][]byte, n)
		for i := range keys {
			keys[i] = append([]byte(nil), key(i)...)
		}
		v := make([]byte, 16)
		b.Run(fmt.Sprintf("insert/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				_ = tr.put(keys[i%n], v, kindValue)
			}
		})
		for i := range keys {
			_ = tr.put(keys[i], v, kindValue)
		}
		b.Run(fmt.Sprintf("update/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				_ = tr.put(keys[r.Intn(n)], v, kindValue)
			}
		})
		b.Run(fmt.Sprintf("get/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				tr.get(keys[r.Intn(n)])
			}
		})
		b.Logf("%d bytes per entry", tr.bytes()/tr.count)
		tr.close()
	}
}
