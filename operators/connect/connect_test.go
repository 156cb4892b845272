package connect

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/operatortest"
)

func lineNode(connector, format string) *operators.Node {
	return &operators.Node{ID: "in", Kind: operators.NodeSource, Source: &operators.SourceNode{Connector: connector, Format: format,
		TCP: &operators.TCPSource{}, OnError: &operators.ErrorPolicy{Policy: operators.PolicySkip}}}
}

func open(t *testing.T, n *operators.Node, env Env, restored ...checkpoint.OperatorSnapshot) *operatortest.SourceRun {
	t.Helper()
	s, err := Source(n, env)
	if err != nil {
		t.Fatal(err)
	}
	ctx := operatortest.Context(t, "in", "")
	ctx.Restored = restored
	return operatortest.OpenSource(t, s, ctx)
}

func TestStdin(t *testing.T) {
	long := strings.Repeat("x", abi.MaxRecordBytes+1)
	fits := strings.Repeat("y", abi.MaxRecordBytes)
	for _, format := range []string{"lines", "ndjson"} {
		r := open(t, lineNode("stdin", format), Env{Stdin: strings.NewReader("1\r\n\n" + long + "\n" + fits + "\n2")}).Await(9, 3)
		want := []string{"1", "", fits, "2"}
		if format == "ndjson" {
			want = []string{"1", fits, "2"}
		}
		if got := r.Out.Values(); !slices.Equal(got, want) || r.Status != operators.PollEnd {
			t.Errorf("%s: %d records, status %v", format, len(got), r.Status)
		}
		if c := r.Source.(operators.Counted).Counters(); c["skipped"] != 1 {
			t.Errorf("%s: %v", format, c)
		}
		// a restart of a finished source gives nothing
		again := open(t, lineNode("stdin", format), Env{Stdin: strings.NewReader("3\n")}, checkpoint.OperatorSnapshot{Splits: r.Source.Positions()}).Drain(3)
		if len(again.Out.Records) != 0 || again.Status != operators.PollEnd {
			t.Errorf("%s: read again: %v", format, again.Out.Values())
		}
	}
}

// TestStdinBounded: what is read and not polled is bounded, so a fast writer waits.
func TestStdinBounded(t *testing.T) {
	pr, pw := io.Pipe()
	r := open(t, lineNode("stdin", "lines"), Env{Stdin: pr})
	const lines, size = 100, 100_000
	done := make(chan error, 1)
	go func() {
		line := []byte(strings.Repeat("z", size-1) + "\n")
		for range lines {
			if _, err := pw.Write(line); err != nil {
				done <- err
				return
			}
		}
		done <- pw.Close()
	}()
	for len(r.Out.Records) == 0 { // polls, not Await, which would go on as long as there is more
		<-r.Source.Ready()
		if err := r.Poll(1); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-done:
		t.Fatalf("10 MB went in with one record polled: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	r.Await(lines, 10)
	if err := <-done; err != nil || len(r.Out.Records) != lines {
		t.Errorf("%d lines, %v", len(r.Out.Records), err)
	}
}

func TestTCP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		for i := range 100 {
			fmt.Fprintf(c, "line %d\n", i)
		}
		c.Close()
	}()
	n := lineNode("tcp", "lines")
	n.Source.TCP.Address = l.Addr().String()
	r := open(t, n, Env{}).Await(101, 7)
	if len(r.Out.Records) != 100 || r.Status != operators.PollEnd || string(r.Out.Records[99].Value) != "line 99" {
		t.Errorf("%d records, status %v", len(r.Out.Records), r.Status)
	}
	if err := r.Source.Close(); err != nil {
		t.Error(err)
	}
}

// TestTCPClose: closing ends a source that waits for its peer.
func TestTCPClose(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		if c, err := l.Accept(); err == nil {
			accepted <- c
		}
	}()
	n := lineNode("tcp", "lines")
	n.Source.TCP.Address = l.Addr().String()
	r := open(t, n, Env{}).Drain(10)
	c := <-accepted
	defer c.Close()
	for r.Status == operators.PollIdle && r.Source.Close() == nil {
		if _, err := c.Read(make([]byte, 1)); err != nil { // the peer sees the end
			break
		}
	}
}

func TestStdout(t *testing.T) {
	var out bytes.Buffer
	n := &operators.Node{ID: "out", Kind: operators.NodeSink, Sink: &operators.SinkNode{Connector: "stdout"}}
	op, err := Operator(n, Env{Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	h := operatortest.New(t, op, operatortest.Context(t, "out", ""))
	h.Push(abi.Record{Value: []byte("1")}, abi.Record{})
	if out.String() != "1\nnull\n" {
		t.Errorf("%q", out.String())
	}
	op, err = Operator(n, Env{Stdout: broken{}})
	if err != nil {
		t.Fatal(err)
	}
	h = operatortest.New(t, op, operatortest.Context(t, "out", ""))
	if err := h.TryPush(abi.Record{Value: []byte("1")}); err == nil || !strings.Contains(err.Error(), `sink "out"`) {
		t.Errorf("got %v", err)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// TestEveryConnector: each form that the pipeline file takes can be made, and says what it promises.
func TestEveryConnector(t *testing.T) {
	for connector, want := range map[string]operators.Promise{"file": operators.PromiseExactlyOnce, "stdin": operators.PromiseLossy,
		"tcp": operators.PromiseLossy, "generator": operators.PromiseExactlyOnce} {
		n := lineNode(connector, "lines")
		n.Source.File, n.Source.Generator = &operators.FileSource{}, &operators.GeneratorSpec{}
		if s, err := Source(n, Env{}); s == nil || err != nil || Promise(n) != want {
			t.Errorf("source %s: %v, promise %s", connector, err, Promise(n))
		}
	}
	for connector, want := range map[string]operators.Promise{"file": operators.PromiseExactlyOnce, "stdout": operators.PromiseAtLeastOnce, "blackhole": operators.PromiseExactlyOnce} {
		n := &operators.Node{ID: "o", Kind: operators.NodeSink, Sink: &operators.SinkNode{Connector: connector, Path: filepath.Join(t.TempDir(), "x")}}
		if op, err := Operator(n, Env{}); op == nil || err != nil || Promise(n) != want {
			t.Errorf("sink %s: %v, promise %s", connector, err, Promise(n))
		}
	}
	if _, err := Source(lineNode("kafka", ""), Env{}); err == nil {
		t.Error("an unknown connector was made")
	}
}
