package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// blocks are the fenced blocks of a language in a Markdown file.
func blocks(t *testing.T, path, language string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for rest := string(b); ; {
		_, after, ok := strings.Cut(rest, "\n```"+language+"\n")
		if !ok {
			return out
		}
		block, tail, _ := strings.Cut(after, "\n```")
		out = append(out, block)
		rest = tail
	}
}

// elsewhere says where a command of the README is run that this test leaves out.
var elsewhere = map[string]string{
	"go run ./cmd/millrace quickstart":           "TestQuickstart",
	"go tool task test":                          "CI runs it",
	"go build -o bin/millrace ./cmd/millrace":    "TestMain",
	"bin/millrace schema > pipeline.schema.json": "TestSchemaIsJSON",

	"bin/millrace status examples/fraud/pipeline.yaml":               "TestSecondTerminal",
	"bin/millrace stop examples/fraud/pipeline.yaml --savepoint end": "TestSecondTerminal",
}

func TestReadmeCommands(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "examples"), os.DirFS("../../examples")); err != nil {
		t.Fatal(err)
	}
	for _, left := range []string{"alerts", "cleared", "dead-letters", ".millrace"} {
		if err := os.RemoveAll(filepath.Join(dir, "examples", "fraud", left)); err != nil {
			t.Fatal(err)
		}
	}
	ran := 0
	for _, block := range blocks(t, "../../README.md", "sh") {
		for line := range strings.Lines(block) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), "#")
			line = strings.TrimSpace(line)
			if line == "" || elsewhere[line] != "" {
				continue
			}
			args, ok := strings.CutPrefix(line, "bin/millrace ")
			if !ok {
				t.Errorf("no test runs %q", line)
				continue
			}
			do(t, dir, strings.Fields(args)...).want(t, 0)
			ran++
		}
	}
	if ran < 5 {
		t.Errorf("%d commands found", ran)
	}
}

// The pipeline and the function of the README are those of the examples, but for comments and layout.
func TestReadmeSnippets(t *testing.T) {
	squeeze := func(s string) string {
		var b strings.Builder
		for line := range strings.Lines(s) {
			line, _, _ = strings.Cut(line, "#")
			line, _, _ = strings.Cut(line, "//")
			b.WriteString(strings.Join(strings.Fields(line), ""))
		}
		return b.String()
	}
	example := func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return squeeze(string(b))
	}
	if yaml := squeeze(blocks(t, "../../README.md", "yaml")[0]); yaml != example("../../examples/fraud/pipeline.yaml") {
		t.Errorf("the README's pipeline is not that of examples/fraud:\n%s\n%s", yaml, example("../../examples/fraud/pipeline.yaml"))
	}
	_, function, _ := strings.Cut(blocks(t, "../../README.md", "rust")[0], "\nfn ")
	if !strings.Contains(example("../../examples/wordcount/rust/src/lib.rs"), squeeze("fn "+function)) {
		t.Error("the README's function is not in examples/wordcount")
	}
}
