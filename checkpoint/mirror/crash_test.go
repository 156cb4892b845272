package mirror

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/objectstore"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/checkpoint/snapstore/faultfs"
)

// TestCrashInPullIsHarmless crashes before each local file operation of a pull: there is a whole snapshot or
// none, what is left is swept, and pulling again works.
func TestCrashInPullIsHarmless(t *testing.T) {
	w := newWorld(t, 30)
	var s objectstore.Memory
	m := w.mirror(&s, nil)
	for range 3 {
		w.snapshot(checkpoint.KindCheckpoint)
	}
	w.push(m, 3)
	outcomes := map[int]int{}
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 4))
		mem := faultfs.New()
		to, err := snapstore.Open("/to", snapstore.Options{FS: faultfs.Inject(mem, func(faultfs.Op, string) error {
			after, err := snapstore.Open("/to", snapstore.Options{FS: mem.CrashClone(rng, float64(seed)/2)})
			if err != nil {
				t.Fatal(err)
			}
			defer after.Close()
			infos, err := after.List()
			if err != nil {
				t.Fatal(err)
			}
			if outcomes[len(infos)]++; len(infos) == 0 && rng.IntN(2) == 0 {
				if _, err := after.Sweep(ctx); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := m.Pull(ctx, after, 3, false); err != nil {
				t.Fatalf("seed %d: again: %v", seed, err)
			}
			if got, err := after.Latest(ctx); err != nil || got.ID != 3 || after.Verify(ctx, 3, true) != nil {
				t.Fatalf("seed %d: %v %v", seed, got, err)
			}
			return nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Pull(ctx, to, 3, false); err != nil {
			t.Fatal(err)
		}
	}
	if outcomes[0] == 0 || outcomes[1] == 0 {
		t.Errorf("not both were seen: %v", outcomes)
	}
	w.exactly(&s, m)
}

// TestKilledProcessesLeaveNothingForLong: a push, a pull and a collection die at each of their crash points; the
// next process finds a whole mirror, and after the leases of the dead ran out nothing is left of them.
func TestKilledProcessesLeaveNothingForLong(t *testing.T) {
	for point, nth := range map[string]int{"K10": 2, "K11": 1, "K12": 1, "K20": 2, "K24": 1} {
		t.Run(point, func(t *testing.T) {
			w := newWorld(t, 31)
			var s objectstore.Memory
			good := w.mirror(&s, nil)
			w.push(good, w.snapshot(checkpoint.KindCheckpoint))
			for range 3 {
				w.snapshot(checkpoint.KindCheckpoint)
			}
			if err := good.Delete(ctx, 1); err != nil {
				t.Fatal(err)
			}
			left := nth
			m := w.mirror(&s, func(o *Options) {
				o.Crash = func(p string) {
					if p == point {
						if left--; left == 0 {
							panic(errCrash)
						}
					}
				}
			})
			err := killed(func() error {
				if _, err := m.Push(ctx, w.local, 4); err != nil {
					return err
				}
				if _, err := m.Pull(ctx, w.open("/there", false), 4, false); err != nil {
					return err
				}
				_, err := m.GC(ctx)
				return err
			})
			if !errors.Is(err, errCrash) {
				t.Fatalf("not killed: %v", err)
			}
			pointers(t, w, good, point)
			w.push(good, 4)
			w.now += 2 * leaseMS
			w.exactly(&s, good)
			w.has(good, 4)
			c, err := good.Catalog(ctx)
			if err != nil || len(c.Pushes)+len(c.Readers) != 0 {
				t.Errorf("%+v %v", c, err)
			}
		})
	}
}

// killed runs f until it ends or a crash point kills it.
func killed(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			if p != any(errCrash) {
				panic(p)
			}
			err = errCrash
		}
	}()
	return f()
}
