// Command conform runs conformance cases whose expected results another stream processor computed, and
// prints how many of each family pass. Format and deliberate differences: docs/conformance.md.
//
//	go run ./bench/conform                     the cases of this repository
//	CORPUS=folder go run ./bench/conform       other cases of the same format
//	go run ./bench/conform -v window-session   tells more, only cases whose id contains the word
//
// A case passes if its plain run gives what is expected, and every variant (backend, batch size, engine,
// restores) gives the same as the plain run. The exit status is 1 if one failed, also for want of an
// operator.
package main

import (
	"embed"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/millrace-io/millrace/bench/conform/corpus"
	"github.com/millrace-io/millrace/bench/result"
)

//go:embed testdata/corpus
var embedded embed.FS

// Cases is the folder of cases: dir, or the repository's if it is empty.
func folder(dir string) (fs.FS, error) {
	if dir == "" {
		return fs.Sub(embedded, "testdata/corpus")
	}
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("CORPUS: %w", err)
	}
	return os.DirFS(dir), nil
}

func main() {
	verbose := flag.Bool("v", false, "name every case")
	quick := flag.Bool("quick", false, "fewer variants, as the tests run them")
	seed := flag.Int64("seed", 1, "of the variants' random choices")
	flag.Parse()
	r := &runner{verbose: *verbose, full: !*quick, seed: *seed}
	if err := run(r, os.Getenv("CORPUS"), flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "conform:", err)
		os.Exit(2)
	}
	result.Exit()
}

func run(r *runner, dir string, words []string) error {
	fsys, err := folder(dir)
	if err != nil {
		return err
	}
	cases, err := corpus.Load(fsys)
	if err != nil {
		return err
	}
	if err := r.open(); err != nil {
		return err
	}
	defer r.close()
	for _, c := range cases {
		if wanted(c.ID, words) {
			r.one(c)
		}
	}
	return r.report(os.Stdout)
}

func wanted(id string, words []string) bool {
	for _, w := range words {
		if strings.Contains(id, w) {
			return true
		}
	}
	return len(words) == 0
}
