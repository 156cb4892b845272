package main

import (
	"flag"
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
	ran := map[string]int{}
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
			ran[c.Kind()]++
		})
	}
	if ran["timers"] != 34 || ran["window"] != 73 {
		t.Errorf("%v cases passed, the repository has 34 of timers and 73 of window", ran)
	}
}
