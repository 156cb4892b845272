package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestGoldenSnapshotsGoOn forks the snapshots that earlier builds made after 90 records, of a job with keyed
// values, timers and windows in two tasks, and goes on with the rest of the input: the output is that of a run
// which nobody interrupted, with the module of that time.
func TestGoldenSnapshotsGoOn(t *testing.T) {
	golden := filepath.Join("..", "..", "checkpoint", "snapstore", "testdata", "golden")
	file := func(parts ...string) []byte {
		data, err := os.ReadFile(filepath.Join(parts...))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	module := file(golden, "v2", "objects", "80", "808e0e6e70adb9617a81e5cc4dc72e42e297d3335bb52a6fa256d86cce4bd10d")
	pipeline := string(file(golden, "v1", "objects", "66", "661cfdb29145df81ad7a5c13893106bed90e4faa806a4907b777f7a2f3ac0967"))
	pipeline = strings.NewReplacer("path: alerts/", "path: new-alerts/", "path: hours/", "path: new-hours/").Replace(pipeline)
	var lines []string
	for line := range strings.Lines(string(file("..", "..", "examples", "fraud", "data", "payments.ndjson"))) {
		if !strings.Contains(line, `"amount":-`) { // this pipeline stops there
			lines = append(lines, line)
		}
	}
	run := func(prepare func(dir string), input []string) (alerts, hours []string) {
		dir := t.TempDir()
		write(t, dir, "pipeline.yaml", pipeline)
		write(t, dir, "fraud.wasm", string(module))
		prepare(dir)
		c := command(dir, "run", "pipeline.yaml")
		c.Stdin = strings.NewReader(strings.Join(input, ""))
		finish(t, c).want(t, 0, "complete")
		return sortedParts(t, filepath.Join(dir, "new-alerts")), sortedParts(t, filepath.Join(dir, "new-hours"))
	}
	wholeAlerts, wholeHours := run(func(string) {}, lines)
	const before = 13 // alerts that were published before
	for _, version := range []string{"v1", "v2"} {
		alerts, hours := run(func(dir string) {
			if err := os.CopyFS(filepath.Join(dir, "old", "snapshots"), os.DirFS(filepath.Join(golden, version))); err != nil {
				t.Fatal(err)
			}
			do(t, dir, "snapshot", "fork", "old", "latest", "--to", "pipeline.yaml").want(t, 0)
		}, lines[90:])
		if !slices.Equal(hours, wholeHours) {
			t.Errorf("%s: %d hours, expected %d:\n%s", version, len(hours), len(wholeHours), strings.Join(hours, ""))
		}
		if len(alerts) != len(wholeAlerts)-before || len(alerts) == 0 {
			t.Errorf("%s: %d alerts, expected %d", version, len(alerts), len(wholeAlerts)-before)
		}
		for _, a := range alerts {
			if !slices.Contains(wholeAlerts, a) {
				t.Errorf("%s: %s", version, a)
			}
		}
	}
}

// sortedParts are the lines of a sink's parts.
func sortedParts(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(data)
	}
	return slices.Sorted(strings.Lines(all.String()))
}
