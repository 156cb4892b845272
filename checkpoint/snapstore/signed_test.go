package snapstore_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/seal"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/checkpoint/snapstore/faultfs"
)

// signedStore has three chained snapshots of a job under a key.
func signedStore(t *testing.T, mem *faultfs.Mem, dir, text string, k seal.Key) *snapstore.Store {
	t.Helper()
	s, err := snapstore.Open(dir, snapstore.Options{FS: mem, Signer: seal.HMAC(k), Verifier: seal.Verifier{Shared: []seal.Key{k}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	for id := checkpoint.ID(1); id <= 3; id++ {
		m := manifest(id, put(t, s, text), put(t, s, text+string(rune('0'+id))))
		m.Parent = id - 1
		complete(t, s, m)
	}
	return s
}

func signingKey(t *testing.T, fill byte) seal.Key {
	k, err := seal.NewKey(bytes.Repeat([]byte{fill}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestForgedManifestsAreNamed: whole files with right checksums that an attacker could put there.
func TestForgedManifestsAreNamed(t *testing.T) {
	mem := faultfs.New()
	k, other := signingKey(t, 1), signingKey(t, 2)
	s := signedStore(t, mem, "/a", "mine", k)
	twin := signedStore(t, mem, "/b", "past", k) // another line of the same key
	theirs := signedStore(t, mem, "/c", "theirs", other)
	for id := checkpoint.ID(1); id <= 3; id++ {
		if err := s.Verify(ctx, id, true); err != nil {
			t.Fatal(err)
		}
	}
	good, err := s.Manifest(2)
	if err != nil {
		t.Fatal(err)
	}
	past, _ := twin.Manifest(2)
	foreign, _ := theirs.Manifest(2)
	unsigned := manifest(2, put(t, s, "mine"))
	plain, err := checkpoint.Encode(unsigned)
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "past")
	put(t, s, "past2")
	for _, c := range []struct {
		name string
		file []byte
		id   checkpoint.ID // that shows it
		is   error
		says string
	}{
		{"unsigned", plain, 2, checkpoint.ErrUnsigned, "not signed"},
		{"another tenant's", foreign, 2, checkpoint.ErrSignature, other.ID},
		{"another line's", past, 3, snapstore.ErrDamaged, "snapshot 3 was made after one with"},
	} {
		mem.WriteFile("/a/manifests/00000002.json", c.file)
		err := s.Verify(ctx, c.id, true)
		if !errors.Is(err, c.is) || !errors.Is(err, snapstore.ErrDamaged) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "00000002.json") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	mem.WriteFile("/a/manifests/00000002.json", good)
	if err := s.Verify(ctx, 3, true); err != nil {
		t.Error(err)
	}
	// The parent may expire: the chain just begins later.
	if _, err := s.Retain(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if err := s.Verify(ctx, 3, true); err != nil {
		t.Error(err)
	}
	// What was not signed is refused when it comes from elsewhere too.
	if _, err := s.Insert(ctx, plain, false); !errors.Is(err, checkpoint.ErrUnsigned) {
		t.Errorf("inserted: %v", err)
	}
}
