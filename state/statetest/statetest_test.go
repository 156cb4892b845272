package statetest_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/backend"
	"github.com/millrace-io/millrace/state/coldpebble"
	"github.com/millrace-io/millrace/state/ordered"
	"github.com/millrace-io/millrace/state/statetest"
)

func open(kind string) statetest.Open {
	return func(t *testing.T, o statetest.Options) state.Keyed {
		t.Helper()
		if o.Budget == 0 {
			o.Budget = 256 << 20
		}
		env := coldpebble.New(o.Dir+"-cold", coldpebble.Options{MemTableBytes: 256 << 10, CacheBytes: 1 << 20})
		b, err := backend.Open(backend.Config{
			Operator: "op", Descriptors: statetest.Descriptors(), Range: o.Range, Hasher: o.Hasher, Budget: o.Budget,
			Dir: o.Dir, Kind: kind, Objects: o.Objects, Restore: o.Restore,
			NewOrdered: func(c state.PartConfig) (backend.OrderedPart, error) { return ordered.Open(c, env) },
			NewTimers:  func(c state.PartConfig) (backend.TimersPart, error) { return ordered.OpenTimers(c, env) },
		})
		if err != nil {
			t.Fatal(err)
		}
		return &withEnv{b, env}
	}
}

// withEnv closes the cold store with the state over it.
type withEnv struct {
	state.Keyed
	env *coldpebble.Env
}

func (w *withEnv) Close() error {
	err := w.Keyed.Close()
	if n := w.env.OpenIters(); n != 0 {
		err = errors.Join(err, fmt.Errorf("%d cold iterators are open at the end", n))
	}
	return errors.Join(err, w.env.Close())
}

func TestMemory(t *testing.T) { statetest.Run(t, open(backend.Memory)) }

// TestDisk runs over run files for value state and Pebble for the rest.
func TestDisk(t *testing.T) { statetest.Run(t, open(backend.Disk)) }
