package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The first five minutes of use, each thing that happens to everybody once.

func TestRunThenAgainThenFresh(t *testing.T) {
	text, want := numbered(3000, 7)
	dir := project(t, countPipeline)
	write(t, dir, "in.txt", text)
	r := do(t, dir, "run", "p.yaml")
	r.want(t, 0, "state in .millrace/words", "complete: 3,000 records read in this run")
	if r.out != "" {
		t.Errorf("talk on stdout: %q", r.out)
	}
	expect(t, dir, want)
	do(t, dir, "run", "p.yaml").want(t, 0, "already complete")
	expect(t, dir, want)
	// Published output stays, so a fresh run must not write over it.
	do(t, dir, "run", "--fresh", "p.yaml").want(t, 2, "not this job's", "out", "state is as it was")
	do(t, dir, "run", "p.yaml").want(t, 0, "already complete")
	expect(t, dir, want)
	if err := os.RemoveAll(filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	do(t, dir, "run", "p.yaml", "--fresh").want(t, 0, "complete: 3,000")
	expect(t, dir, want)
}

func TestCtrlCThenAgain(t *testing.T) {
	want := slowWant(t)
	for sig, code := range map[os.Signal]int{os.Interrupt: 130, syscall.SIGTERM: 143} {
		t.Run(sig.String(), func(t *testing.T) {
			dir := project(t, slowPipeline)
			c, stderr := background(t, dir)
			if err := c.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			_ = c.Wait()
			if got := c.ProcessState.ExitCode(); got != code || !strings.Contains(stderr.String(), "stopped: ") {
				t.Fatalf("exit %d, want %d: %s", got, code, stderr)
			}
			if n := len(published(t, dir)); n == 0 || n == len(want) {
				t.Fatalf("%d lines published at the stop, want some and not all", n)
			}
			do(t, dir, "run", "p.yaml").want(t, 0, "going on from checkpoint", "complete: ")
			expect(t, dir, want)
		})
	}
}

func TestKillThenAgain(t *testing.T) {
	want := slowWant(t)
	dir := project(t, slowPipeline)
	for range 3 {
		c, _ := background(t, dir)
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	do(t, dir, "run", "p.yaml").want(t, 0, "going on from checkpoint", "complete: ")
	expect(t, dir, want)
}

func TestTwoAtOnce(t *testing.T) {
	dir := project(t, slowPipeline)
	c, _ := background(t, dir)
	do(t, dir, "run", "p.yaml").want(t, 3, fmt.Sprint(c.Process.Pid))
}

func TestChangedInput(t *testing.T) {
	dir := project(t, strings.Replace(countPipeline, "    format: lines\n", "    format: lines\n    follow: true\n", 1))
	text, _ := numbered(5000, 7)
	write(t, dir, "in.txt", text)
	c, _ := background(t, dir)
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	for what, changed := range map[string]string{"shorter": text[:100], "other": "x" + text[1:]} {
		write(t, dir, "in.txt", changed)
		r := do(t, dir, "run", "p.yaml")
		if r.code == 0 || !strings.Contains(r.err, "in.txt") || !strings.Contains(r.err, "input changed") {
			t.Errorf("%s: exit %d, %s", what, r.code, r.err)
		}
	}
}

func TestMissingModuleSaysHowToBuildIt(t *testing.T) {
	dir := project(t, countPipeline)
	if err := os.Remove(filepath.Join(dir, "wordcount.wasm")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "rust"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "rust/Cargo.toml", "")
	do(t, dir, "run", "p.yaml").want(t, 2, "p.yaml:", "wordcount.wasm", "cargo build --release --target wasm32-unknown-unknown")
}

func TestMissingAndEmptyInput(t *testing.T) {
	dir := project(t, countPipeline)
	do(t, dir, "run", "p.yaml").want(t, 2, "in.txt")
	write(t, dir, "in.txt", "")
	do(t, dir, "run", "p.yaml").want(t, 0, "nothing was read")
}

func TestEverythingLateSaysWhichDelayWouldDo(t *testing.T) {
	dir := project(t, `name: late
operators:
  - id: events
    source: file
    path: in.ndjson
    format: ndjson
    time: {field: at, out_of_orderness: 1s}
  - id: out
    sink: file
    path: out/
`)
	write(t, dir, "in.ndjson", "{\"at\":200000000}\n{\"at\":100001000}\n{\"at\":100000000}\n")
	do(t, dir, "run", "p.yaml").want(t, 0, "2 of 3 records of events came behind its watermark", "out_of_orderness is 1s, with 28h")
}

func TestPipesInAndOut(t *testing.T) {
	dir := project(t, "name: pipe\noperators:\n  - {id: lines, source: stdin, format: lines}\n  - {id: words, flat_map: {module: wordcount.wasm, function: split}}\n"+
		"  - {id: k, key_by: {whole: true}}\n  - {id: count, process: {module: wordcount.wasm, function: count}}\n  - {id: out, sink: stdout}\n")
	c := command(dir, "run", "p.yaml")
	c.Stdin = strings.NewReader("to be or\nnot to be\n")
	r := finish(t, c)
	r.want(t, 0)
	if want := `{"word":"to","count":2}`; !strings.Contains(r.out, want) || strings.Count(r.out, "\n") != 6 {
		t.Errorf("stdout %q", r.out)
	}
	// Another input is another job: it starts afresh, nothing of it is thrown away.
	c = command(dir, "run", "p.yaml")
	c.Stdin = strings.NewReader("to\n")
	r = finish(t, c)
	r.want(t, 0, "starting afresh")
	if r.out != `{"word":"to","count":1}`+"\n" {
		t.Errorf("stdout %q", r.out)
	}
}

// The word count over a socket: netcat listens, the pipeline connects, counts come while it is open.
func TestSocketWordCount(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	text, err := os.ReadFile("../../examples/wordcount/socket.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := project(t, strings.Replace(string(text), "localhost:9999", l.Addr().String(), 1))
	c := command(dir, "run", "p.yaml")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	lines := bufio.NewScanner(out)
	for i, word := range []string{"hello", "hello", "world"} {
		fmt.Fprintln(conn, word)
		if !lines.Scan() {
			t.Fatal("no line came")
		}
		want := []string{`{"word":"hello","count":1}`, `{"word":"hello","count":2}`, `{"word":"world","count":1}`}[i]
		if lines.Text() != want {
			t.Errorf("got %s, want %s", lines.Text(), want)
		}
	}
}

func TestQuickstart(t *testing.T) {
	dir := t.TempDir()
	c := exec.CommandContext(timeout(t, 2*time.Minute), binary, "quickstart")
	c.Dir = dir
	r := finish(t, c)
	r.want(t, 0, "kill -9", "goes on from checkpoint", "0 lost, 0 doubled", "millrace explain", "millrace snapshot list", "millrace inspect")
	if n := strings.Count(r.out, `"card"`); n < 200 {
		t.Errorf("%d alerts on stdout, 200 frauds are planted", n)
	}
	// What it names works.
	file := filepath.Join("millrace-quickstart", "pipeline.yaml")
	do(t, dir, "explain", file).want(t, 0, "exactly-once")
	do(t, dir, "snapshot", "list", filepath.Join("millrace-quickstart", ".millrace", "payments")).want(t, 0, "complete")
	do(t, dir, "inspect", filepath.Join("millrace-quickstart", "fraud.wasm")).want(t, 0, "function fraud")
}

func TestQuickstartKeepsAwayFromOthersFolders(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "mine", "precious")
	do(t, dir, "quickstart", "--dir", ".").want(t, 2, "was not made by quickstart")
}
