package main

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/examples"
)

// Each question's pipeline gives one answer over both orders of the sample; whether it is the right one,
// only the whole input can tell.
func TestQuestionsOverTheSample(t *testing.T) {
	for _, c := range load(t) {
		if c.Family != "flights" {
			continue
		}
		t.Run(c.ID, func(t *testing.T) {
			q, err := readQuestion(c)
			if err != nil {
				t.Fatal(err)
			}
			name := strings.TrimPrefix(c.ID, "flights-") + ".yaml"
			text, err := fs.ReadFile(examples.Questions, questionDir+name)
			if err != nil {
				t.Fatal(err)
			}
			var answers [2][]string
			for i, f := range []string{"flights.parquet", "flights-by-report.parquet"} {
				input, err := filepath.Abs("../../examples/flights/data/" + f)
				if err != nil {
					t.Fatal(err)
				}
				lines, err := runPipeline(name, []byte(strings.Replace(string(text), sampleFile, input, 1)))
				if err != nil {
					t.Fatal(err)
				}
				for _, l := range lines {
					row, err := q.row(l)
					if err != nil {
						t.Fatal(err)
					}
					answers[i] = append(answers[i], row)
				}
				slices.Sort(answers[i])
			}
			if !slices.Equal(answers[0], answers[1]) {
				t.Errorf("in order of departure %d rows, of report %d, and they differ", len(answers[0]), len(answers[1]))
			}
			if len(answers[0]) == 0 && c.ID != "flights-f12" && c.ID != "flights-f08" { // the sample is small
				t.Error("no rows")
			}
		})
	}
}

// A table is the header and the rows in bytewise order, each ended by a line feed.
func TestTable(t *testing.T) {
	q := &asked{}
	q.Operator.Columns = []string{"origin", "day", "n"}
	q.Expected.SHA256 = "6f1a2e36b18f0e0d4b1f7b1b0f34b8b0b0f2f9a2ac9d4e9f7cb5ab6a1c4b26d3"
	q.Expected.First20 = []string{"ABE,-1,2", "ABE,1,2"}
	lines := [][]byte{[]byte(`{"origin":"ABE","window_start":86400001,"n":2}`), []byte(`{"n":2,"day":-1,"origin":"ABE"}`)}
	if err := q.judge(lines); err == nil || !strings.Contains(err.Error(), "the first 2 are right") {
		t.Errorf("rows that are right with another digest: %v", err)
	}
	if err := q.judge(lines[:1]); err == nil || !strings.Contains(err.Error(), "row 0") {
		t.Errorf("a row is missing: %v", err)
	}
	if _, err := q.row([]byte(`{"origin":"ABE"}`)); err == nil {
		t.Error("a line without its columns was taken")
	}
}
