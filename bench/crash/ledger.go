package main

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/millrace-io/millrace/bench/crash/drive"
)

//go:embed ledger.yaml
var ledgerTemplate string

// ledgers are the guests that keep everything in their own variables, by language. Those of Go are built.
var ledgers = []struct{ language, module string }{
	{"c", "guests/cases/ledger/guest.wasm"}, {"rust", "guests/cases/ledger/ledger.wasm"},
	{"go", ".build/guests/ledger-go.wasm"}, {"assemblyscript", "guests/cases/ledger/ledger-as.wasm"},
}

// memory kills pipelines of such guests at random times, as often in each language.
func memory(o *options, total *drive.Outcome, t *tally) error {
	build := exec.Command("go", "run", "./guests/build", "-go", "ledger")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build the Go guest: %w", err)
	}
	for i, l := range ledgers {
		if !selected(o.language, l.language) {
			continue
		}
		module, err := filepath.Abs(l.module)
		if err != nil {
			return err
		}
		c := o.config(drive.Variant{Name: l.language, Keys: 300, Splits: 2, Parallelism: 3, Memory: "64MiB", State: "disk",
			BadEvery: o.records / 4, Guest: module}, "")
		c.Template = ledgerTemplate
		kills := o.memoryKills / len(ledgers)
		if i < o.memoryKills%len(ledgers) {
			kills++
		}
		t.memoryWanted += kills
		got, m, err := c.RandomMemory(kills, 10)
		if err != nil {
			return err
		}
		t.memoryKills += got.Kills
		t.memory.Add(m)
		total.Add(got)
	}
	return nil
}
