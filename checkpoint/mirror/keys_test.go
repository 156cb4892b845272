package mirror

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/objectstore"
	"github.com/millrace-io/millrace/checkpoint/seal"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
)

// guarded is a mirror's protection: keys that seal, and one that signs catalog and manifests.
func guarded(keys []seal.Key, sign ...seal.Key) func(*Options) {
	return func(o *Options) {
		o.Keys = keys
		if len(sign) > 0 {
			v := seal.Verifier{Shared: sign}
			o.Signer, o.Verifier, o.Manifests = seal.HMAC(sign[0]), v, v
		}
	}
}

// TestKeysThatDoNotFitAreRefused: a missing, another, or a new key says what was stored how, by name, and is told
// from damage; nothing is pulled or written.
func TestKeysThatDoNotFitAreRefused(t *testing.T) {
	a, b := key(t, 1), key(t, 2)
	for name, c := range map[string]struct {
		stored, given func(*Options)
		is            error
		texts         []string
		damaged       bool
	}{
		"none for sealed":     {guarded([]seal.Key{a}), guarded(nil), ErrKeys, []string{"indexes/", a.ID, "no key is given"}, false},
		"another":             {guarded([]seal.Key{a}), guarded([]seal.Key{b}), ErrKeys, []string{"indexes/", a.ID, b.ID}, false},
		"one for clear":       {guarded(nil), guarded([]seal.Key{a}), ErrKeys, []string{"indexes/", "not a sealed file"}, false},
		"none for signed":     {guarded(nil, a), guarded(nil), ErrKeys, []string{"catalog/", "is signed"}, false},
		"another for signed":  {guarded(nil, a), guarded(nil, b), checkpoint.ErrSignature, []string{"catalog/", a.ID, b.ID}, true},
		"one for unsigned":    {guarded(nil), guarded(nil, a), checkpoint.ErrUnsigned, []string{"catalog/"}, true},
		"old ones still open": {guarded([]seal.Key{a}, a), guarded([]seal.Key{b, a}, b, a), nil, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 40)
			var stored, given Options
			c.stored(&stored)
			w.sign(stored.Signer)
			var s objectstore.Memory
			w.push(w.mirror(&s, c.stored), w.snapshot(checkpoint.KindCheckpoint))
			c.given(&given)
			w.sign(given.Signer)
			before := len(sMap(&s))
			m := w.mirror(&s, c.given)
			local := w.open("/other", false)
			_, pull := m.PullStart(ctx, local, 1, nil)
			_, push := m.Push(ctx, w.local, w.snapshot(checkpoint.KindCheckpoint))
			if c.is == nil {
				if err := errors.Join(pull, push, m.Check(ctx)); err != nil {
					t.Error(err)
				}
				return
			}
			for what, err := range map[string]error{"pull": pull, "push": push, "check": m.Check(ctx)} {
				if what == "check" && name == "none for signed" && err == nil {
					continue // reading it needs no key
				}
				if !errors.Is(err, c.is) || errors.Is(err, ErrDamaged) != c.damaged {
					t.Errorf("%s: %v", what, err)
					continue
				}
				for _, text := range c.texts {
					if !strings.Contains(err.Error(), text) {
						t.Errorf("%s: %q is missing in: %v", what, text, err)
					}
				}
			}
			if infos, err := local.List(); err != nil || len(infos) != 0 {
				t.Errorf("pulled: %v %v", infos, err)
			}
			for k := range sMap(&s) {
				if strings.HasPrefix(k, "objects/") && len(sMap(&s)) > before+6 {
					t.Errorf("%d keys more", len(sMap(&s))-before)
				}
			}
		})
	}
}

// sign lets the local store sign its manifests from now on.
func (w *world) sign(s checkpoint.Signer) {
	w.t.Helper()
	w.local.Close()
	var err error
	if w.local, err = snapstore.Open("/store", snapstore.Options{FS: w.disk, NowMS: func() int64 { return 1 }, Signer: s}); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { w.local.Close() })
}

// TestUnsignedSnapshotsStayOut of a mirror with signatures.
func TestUnsignedSnapshotsStayOut(t *testing.T) {
	w := newWorld(t, 41)
	var s objectstore.Memory
	m := w.mirror(&s, guarded(nil, key(t, 1)))
	if _, err := m.Push(ctx, w.local, w.snapshot(checkpoint.KindCheckpoint)); !errors.Is(err, checkpoint.ErrUnsigned) || !strings.Contains(err.Error(), "make a new snapshot") {
		t.Errorf("got %v", err)
	}
	w.sign(seal.HMAC(key(t, 1)))
	w.push(m, w.snapshot(checkpoint.KindCheckpoint))
	w.has(m, 2)
}

// lost is a store that does not know conditions.
type lost struct{ objectstore.Memory }

func (l *lost) Put(ctx context.Context, key string, body io.ReaderAt, size int64, _ bool) error {
	return l.Memory.Put(ctx, key, body, size, false)
}

// TestStoresWithoutConditionsAreRefused before anything relies on them.
func TestStoresWithoutConditionsAreRefused(t *testing.T) {
	w := newWorld(t, 42)
	m := w.mirror(new(lost), nil)
	if _, err := m.Push(ctx, w.local, w.snapshot(checkpoint.KindCheckpoint)); !errors.Is(err, ErrConditional) {
		t.Errorf("got %v", err)
	}
}

// TestPullStartIsTheLineToGoOnWith: ids go on behind all that the mirror has, with or without a change.
func TestPullStartIsTheLineToGoOnWith(t *testing.T) {
	w := newWorld(t, 43)
	var s objectstore.Memory
	m := w.mirror(&s, nil)
	for range 4 {
		w.push(m, w.snapshot(checkpoint.KindSavepoint))
	}
	third := w.open("/third", false)
	for _, change := range []func(*checkpoint.Manifest){nil, func(m *checkpoint.Manifest) { m.Tasks[0].Operators[0].Staged = nil }} {
		to := w.open(map[bool]string{true: "/as-it-is", false: "/changed"}[change == nil], false)
		got, err := m.PullStart(ctx, to, 2, change)
		want := checkpoint.ID(2)
		if change != nil {
			want = 5
		}
		if err != nil || got.ID != want || got.Objects == 0 {
			t.Fatalf("%+v %v", got, err)
		}
		man, err := to.Latest(ctx)
		if err != nil || man.ID != want || to.Verify(ctx, want, true) != nil {
			t.Fatal(man, err)
		}
		if change != nil && (man.Origin == nil || man.Origin.ID != 2) {
			t.Errorf("%+v", man.Origin)
		}
		if next, err := to.Reserve(1); err != nil || next <= 4 || next <= want {
			t.Errorf("the next id is %d, %v", next, err)
		}
		if _, err := m.PullStart(ctx, to, 3, nil); !errors.Is(err, snapstore.ErrNotEmpty) {
			t.Errorf("into another's: %v", err)
		}
		if _, err := m.PullStart(ctx, third, 9, nil); !errors.Is(err, ErrNoSnapshot) || !strings.Contains(err.Error(), "1 to 4") {
			t.Errorf("got %v", err)
		}
	}
}

// TestLongPullsAreNotTakenForDead: the entry of a reader is renewed while it reads.
func TestLongPullsAreNotTakenForDead(t *testing.T) {
	w := newWorld(t, 44)
	var s objectstore.Memory
	other := w.mirror(&s, nil)
	for range 5 {
		w.push(other, w.snapshot(checkpoint.KindCheckpoint))
	}
	slow := w.mirror(&s, func(o *Options) {
		o.Crash = func(point string) {
			if point != "K20" {
				return
			}
			w.now += leaseMS * 6 / 10
			if err := other.Delete(ctx, 5); !errors.Is(err, ErrInUse) {
				t.Errorf("delete: %v", err)
			}
			if _, err := other.GC(ctx); err != nil {
				t.Error(err)
			}
		}
	})
	if got, err := slow.Pull(ctx, w.open("/slow", false), 5, false); err != nil || got.Objects < 4 {
		t.Fatal(got, err)
	}
}

func TestPrune(t *testing.T) {
	kinds := []checkpoint.Kind{checkpoint.KindCheckpoint, checkpoint.KindSavepoint, checkpoint.KindCheckpoint, checkpoint.KindSavepoint, checkpoint.KindCheckpoint}
	for name, c := range map[string]struct {
		p    Policy
		left []checkpoint.ID
	}{
		"checkpoints":     {Policy{Checkpoints: 1, Savepoints: -1}, []checkpoint.ID{2, 4, 5}},
		"savepoints":      {Policy{Checkpoints: -1, Savepoints: 1}, []checkpoint.ID{1, 3, 4, 5}},
		"all but newest":  {Policy{}, []checkpoint.ID{5}},
		"older than now":  {Policy{BeforeMS: 1_700_000_000_000 + 2}, []checkpoint.ID{3, 4, 5}},
		"nothing so old":  {Policy{BeforeMS: 1}, []checkpoint.ID{1, 2, 3, 4, 5}},
		"some of the old": {Policy{Checkpoints: 2, Savepoints: 1, BeforeMS: 1_700_000_000_000 + 9}, []checkpoint.ID{3, 4, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 45)
			var s objectstore.Memory
			m := w.mirror(&s, nil)
			for _, k := range kinds {
				w.push(m, w.snapshot(k))
				w.now++
			}
			would, err := m.Prune(ctx, c.p, true)
			if err != nil {
				t.Fatal(err)
			}
			w.has(m, 1, 2, 3, 4, 5)
			gone, err := m.Prune(ctx, c.p, false)
			if err != nil || len(gone) != len(would) || len(gone) != 5-len(c.left) {
				t.Fatal(gone, would, err)
			}
			w.has(m, c.left...)
			w.exactly(&s, m)
			all, err := m.Contents(ctx)
			if err != nil || len(all) != len(c.left) || all[0].Bytes < all[0].Added || all[0].File.ID != c.left[0] {
				t.Errorf("%+v %v", all, err)
			}
		})
	}
}
