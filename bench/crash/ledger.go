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

// memory kills pipelines of such guests at random times, as often in each language, and as often where each process
// has the module of another language than the one before it, so that it goes on with what that one saves.
func memory(o *options, total *drive.Outcome, t *tally) error {
	build := exec.Command("go", "run", "./guests/build", "-go", "ledger")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build the Go guest: %w", err)
	}
	var modules []string
	for _, l := range ledgers {
		module, err := filepath.Abs(l.module)
		if err != nil {
			return err
		}
		modules = append(modules, module)
	}
	try := func(language, guest string, guests []string, kills int) error {
		if !selected(o.language, language) {
			return nil
		}
		c := o.config(drive.Variant{Name: language, Keys: 300, Splits: 2, Parallelism: 3, Memory: "64MiB", State: "disk",
			BadEvery: o.records / 4, Guest: guest, Guests: guests}, "")
		c.Template = ledgerTemplate
		t.memoryWanted += kills
		got, m, err := c.RandomMemory(kills, 10)
		if err != nil {
			return err
		}
		t.memoryKills += got.Kills
		t.memory.Add(m)
		total.Add(got)
		return nil
	}
	for i, l := range ledgers {
		kills := o.memoryKills / len(ledgers)
		if i < o.memoryKills%len(ledgers) {
			kills++
		}
		if err := try(l.language, modules[i], nil, kills); err != nil {
			return err
		}
	}
	return try("in-turn", "", modules, o.memoryKills/len(ledgers))
}
