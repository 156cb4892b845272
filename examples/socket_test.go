package examples

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The two files are one program: they differ in their name, the lines of the source, and where the output goes.
func TestWordsOverFileAndSocketAreOneProgram(t *testing.T) {
	program := func(file string) (rest []string) {
		text, err := os.ReadFile(filepath.Join("words", file))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			field, _, _ := strings.Cut(strings.TrimSpace(line), ":")
			switch {
			case strings.HasPrefix(line, "#"), field == "name", field == "source", field == "address":
			case field == "path": // of the source's file, or of the output
			default:
				rest = append(rest, line)
			}
		}
		return rest
	}
	a, b := program("pipeline.yaml"), program("socket.yaml")
	if strings.Join(a, "") != strings.Join(b, "") || len(a) < 12 {
		t.Errorf("pipeline.yaml:\n%s\nsocket.yaml:\n%s", strings.Join(a, ""), strings.Join(b, ""))
	}
}

// serve sends a file to whoever connects, in pieces as a network may, and closes, which ends the input.
func serve(t *testing.T, file string) (address string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		for line := range strings.Lines(string(text)) {
			fmt.Fprint(c, line[:len(line)/2])
			time.Sleep(time.Millisecond)
			fmt.Fprint(c, line[len(line)/2:])
		}
	}()
	return l.Addr().String()
}

func TestWordsOverASocket(t *testing.T) {
	m := newModules(t)
	for _, p := range []int{1, 4} {
		dir := project(t, "words")
		path := filepath.Join(dir, "socket.yaml")
		replace(t, path, "localhost:9999", serve(t, filepath.Join(dir, "data", "lines.ndjson")))
		settings(t, path, fmt.Sprint("parallelism: ", p), "checkpoint: {interval: 10ms}")
		m.complete(path, nil)
		golden(t, filepath.Join(dir, "out-socket"), "words/golden/windows.ndjson")
	}
}
