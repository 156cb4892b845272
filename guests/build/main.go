// Command build compiles the guest modules of the repository. Run it from the repository's root:
//
//	go run ./guests/build            all: Rust and AssemblyScript ones into place, Go ones into .build/guests
//	go run ./guests/build -rust      only Rust (or -go, -assemblyscript, which needs npm)
//	go run ./guests/build flights    only modules of that name
//	go run ./guests/build -check     compiles nothing, says what is stale
//	go run ./guests/build -verify    compiles the Rust modules elsewhere and compares the bytes
//
// Modules in Rust and AssemblyScript are committed with guests/modules.json, which has the hash of each and of what it was
// made from; the test of this folder fails when they disagree.
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
)

func main() {
	o := options{root: "."}
	flag.BoolVar(&o.rust, "rust", false, "only Rust modules")
	flag.BoolVar(&o.golang, "go", false, "only Go modules")
	flag.BoolVar(&o.assembly, "assemblyscript", false, "only AssemblyScript modules")
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
	root                                  string
	rust, golang, assembly, check, verify bool
	names                                 []string
}

// languages are those that are built.
func (o options) languages() []string {
	var list []string
	for _, l := range []struct {
		name  string
		asked bool
	}{{"rust", o.rust || o.verify}, {"go", o.golang}, {"assemblyscript", o.assembly}} {
		if l.asked {
			list = append(list, l.name)
		}
	}
	if len(list) == 0 {
		return []string{"rust", "go", "assemblyscript"}
	}
	return list
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
		case !o.wants(g.Name) || !slices.Contains(o.languages(), g.Language):
			continue
		case g.Language == "go":
			err = buildGo(o.root, g)
		case g.Language == "assemblyscript":
			if !o.assembly && !haveNPM() {
				fmt.Fprintln(os.Stderr, "build: no npm, the committed", g.Wasm, "stays")
				continue
			}
			err = buildAssemblyScript(o.root, g, m)
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
	if o.verify || o.golang && !o.rust && !o.assembly {
		return problems, nil
	}
	return problems, m.write(o.root, guests)
}
