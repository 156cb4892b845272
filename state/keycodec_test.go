package state

import (
	"bytes"
	"math/rand"
	"testing"
)

// word draws a short string over few bytes, so that prefixes, zeros and escapes meet often.
func word(r *rand.Rand) []byte {
	alphabet := []byte{0x00, 0x01, 0x02, 'a', 'b', 0xFE, 0xFF}
	b := make([]byte, r.Intn(6))
	for i := range b {
		b[i] = alphabet[r.Intn(len(alphabet))]
	}
	return b
}

func compareLogical(a, b Key, ua, ub []byte) int {
	switch {
	case a.Hash < b.Hash:
		return -1
	case a.Hash > b.Hash:
		return 1
	}
	if c := bytes.Compare(a.Bytes, b.Bytes); c != 0 {
		return c
	}
	return bytes.Compare(ua, ub)
}

func checkPair(t *testing.T, a, b Key, ua, ub []byte) {
	t.Helper()
	ca, cb := AppendComposite(nil, a, ua), AppendComposite(nil, b, ub)
	if got, want := bytes.Compare(ca, cb), compareLogical(a, b, ua, ub); got != want {
		t.Fatalf("order of (%x %x %x) and (%x %x %x): bytes %d, logical %d", a.Hash, a.Bytes, ua, b.Hash, b.Bytes, ub, got, want)
	}
	k, u, err := DecodeComposite(ca, nil)
	if err != nil || k.Hash != a.Hash || !bytes.Equal(k.Bytes, a.Bytes) || !bytes.Equal(u, ua) {
		t.Fatalf("decode of %x: %x %x %x, %v", ca, k.Hash, k.Bytes, u, err)
	}
	pa, pb := AppendPrefix(nil, a), AppendPrefix(nil, b)
	if n := PrefixLen(ca); n != len(pa) {
		t.Fatalf("prefix of %x: %d, want %d", ca, n, len(pa))
	}
	same := a.Hash == b.Hash && bytes.Equal(a.Bytes, b.Bytes)
	if bytes.HasPrefix(cb, pa) != same || bytes.HasPrefix(pb, pa) != same {
		t.Fatalf("prefix of key %x and entry of key %x: same key %v", a.Bytes, b.Bytes, same)
	}
	end := PrefixEnd(bytes.Clone(pa))
	marker := ClearMarker(bytes.Clone(pa))
	inside := bytes.Compare(cb, pa) >= 0 && bytes.Compare(cb, end) < 0
	if inside != same {
		t.Fatalf("entry %x in range of key %x: %v", cb, a.Bytes, inside)
	}
	if in := bytes.Compare(cb, marker) >= 0 && bytes.Compare(cb, end) < 0; in != same {
		t.Fatalf("entry %x behind the marker of key %x: %v", cb, a.Bytes, in)
	}
	if !IsClearMarker(marker) || IsClearMarker(ca) || PrefixLen(marker) != len(marker) {
		t.Fatalf("marker of %x is not told from entry %x", a.Bytes, ca)
	}
}

func TestCompositeOrder(t *testing.T) {
	seed := rand.Int63()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewSource(seed))
	for range 50_000 {
		a := Key{Hash: uint64(r.Intn(2)), Bytes: word(r)}
		b := Key{Hash: uint64(r.Intn(2)), Bytes: word(r)}
		checkPair(t, a, b, word(r), word(r))
	}
}

func TestNamespacesDoNotMix(t *testing.T) {
	seed := rand.Int63()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewSource(seed))
	k := Key{Hash: 1, Bytes: []byte("k")}
	for range 20_000 {
		na, nb := word(r), word(r)
		p := AppendNamespaced(nil, k, na, nil)
		e := AppendNamespaced(nil, k, nb, word(r))
		if bytes.HasPrefix(e, p) != bytes.Equal(na, nb) {
			t.Fatalf("namespace %x is a prefix of an entry in %x", na, nb)
		}
	}
}

func TestReadEscapedRefusesDamage(t *testing.T) {
	for _, b := range [][]byte{nil, {'a'}, {0x00}, {'a', 0x00}, {'a', 0x00, 0x03}, {0x00, 0xFF}} {
		if s, _, err := ReadEscaped(nil, b); err == nil {
			t.Errorf("%x decoded as %x, want an error", b, s)
		}
	}
}

func FuzzComposite(f *testing.F) {
	f.Add([]byte("a"), []byte("bc"), []byte("ab"), []byte("c"))
	f.Add([]byte("a\x00"), []byte(""), []byte("a"), []byte("\x00"))
	f.Add([]byte{0xFF, 0xFF}, []byte{}, []byte{0xFF}, []byte{0xFF})
	f.Fuzz(func(t *testing.T, ka, ua, kb, ub []byte) {
		checkPair(t, Key{Hash: 7, Bytes: ka}, Key{Hash: 7, Bytes: kb}, ua, ub)
	})
}
