package main

import (
	"os"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/checkpoint/crashpoint"
)

func TestTheCrashMatrixIsInTheDocuments(t *testing.T) {
	text, err := os.ReadFile("../../docs/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range append(append([]crashpoint.Point{}, crashpoint.Points...), crashpoint.Absent...) {
		if row := "| " + p.Name + " | " + p.Meaning + " |"; !strings.Contains(string(text), row) {
			t.Errorf("docs/testing.md has no row %s", row)
		}
	}
}
