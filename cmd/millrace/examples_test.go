package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// socketCommand connects to a socket that somebody else has to open; tests in examples/ run such pipelines.
const socketCommand = "millrace run socket.yaml"

// elsewhereExamples say how examples are tested whose commands are a session in a shell.
var elsewhereExamples = map[string]string{"backfill": "backfill_test.go: its commands run one beside the other", "workday": "workday_test.go: as above"}

// Every command of an example's README works in the example's folder.
func TestCommandsOfExamples(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../examples")); err != nil {
		t.Fatal(err)
	}
	readmes, err := filepath.Glob("../../examples/*/README.md")
	if err != nil || len(readmes) < 9 {
		t.Fatalf("%d examples, %v", len(readmes), err)
	}
	for _, readme := range readmes {
		name := filepath.Base(filepath.Dir(readme))
		if elsewhereExamples[name] != "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			own := filepath.Join(dir, name)
			for _, left := range []string{"out", "out-socket", "late", "repeated", "alerts", "cleared", "unmatched", "dead-letters", ".millrace"} {
				if err := os.RemoveAll(filepath.Join(own, left)); err != nil {
					t.Fatal(err)
				}
			}
			ran := 0
			for _, block := range blocks(t, readme, "sh") {
				for line := range strings.Lines(block) {
					line, _, _ = strings.Cut(line, "#")
					line = strings.TrimSpace(line)
					if line == "" || line == socketCommand {
						continue
					}
					args, ok := strings.CutPrefix(line, "millrace ")
					if !ok {
						t.Errorf("no test runs %q", line)
						continue
					}
					do(t, own, strings.Fields(args)...).want(t, 0)
					ran++
				}
			}
			if ran == 0 {
				t.Error("no command was found")
			}
		})
	}
}
