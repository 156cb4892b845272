package spec

import (
	"bytes"
	"flag"
	"os"
	"testing"
)

var rewriteReference = flag.Bool("rewrite", false, "write docs/pipeline.md anew")

func TestReferenceIsThatOfTheTable(t *testing.T) {
	const path = "../../docs/pipeline.md"
	want := Reference()
	if *rewriteReference {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("docs/pipeline.md is not what the table says (%v): go test ./operators/spec -run Reference -rewrite", err)
	}
}
