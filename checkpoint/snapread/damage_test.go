package snapread

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/checkpoint/snapstore"
)

// A byte that changed anywhere in a state's object is found by a scan, and the object is named; what was read
// before it was right.
func TestDamageIsNamed(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	w := newWorld(t)
	w.start(2, nil)
	for range 4000 {
		w.change(r, 400)
	}
	s := Open(manifest(5, w.cut()), w.objects, nil)
	ctx := context.Background()
	for _, x := range s.States() {
		for _, p := range x.parts {
			for i, run := range p.runs {
				path, err := w.objects.Path(ctx, run.Object)
				w.ok(err)
				whole, err := os.ReadFile(path)
				w.ok(err)
				w.ok(os.Remove(path)) // it may be a link to a file in use
				for range 12 {
					broken := append([]byte(nil), whole...)
					at := r.IntN(len(broken))
					broken[at] ^= byte(1 + r.IntN(255))
					w.ok(os.WriteFile(path, broken, 0o644))
					err := readAll(ctx, x)
					var damage *snapstore.DamageError
					if !errors.As(err, &damage) || damage.Object != run.Object || damage.Checkpoint != 5 || damage.Path != path ||
						!strings.Contains(damage.Where, "operator op, task") || !strings.Contains(damage.Where, "state "+x.Name) {
						t.Fatalf("byte %d of run %d of %s: %v", at, i, x.Name, err)
					}
					if at < 4096 && len(broken) > 8192 && !strings.Contains(err.Error(), "bytes at 0") {
						t.Errorf("byte %d: no place in %v", at, err)
					}
				}
				w.ok(os.WriteFile(path, whole[:len(whole)-1], 0o644))
				var damage *snapstore.DamageError
				if err := readAll(ctx, x); !errors.As(err, &damage) {
					t.Errorf("a file cut short: %v", err)
				}
				w.ok(os.Remove(path))
				if err := readAll(ctx, x); !errors.As(err, &damage) || !errors.Is(err, os.ErrNotExist) {
					t.Errorf("no file: %v", err)
				}
				w.ok(os.WriteFile(path, whole, 0o644))
				w.ok(readAll(ctx, x))
			}
		}
	}
}

func readAll(ctx context.Context, x *State) error {
	rd, err := x.Open(ctx, 0, math.MaxUint64)
	if err != nil {
		return err
	}
	c := rd.Scan(ctx, 0, math.MaxUint64)
	for c.Next() {
	}
	return errors.Join(c.Err(), rd.Close())
}

func TestFind(t *testing.T) {
	w := newWorld(t)
	w.start(1, nil)
	s := Open(manifest(5, w.cut()), w.objects, nil)
	if x, err := s.Find("", "m"); err != nil || x.Operator != "op" {
		t.Errorf("%v, %v", x, err)
	}
	for _, c := range []struct{ operator, name, text string }{{"op", "", "2 states fit, name one of op.v, op.m"}, {"po", "v", "po.v is not there, there are op.v, op.m, op.timers"}} {
		if _, err := s.Find(c.operator, c.name); !errors.Is(err, ErrNoState) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s.%s: %v", c.operator, c.name, err)
		}
	}
}
