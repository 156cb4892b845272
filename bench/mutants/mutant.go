package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mutant is one deliberate fault of the engine. The crash run must notice it; one that it does not
// notice means that the crash run proves less than it says.
type mutant struct {
	name   string
	breaks string   // what no longer holds
	edits  []edit   // all are applied
	points []string // crash points at which it shows; "random" for random kills
	form   string   // variant of the pipeline that is killed; "": defaultForm
	memory string   // for state; "": the variant's
	kills  int      // at each of them; 0: defaultKills
	again  bool     // it shows already when a finished job is started again
	test   string   // instead of kills: package and name of the test that must fail
}

// edit replaces a piece of a file, which must be there exactly once: a piece that moved or changed is an
// error, never a mutant that was not applied.
type edit struct {
	file string // relative to the root
	find string
	with string
}

const (
	defaultKills = 4
	defaultForm  = "folder" // folders of parts, several inputs
)

// apply edits the copy of the tree under root.
func (m *mutant) apply(root string) error {
	for _, e := range m.edits {
		p := filepath.Join(root, filepath.FromSlash(e.file))
		data, err := os.ReadFile(p)
		if err != nil {
			return fmt.Errorf("mutant %s: %w", m.name, err)
		}
		if n := strings.Count(string(data), e.find); n != 1 {
			return fmt.Errorf("mutant %s: %s has the piece to change %d times, expected once: %q", m.name, e.file, n, e.find)
		}
		text := strings.Replace(string(data), e.find, e.with, 1)
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// check says what is wrong with the list itself.
func (m *mutant) check() error {
	switch {
	case m.name == "" || m.breaks == "":
		return fmt.Errorf("mutant %q: name and what it breaks are needed", m.name)
	case len(m.edits) == 0:
		return fmt.Errorf("mutant %s: no edit", m.name)
	case len(m.points) == 0 && len(strings.Fields(m.test)) != 2:
		return fmt.Errorf("mutant %s: no crash point at which it shows, and no package and test", m.name)
	}
	for _, e := range m.edits {
		if e.file == "" || e.find == "" || e.find == e.with {
			return fmt.Errorf("mutant %s: an edit needs a file, a piece and another piece", m.name)
		}
	}
	return nil
}
