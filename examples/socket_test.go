package examples

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/host/job"
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
	a, b := program("file.yaml"), program("socket.yaml")
	if strings.Join(a, "") != strings.Join(b, "") || len(a) < 12 {
		t.Errorf("file.yaml:\n%s\nsocket.yaml:\n%s", strings.Join(a, ""), strings.Join(b, ""))
	}
}

// serve sends a file to whoever connects, then a line an hour later, whose watermark ends every window of the
// file, and keeps the connection.
func serve(t *testing.T, file string) (address string, lines int) {
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
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			for line := range strings.Lines(string(text)) { // in pieces, as a network may
				fmt.Fprint(c, line[:len(line)/2])
				fmt.Fprint(c, line[len(line)/2:])
			}
			fmt.Fprintf(c, "{\"at\":%d,\"line\":\"later\"}\n", time.Date(2026, 1, 1, 1, 0, 0, 0, time.UTC).UnixMilli())
		}
	}()
	return l.Addr().String(), strings.Count(string(text), "\n") + 1
}

func TestWordsOverASocket(t *testing.T) {
	m := newModules(t)
	for _, p := range []int{1, 4} {
		dir := project(t, "words")
		path := filepath.Join(dir, "socket.yaml")
		address, want := serve(t, filepath.Join(dir, "data", "lines.ndjson"))
		replace(t, path, "localhost:9999", address)
		settings(t, path, fmt.Sprint("parallelism: ", p), "checkpoint: {interval: 10ms}")
		j := m.start(path, nil)
		ended := make(chan job.Result, 1)
		go func() {
			res, err := j.Run(context.Background())
			if err != nil {
				t.Error(err)
			}
			ended <- res
		}()
		<-j.Ready()
		for deadline := time.Now().Add(30 * time.Second); j.Stats().Read < int64(want); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d of %d lines were read", j.Stats().Read, want)
			}
		}
		j.Stop() // with a checkpoint and without a last watermark: the windows of the last line stay open
		if res := <-ended; !res.Stopped {
			t.Errorf("%+v", res)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		golden(t, filepath.Join(dir, "out-socket"), "words/golden/windows.ndjson")
	}
}
