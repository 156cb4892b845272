package checkpointtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/archive"
	"github.com/millrace-io/millrace/checkpoint/mirror"
	"github.com/millrace-io/millrace/checkpoint/objectstore"
	"github.com/millrace-io/millrace/checkpoint/seal"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
)

func testKey(t *testing.T, fill byte) seal.Key {
	k, err := seal.NewKey(bytes.Repeat([]byte{fill}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// remote is a mirror of a store in memory, as one tenant has it.
func remote(t *testing.T, local *snapstore.Store, tenant string, keys ...seal.Key) (*objectstore.Memory, func() *mirror.Mirror) {
	s := new(objectstore.Memory)
	open := func() *mirror.Mirror {
		o := mirror.Options{Store: s, Job: "j", NowMS: func() int64 { return 1 }, Random: rand.NewChaCha8([32]byte{7}), Tenant: tenant, Keys: keys, AtLeast: 3}
		if len(keys) > 0 {
			o.Signer, o.Verifier = seal.HMAC(keys[0]), seal.Verifier{Shared: keys}
		}
		return mirror.New(o)
	}
	o := mirror.Options{Store: s, Job: "j", NowMS: func() int64 { return 1 }, Random: rand.NewChaCha8([32]byte{1, tenant[0]}), Tenant: tenant, Keys: keys}
	if len(keys) > 0 {
		o.Signer = seal.HMAC(keys[0])
	}
	m := mirror.New(o)
	for id := checkpoint.ID(1); id <= 3; id++ {
		if _, err := m.Push(ctx, local, id); err != nil {
			t.Fatal(err)
		}
	}
	if err := open().Check(ctx); err != nil {
		t.Fatalf("an intact mirror: %v", err)
	}
	return s, open
}

func contents(t *testing.T, s *objectstore.Memory) map[string][]byte {
	list, err := s.List(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, e := range list {
		r, err := s.Get(ctx, e.Key)
		if err != nil {
			t.Fatal(err)
		}
		if all[e.Key], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// TestT7EveryDamageToAMirrorIsSeenAndNamed: bits, lengths, deletions, swaps, older files under newer names, and
// files of another tenant, in clear and sealed; with one sealing key for both tenants too.
func TestT7EveryDamageToAMirrorIsSeenAndNamed(t *testing.T) {
	local, err := snapstore.Open(realStore(t), snapstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	shared := testKey(t, 1)
	for name, keys := range map[string][]seal.Key{"plain": nil, "sealed": {shared}} {
		t.Run(name, func(t *testing.T) {
			s, open := remote(t, local, "acme", keys...)
			other, _ := remote(t, local, "evil", keys...)
			good, foreign := contents(t, s), contents(t, other)
			kinds := map[string]int{}
			for seed := range uint64(*mutations) / 2 {
				rng := rand.New(rand.NewPCG(seed, 70))
				kind, changed := mutateMirror(t, s, good, foreign, rng)
				kinds[kind]++
				err := open().Check(ctx)
				if err == nil {
					t.Errorf("seed %d: not seen: %s of %v", seed, kind, changed)
				} else if !namesOne(err, changed) {
					t.Errorf("seed %d: %s of %v: the error does not name it: %v", seed, kind, changed, err)
				}
				for _, key := range changed {
					put(t, s, key, good[key])
				}
			}
			if err := open().Check(ctx); err != nil {
				t.Fatalf("not repaired: %v", err)
			}
			if len(kinds) < 7 {
				t.Errorf("only %v", kinds)
			}
		})
	}
}

func put(t *testing.T, s *objectstore.Memory, key string, data []byte) {
	t.Helper()
	if err := s.Put(ctx, key, bytes.NewReader(data), int64(len(data)), false); err != nil {
		t.Fatal(err)
	}
}

// namesOne says whether an error names a key, or says that the mirror was rolled back, where the catalog's
// newest generation is gone and with it its name.
func namesOne(err error, keys []string) bool {
	return slices.ContainsFunc(keys, func(key string) bool {
		return strings.Contains(err.Error(), key) || strings.HasPrefix(key, "catalog/") && strings.Contains(err.Error(), "rolled back")
	})
}

// mutateMirror damages one or two files that matter.
func mutateMirror(t *testing.T, s *objectstore.Memory, good, foreign map[string][]byte, rng *rand.Rand) (kind string, changed []string) {
	groups := map[string][]string{}
	for key := range good {
		group, _, _ := strings.Cut(key, "/")
		groups[group] = append(groups[group], key)
	}
	for _, keys := range groups {
		slices.Sort(keys)
	}
	catalogs := groups["catalog"]
	newest := catalogs[len(catalogs)-1]
	// Older generations are not read any more.
	group := [][]string{groups["objects"], groups["objects"], groups["indexes"], {newest}}[rng.IntN(4)]
	key := group[rng.IntN(len(group))]
	data := bytes.Clone(good[key])
	switch rng.IntN(8) {
	case 0:
		put(t, s, key, data[:rng.IntN(len(data))])
		return "truncation", []string{key}
	case 1:
		put(t, s, key, append(data, make([]byte, 1+rng.IntN(9))...))
		return "extension", []string{key}
	case 2:
		if err := s.Delete(ctx, key); err != nil {
			t.Fatal(err)
		}
		return "deletion", []string{key}
	case 3:
		a, b := pair(groups["objects"], rng)
		put(t, s, a, good[b])
		put(t, s, b, good[a])
		return "swap", []string{a, b}
	case 4:
		older := catalogs[rng.IntN(len(catalogs)-1)]
		put(t, s, newest, good[older])
		return "replay of the catalog", []string{newest}
	case 5:
		a, b := pair(groups["indexes"], rng)
		put(t, s, a, good[b])
		return "replay of a manifest", []string{a}
	case 6:
		if theirs := sameFile(key, foreign); theirs != nil && !bytes.Equal(theirs, data) {
			put(t, s, key, theirs)
			return "another tenant's file", []string{key}
		}
	}
	data[rng.IntN(len(data))] ^= 1 << rng.IntN(8)
	put(t, s, key, data)
	return "bit flip", []string{key}
}

func pair(keys []string, rng *rand.Rand) (a, b string) {
	i := rng.IntN(len(keys))
	return keys[i], keys[(i+1+rng.IntN(len(keys)-1))%len(keys)]
}

// sameFile is what another tenant has for the same object, manifest or generation.
func sameFile(key string, foreign map[string][]byte) []byte {
	name, _, _ := strings.Cut(key, ".")
	for other, data := range foreign {
		if n, _, _ := strings.Cut(other, "."); n == name {
			return data
		}
	}
	return nil
}

// TestT7ForgedMirrorsAreSeen: what an attacker does who can write to the bucket and puts whole, consistent files
// of another tenant or of the past there; with the same key for both tenants.
func TestT7ForgedMirrorsAreSeen(t *testing.T) {
	local, err := snapstore.Open(realStore(t), snapstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	k := testKey(t, 1)
	s, open := remote(t, local, "acme", k)
	other, _ := remote(t, local, "evil", k)
	good := contents(t, s)
	for key := range good {
		if err := s.Delete(ctx, key); err != nil {
			t.Fatal(err)
		}
	}
	for key, data := range contents(t, other) {
		put(t, s, key, data)
	}
	if err := open().Check(ctx); err == nil || !strings.Contains(err.Error(), `of tenant "evil"`) {
		t.Errorf("the whole mirror of another tenant: %v", err)
	}
	for key := range contents(t, s) {
		if err := s.Delete(ctx, key); err != nil {
			t.Fatal(err)
		}
	}
	for key, data := range good { // as it was before snapshot 3
		if g := "catalog/" + fmt.Sprintf("%016d", 5); key < g || !strings.HasPrefix(key, "catalog/") {
			put(t, s, key, data)
		}
	}
	if err := open().Check(ctx); err == nil || !strings.Contains(err.Error(), "snapshot 3 was in it") {
		t.Errorf("the mirror of the past: %v", err)
	}
	for key, data := range good {
		put(t, s, key, data)
	}
	unsigned := mirror.New(mirror.Options{Store: s, Job: "j", NowMS: func() int64 { return 1 }, Random: rand.NewChaCha8([32]byte{3}), Tenant: "acme", Keys: []seal.Key{k}})
	if err := unsigned.Delete(ctx, 1); !errors.Is(err, mirror.ErrKeys) {
		t.Errorf("a change without a key to sign it: %v", err)
	}
	newest := ""
	for key := range good {
		if strings.HasPrefix(key, "catalog/") {
			newest = max(newest, key)
		}
	}
	_, rest, _ := bytes.Cut(good[newest], []byte(" signature="))
	_, body, _ := bytes.Cut(rest, []byte("\n"))
	bare := append([]byte(" signature=-\n"), body...)
	put(t, s, newest, append(fmt.Appendf(nil, "millrace catalog 1 sha256=%x", sha256.Sum256(bare)), bare...))
	if err := open().Check(ctx); err == nil || !strings.Contains(err.Error(), "not signed") {
		t.Errorf("a catalog without signature: %v", err)
	}
}

// TestT7EveryDamageToAnArchiveIsSeen: bits, lengths, and parts of two archives in one.
func TestT7EveryDamageToAnArchiveIsSeen(t *testing.T) {
	local, err := snapstore.Open(realStore(t), snapstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	to, err := snapstore.Open(t.TempDir(), snapstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	for name, sealing := range map[string]archive.Sealing{"plain": {},
		"sealed": {Keys: []seal.Key{testKey(t, 1)}, Tenant: "acme", Random: rand.NewChaCha8([32]byte{5})}} {
		var files [][]byte
		for id := checkpoint.ID(1); id <= 3; id++ {
			var b bytes.Buffer
			if err := archive.Export(ctx, &b, local, id, sealing); err != nil {
				t.Fatal(err)
			}
			files = append(files, b.Bytes())
		}
		for seed := range uint64(*mutations) / 3 {
			rng := rand.New(rand.NewPCG(seed, 71))
			bad := bytes.Clone(files[rng.IntN(3)])
			what := "a bit flipped"
			switch at := rng.IntN(len(bad)); rng.IntN(4) {
			case 0:
				bad, what = bad[:at], "cut"
			case 1:
				bad, what = append(bad, make([]byte, 1+rng.IntN(9))...), "longer"
			case 2:
				whole := files[rng.IntN(3)]
				if joined := append(bad[:at:at], whole[min(at, len(whole)):]...); !slices.ContainsFunc(files, func(f []byte) bool { return bytes.Equal(f, joined) }) {
					bad, what = joined, "two in one"
					break
				}
				fallthrough
			default:
				bad[at] ^= 1 << rng.IntN(8)
			}
			if id, err := archive.Import(context.Background(), bytes.NewReader(bad), to, archive.ImportOptions{Sealing: sealing}); err == nil {
				t.Errorf("%s, seed %d: %s: imported as %d", name, seed, what, id)
			}
		}
	}
	if infos, err := to.List(); err != nil || len(infos) != 0 {
		t.Errorf("%v %v", infos, err)
	}
}
