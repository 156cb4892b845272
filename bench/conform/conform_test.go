package main

import (
	"flag"
	"maps"
	"os"
	"testing"

	"github.com/millrace-io/millrace/bench/conform/corpus"
	"github.com/millrace-io/millrace/bench/conform/drive"
)

var full = flag.Bool("full", false, "all variants, as the verb runs them")

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(m.Run())
}

func load(t *testing.T) []*corpus.Case {
	t.Helper()
	fsys, err := folder("")
	if err != nil {
		t.Fatal(err)
	}
	cases, err := corpus.Load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

// Every case of the repository that one operator can answer gives what is expected, in every variant.
func TestCases(t *testing.T) {
	w, err := drive.NewWorld(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, c := range load(t) {
		if !drive.Built(c) {
			continue
		}
		t.Run(c.ID, func(t *testing.T) {
			wrong, _, err := check(w, c, *full && !testing.Short(), 1)
			if err != nil {
				t.Fatal(err)
			}
			if reason, ok := differences[c.ID]; ok {
				if len(wrong) == 0 {
					t.Errorf("passes, but is listed as different on purpose: %s", reason)
				}
				return
			}
			for _, x := range wrong {
				t.Error(x)
			}
		})
	}
}

// A case that is lost would pass unseen.
func TestTheRepositoryHasItsCases(t *testing.T) {
	n := map[string]int{}
	for _, c := range load(t) {
		n[c.Family+" "+c.Kind()]++
	}
	want := map[string]int{"window window": 58, "timers timers": 28, "restore window": 15, "restore timers": 6, "flights query": 8}
	if !maps.Equal(n, want) {
		t.Errorf("%v, expected %v", n, want)
	}
}
