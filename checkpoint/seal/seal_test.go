package seal

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/checkpoint"
)

func key(t testing.TB, fill byte) Key {
	t.Helper()
	k, err := NewKey(bytes.Repeat([]byte{fill}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

var here = Context{Tenant: "acme", Job: "payments", Task: "count/1", Sequence: 7, Name: strings.Repeat("a", 64)}

func sealed(t testing.TB, k Key, c Context, data []byte, seed uint64) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Seal(&b, bytes.NewReader(data), k, c, rand.NewChaCha8([32]byte{byte(seed)})); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestSealedFilesOpen(t *testing.T) {
	k := key(t, 1)
	for _, n := range []int{0, 1, chunk - 1, chunk, chunk + 1, 3 * chunk, 3*chunk + 7} {
		data := bytes.Repeat([]byte("millrace"), n/8+1)[:n]
		file := sealed(t, k, here, data, 1)
		if bytes.Contains(file, []byte("millracemillrace")) {
			t.Errorf("%d bytes: contents are in clear", n)
		}
		var b bytes.Buffer
		if err := Open(&b, bytes.NewReader(file), []Key{key(t, 2), k}, here); err != nil || !bytes.Equal(b.Bytes(), data) {
			t.Errorf("%d bytes: %d, %v", n, b.Len(), err)
		}
		if id, c, err := Peek(bytes.NewReader(file)); err != nil || id != k.ID || c != here {
			t.Errorf("%s %+v %v", id, c, err)
		}
		_, prefix, _ := readPrefix(bytes.NewReader(file))
		if got := Overhead(int64(n)) + int64(len(prefix)-len(Magic)-2-saltBytes); got != int64(len(file)-n) {
			t.Errorf("%d bytes: overhead %d, said %d", n, len(file)-n, got)
		}
	}
	if bytes.Equal(sealed(t, k, here, nil, 1), sealed(t, k, here, nil, 2)) {
		t.Error("two files share a salt")
	}
}

// TestEveryChangeOfASealedFileIsSeen: each bit, each length, each other order of chunks.
func TestEveryChangeOfASealedFileIsSeen(t *testing.T) {
	k := key(t, 1)
	open := func(file []byte) error { return Open(&bytes.Buffer{}, bytes.NewReader(file), []Key{k}, here) }
	small := sealed(t, k, here, []byte("some state"), 1)
	for i := range small {
		for bit := range 8 {
			bad := bytes.Clone(small)
			bad[i] ^= 1 << bit
			if open(bad) == nil {
				t.Fatalf("bit %d of byte %d flipped unseen", bit, i)
			}
		}
		if open(small[:i]) == nil {
			t.Fatalf("cut to %d bytes unseen", i)
		}
	}
	if open(append(bytes.Clone(small), 0)) == nil {
		t.Error("a byte more is not seen")
	}
	large := sealed(t, k, here, make([]byte, 3*chunk+5), 1)
	_, prefix, _ := readPrefix(bytes.NewReader(large))
	start, size := len(prefix), chunk+tagBytes
	cut := func(parts ...[]byte) []byte { return bytes.Join(append([][]byte{prefix}, parts...), nil) }
	part := func(i int) []byte { return large[start+i*size : min(start+(i+1)*size, len(large))] }
	for name, bad := range map[string][]byte{
		"swapped": cut(part(1), part(0), part(2), part(3)), "dropped": cut(part(0), part(2), part(3)),
		"twice": cut(part(0), part(1), part(1), part(2), part(3)), "without its end": cut(part(0), part(1), part(2)),
	} {
		if err := open(bad); !errors.Is(err, ErrTampered) || !strings.Contains(err.Error(), "chunk") {
			t.Errorf("chunks %s: %v", name, err)
		}
	}
}

func TestOtherFilesAreNamed(t *testing.T) {
	k := key(t, 1)
	file := sealed(t, k, here, []byte("x"), 1)
	for want, change := range map[string]func(*Context){
		`tenant is "acme", expected "other"`:    func(c *Context) { c.Tenant = "other" },
		`job is "payments", expected "other"`:   func(c *Context) { c.Job = "other" },
		`task is "count/1", expected "count/0"`: func(c *Context) { c.Task = "count/0" },
		`sequence is "7", expected "8"`:         func(c *Context) { c.Sequence = 8 },
		`name is "` + here.Name:                 func(c *Context) { c.Name = "manifest" },
	} {
		c := here
		change(&c)
		if err := Open(&bytes.Buffer{}, bytes.NewReader(file), []Key{k}, c); !errors.Is(err, ErrContext) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	// A header that was rewritten to fit does not open either.
	forged := bytes.Replace(file, []byte(`"acme"`), []byte(`"evil"`), 1)
	c := here
	c.Tenant = "evil"
	if err := Open(&bytes.Buffer{}, bytes.NewReader(forged), []Key{k}, c); !errors.Is(err, ErrTampered) {
		t.Errorf("forged: %v", err)
	}
	if err := Open(&bytes.Buffer{}, bytes.NewReader(file), []Key{key(t, 2)}, here); !errors.Is(err, ErrNoKey) || !strings.Contains(err.Error(), k.ID) {
		t.Errorf("without the key: %v", err)
	}
	if err := Open(&bytes.Buffer{}, strings.NewReader("plain text, and more of it"), []Key{k}, here); !errors.Is(err, ErrNotSealed) {
		t.Errorf("plain: %v", err)
	}
}

func TestKeysByReference(t *testing.T) {
	raw := bytes.Repeat([]byte{0xab}, 32)
	s := Sources{
		Env: func(name string) (string, bool) {
			return map[string]string{"HEX": strings.Repeat("ab", 32) + "\n", "SHORT": "abcd"}[name], name != "NONE"
		},
		File: func(path string) ([]byte, error) {
			if path == "/k" {
				return raw, nil
			}
			return nil, errors.New("no such file")
		},
	}
	a, err := s.Load("env:HEX")
	b, err2 := s.Load("file:/k")
	if err != nil || err2 != nil || a != b {
		t.Errorf("%v %v %v %v", a, b, err, err2)
	}
	for _, bad := range []string{"env:NONE", "env:SHORT", "file:/none", "abcd", "vault:x"} {
		if _, err := s.Load(bad); !errors.Is(err, ErrKey) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if text := fmt.Sprintf("%v %+v %#v %s", a, a, a, a); strings.Contains(text, "171") || strings.Contains(strings.ReplaceAll(text, a.ID, ""), "ab") {
		t.Errorf("the secret shows: %s", text)
	}
}

func TestSignatures(t *testing.T) {
	a, b := key(t, 1), key(t, 2)
	for name, c := range map[string]struct {
		signer checkpoint.Signer
		good   Verifier
		bad    []Verifier
	}{
		"hmac":    {HMAC(a), Verifier{Shared: []Key{b, a}}, []Verifier{{Shared: []Key{b}}, {}, {Public: Verifier{}.Public}}},
		"ed25519": {Ed25519(a), Verifier{Public: append(Verifier{}.Public, Public(Ed25519(b)), Public(Ed25519(a)))}, []Verifier{{Shared: []Key{a}}, {Public: append(Verifier{}.Public, Public(Ed25519(b)))}}},
	} {
		message := []byte("manifest")
		signature, err := c.signer.Sign(message)
		if err != nil {
			t.Fatal(err)
		}
		check := func(v Verifier, message, signature []byte) error {
			return v.Check(c.signer.Algorithm(), c.signer.KeyID(), message, signature)
		}
		if err := check(c.good, message, signature); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := check(c.good, []byte("manifesT"), signature); !errors.Is(err, checkpoint.ErrSignature) {
			t.Errorf("%s: another message: %v", name, err)
		}
		signature[0] ^= 1
		if err := check(c.good, message, signature); !errors.Is(err, checkpoint.ErrSignature) {
			t.Errorf("%s: another signature: %v", name, err)
		}
		signature[0] ^= 1
		for _, v := range c.bad {
			if err := check(v, message, signature); !errors.Is(err, checkpoint.ErrSignature) || !strings.Contains(err.Error(), c.signer.KeyID()) {
				t.Errorf("%s: without the key: %v", name, err)
			}
		}
	}
}
