package main

import "github.com/millrace-io/millrace/bench/crash/drive"

// variants are the forms of the pipeline among which kills are shared out.
var variants = []drive.Variant{
	{Name: "folder", Keys: 200, Splits: 2, Parallelism: 2, Memory: "64MiB", State: "disk", BadEvery: 331},
	{Name: "memory", Keys: 200, Splits: 3, Parallelism: 2, Memory: "64MiB", State: "memory", BadEvery: 331},
	{Name: "file", Keys: 50, Splits: 1, Parallelism: 1, Memory: "64MiB", State: "disk", Single: true, BadEvery: 331},
	// So little memory that values, maps and timers leave it between checkpoints.
	{Name: "spill", Keys: 5000, Splits: 2, Parallelism: 2, Memory: "512KiB", State: "disk", BadEvery: 997},
}
