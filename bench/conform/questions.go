package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/bench/conform/corpus"
	"github.com/millrace-io/millrace/bench/conform/drive"
	"github.com/millrace-io/millrace/examples"
	"github.com/millrace-io/millrace/guests/cases"
	"github.com/millrace-io/millrace/host/worker"
	"github.com/millrace-io/millrace/operators/spec"
)

// The flights, in the order of departure and in that of arrival, up to 28 hours late.
var flightFiles = []string{"flights-3m.parquet", "flights-by-report.parquet"}

// sampleFile is the input that the pipelines of the questions name.
const sampleFile = "../data/flights-by-report.parquet"

// questionDir is their folder in examples.Questions.
const questionDir = "flights/questions/"

// modulePath is where the pipelines of the questions find their module.
const modulePath = "../../../guests/cases/questions/questions.wasm"

// question runs the pipeline of a question about the flights over both orders of the file, and compares
// the rows with the digest of the expected ones. The pipelines are examples/flights/questions/<number>.yaml.
func question(c *corpus.Case) (wrong []string, runs int, err error) {
	name := strings.TrimPrefix(c.ID, "flights-") + ".yaml"
	text, err := fs.ReadFile(examples.Questions, questionDir+name)
	if err != nil {
		return nil, 0, drive.ErrNotBuilt
	}
	folder := os.Getenv("MILLRACE_FLIGHTS")
	if folder == "" {
		return nil, 0, fmt.Errorf("%w: MILLRACE_FLIGHTS does not name the folder of the flights", errNoInput)
	}
	q, err := readQuestion(c)
	if err != nil {
		return nil, 0, err
	}
	for i, f := range flightFiles {
		input, err := filepath.Abs(filepath.Join(folder, f))
		if err != nil {
			return nil, runs, err
		}
		text := strings.Replace(string(text), sampleFile, input, 1)
		text = strings.Replace(text, "operators:", fmt.Sprintf("parallelism: %d\noperators:", 1+i), 1)
		lines, err := runPipeline(name, []byte(text))
		if err == nil {
			runs++
			err = q.judge(lines)
		}
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("%s: %v", f, err))
		}
	}
	return wrong, runs, nil
}

// asked is what a question's case says of its answer.
type asked struct {
	Operator struct {
		Columns []string `json:"columns"`
	} `json:"operator"`
	Expected struct {
		Rows    int      `json:"rows"`
		SHA256  string   `json:"sha256"`
		First20 []string `json:"first_20"`
	} `json:"expected"`
}

func readQuestion(c *corpus.Case) (*asked, error) {
	q := &asked{}
	if err := c.As(q); err != nil {
		return nil, err
	}
	if len(q.Operator.Columns) == 0 || q.Expected.SHA256 == "" {
		return nil, fmt.Errorf("%s: a question needs columns and the digest of its answer", c.Path())
	}
	return q, nil
}

// judge makes a table of the result lines: a header, then the rows in bytewise order.
func (q *asked) judge(lines [][]byte) error {
	rows := make([]string, len(lines))
	for i, l := range lines {
		var err error
		if rows[i], err = q.row(l); err != nil {
			return err
		}
	}
	slices.Sort(rows)
	table := strings.Join(q.Operator.Columns, ",") + "\n"
	if len(rows) > 0 {
		table += strings.Join(rows, "\n") + "\n"
	}
	sum := sha256.Sum256([]byte(table))
	if hex.EncodeToString(sum[:]) == q.Expected.SHA256 {
		return nil
	}
	for i, w := range q.Expected.First20 {
		if i >= len(rows) || rows[i] != w {
			return fmt.Errorf("%d rows, expected %d; row %d is %q, expected %q", len(rows), q.Expected.Rows, i, rows[min(i, len(rows)-1)], w)
		}
	}
	return fmt.Errorf("%d rows, expected %d; the first %d are right, the digest is not", len(rows), q.Expected.Rows, len(q.Expected.First20))
}

// row is a result line as a row of the table. Of a column day or
// start_ms that a line lacks, the start of its
// window is the value.
func (q *asked) row(line []byte) (string, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(line, &m); err != nil {
		return "", fmt.Errorf("result %s: %w", line, err)
	}
	cells := make([]string, len(q.Operator.Columns))
	for i, name := range q.Operator.Columns {
		v, ok := m[name]
		if ok {
			cells[i] = strings.Trim(string(v), `"`)
			continue
		}
		var ms int64
		if err := json.Unmarshal(m["window_start"], &ms); err != nil {
			return "", fmt.Errorf("result %s has no %s, nor a window_start to take it from", line, name)
		}
		switch name {
		case "day":
			cells[i] = fmt.Sprint(ms / (24 * 60 * 60 * 1000))
		case "start_ms":
			cells[i] = fmt.Sprint(ms)
		default:
			return "", fmt.Errorf("result %s has no %s", line, name)
		}
	}
	return strings.Join(cells, ","), nil
}

// runPipeline runs a pipeline file beside the module of the questions and returns the lines of its sink.
func runPipeline(name string, text []byte) ([][]byte, error) {
	tmp, err := os.MkdirTemp("", "millrace-conform-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	text = bytes.ReplaceAll(text, []byte(modulePath), []byte("questions.wasm"))
	path := filepath.Join(tmp, name)
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(tmp, "questions.wasm"), cases.Module("questions"), 0o644); err != nil {
		return nil, err
	}
	ctx := context.Background()
	mods, err := worker.NewModules(ctx, "")
	if err != nil {
		return nil, err
	}
	defer mods.Close()
	g, err := spec.Load(path, spec.Options{Modules: mods})
	if err != nil {
		return nil, err
	}
	g.File = path
	w := worker.NewLocal(worker.Options{})
	defer w.Close()
	if err := w.Deploy(ctx, worker.Deploy{Graph: g, StateDir: filepath.Join(tmp, "state")}); err != nil {
		return nil, err
	}
	if res, err := w.Wait(ctx); err != nil {
		return nil, err
	} else if !res.Complete {
		return nil, fmt.Errorf("the job ended without a complete result")
	}
	parts, err := filepath.Glob(filepath.Join(tmp, "out", "*.ndjson"))
	if err != nil {
		return nil, err
	}
	var lines [][]byte
	for _, p := range parts {
		b, err := os.ReadFile(p)
		if err != nil {
			return nil, err
		}
		for l := range bytes.Lines(b) {
			lines = append(lines, bytes.TrimSuffix(l, []byte("\n")))
		}
	}
	return lines, nil
}
