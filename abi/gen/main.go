// Command gen makes everything that is generated from abi/abi.yaml: the signature tables of package abi,
// the test that its constants agree, and the constants of the SDKs. Run it from the repository's root:
//
//	go run ./abi/gen          writes the files
//	go run ./abi/gen -check   only says which are out of date
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	check := flag.Bool("check", false, "write nothing, exit 1 if a file is out of date")
	root := flag.String("root", ".", "the repository")
	flag.Parse()
	stale, err := run(*root, !*check)
	if err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(2)
	}
	for _, f := range stale {
		fmt.Println(f)
	}
	if *check && len(stale) > 0 {
		os.Exit(1)
	}
}

// run returns the files that differ from what abi.yaml says, and writes them if told to.
func run(root string, write bool) (stale []string, err error) {
	b, err := os.ReadFile(filepath.Join(root, "abi/abi.yaml"))
	if err != nil {
		return nil, err
	}
	s, err := parse(b)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		want, err := f.make(s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.path, err)
		}
		path := filepath.Join(root, f.path)
		if got, err := os.ReadFile(path); err == nil && bytes.Equal(got, want) {
			continue
		}
		stale = append(stale, f.path)
		if !write {
			continue
		}
		if err := os.WriteFile(path, want, 0o644); err != nil {
			return nil, err
		}
	}
	return stale, nil
}
