// Command build compiles the guest modules of the repository. Run it from the repository's root:
//
//	go run ./guests/build            all: Rust ones into place, Go ones into .build/guests
//	go run ./guests/build -rust      only Rust (or -go)
//	go run ./guests/build flights    only modules of that name
//	go run ./guests/build -check     compiles nothing, says what is stale
//	go run ./guests/build -verify    compiles the Rust modules elsewhere and compares the bytes
//
// Rust modules are committed with guests/modules.json, which has the hash of each and of what it was
// made from; the test of this folder fails when they disagree.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	o := options{root: "."}
	flag.BoolVar(&o.rust, "rust", false, "only Rust modules")
	flag.BoolVar(&o.golang, "go", false, "only Go modules")
	flag.BoolVar(&o.check, "check", false, "compile nothing, exit 1 if a committed module is stale")
	flag.BoolVar(&o.verify, "verify", false, "compile Rust modules elsewhere, exit 1 if their bytes differ")
	flag.Parse()
	o.names = flag.Args()
	problems, err := o.run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(2)
	}
	for _, p := range problems {
		fmt.Println(p)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
}

type options struct {
	root                        string
	rust, golang, check, verify bool
	names                       []string
}

func (o options) wants(name string) bool {
	for _, n := range o.names {
		if n == name {
			return true
		}
	}
	return len(o.names) == 0
}

func (o options) run() (problems []string, err error) {
	guests, err := find(o.root)
	if err != nil {
		return nil, err
	}
	m, err := readManifest(o.root)
	if err != nil {
		return nil, err
	}
	if o.check {
		return m.problems(o.root, guests)
	}
	for _, g := range guests {
		switch {
		case !o.wants(g.Name) || o.rust && g.Language != "rust" || (o.golang || o.verify) && g.Language != "go" && !o.verify:
			continue
		case o.verify && g.Language != "rust":
			continue
		case g.Language == "go":
			err = buildGo(o.root, g)
		case o.verify:
			var same bool
			if same, err = verifyRust(o.root, g, m); err == nil && !same {
				problems = append(problems, g.Wasm+": another build of its source has other bytes")
			}
		default:
			err = buildRust(o.root, g, m)
		}
		if err != nil {
			return problems, fmt.Errorf("%s: %w", g.Dir, err)
		}
		if !o.verify {
			fmt.Println(g.Wasm)
		}
	}
	if o.verify || o.golang {
		return problems, nil
	}
	return problems, m.write(o.root, guests)
}
