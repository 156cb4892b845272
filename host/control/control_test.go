package control

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/checkpoint/storechange"
)

// fake answers with what it is given.
type fake struct {
	info      Info
	err       error
	savepoint func(ctx context.Context, r SavepointRequest) (Savepoint, error)
}

func (f *fake) Info(context.Context) (Info, error) { return f.info, f.err }

func (f *fake) Savepoint(ctx context.Context, r SavepointRequest) (Savepoint, error) {
	return f.savepoint(ctx, r)
}

func (f *fake) ChangeSnapshots(_ context.Context, c storechange.Change) (storechange.Changed, error) {
	return storechange.Changed{ID: c.Delete}, f.err
}

func (f *fake) Stop(context.Context, StopRequest) (Stopped, error) {
	return Stopped{Checkpoint: 7}, f.err
}

func serve(t *testing.T, dir string, p Pipeline) *Server {
	t.Helper()
	s, err := Serve(dir, p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func dial(t *testing.T, dir string) *Client {
	t.Helper()
	c, err := Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestRequestsAndErrorsCross(t *testing.T) {
	f := &fake{info: Info{PID: 42, Pipeline: "words", Stats: Stats{Read: 7, Watermark: -1 << 63, Operators: []OperatorStats{{ID: "a", Counters: map[string]int64{"in": 3}}}}}}
	f.savepoint = func(_ context.Context, r SavepointRequest) (Savepoint, error) {
		return Savepoint{ID: 9, Tag: r.Tag, Stopped: r.Stop}, nil
	}
	dir := t.TempDir()
	serve(t, dir, f)
	c, ctx := dial(t, dir), context.Background()
	in, err := c.Info(ctx)
	if err != nil || in.PID != 42 || in.Stats.Watermark != -1<<63 || in.Stats.Operators[0].Counters["in"] != 3 {
		t.Errorf("%+v, %v", in, err)
	}
	sp, err := c.Savepoint(ctx, SavepointRequest{Tag: "x", Stop: true})
	if err != nil || sp != (Savepoint{ID: 9, Tag: "x", Stopped: true}) {
		t.Errorf("%+v, %v", sp, err)
	}
	if st, err := c.Stop(ctx, StopRequest{}); err != nil || st.Checkpoint != 7 {
		t.Errorf("%+v, %v", st, err)
	}
	if ch, err := c.ChangeSnapshots(ctx, storechange.Change{Delete: 4}); err != nil || ch.ID != 4 {
		t.Errorf("%+v, %v", ch, err)
	}
	for kind := range statuses {
		f.err = &Error{Kind: kind, Message: "because " + string(kind), Data: []byte(`{"n":1}`)}
		_, err := c.Info(ctx)
		var e *Error
		if !errors.As(err, &e) || e.Kind != kind || !strings.Contains(err.Error(), "because") || string(e.Data) != `{"n":1}` {
			t.Errorf("%s: %v", kind, err)
		}
	}
	f.err = errors.New("plain")
	var e *Error
	if _, err := c.Info(ctx); !errors.As(err, &e) || e.Kind != KindFailed || e.Message != "plain" {
		t.Errorf("%v", err)
	}
}

func TestBadRequests(t *testing.T) {
	dir := t.TempDir()
	serve(t, dir, &fake{})
	c := dial(t, dir)
	for _, r := range []struct {
		method, path, body string
		status             int
		text               string
	}{
		{"POST", "/v0/savepoints", `{"tga":"x"}`, 400, "tga"},
		{"POST", "/v0/savepoints", `{`, 400, "EOF"},
		{"POST", "/v0/savepoints", `{"tag":"` + strings.Repeat("x", maxRequest) + `"}`, 400, "too large"},
		{"POST", "/v1/info", ``, 404, "no request POST /v1/info"},
		{"PUT", "/v0/info", ``, 404, "no request PUT"},
	} {
		q, err := http.NewRequest(r.method, "http://x"+r.path, strings.NewReader(r.body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.http.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != r.status || resp.Header.Get("Content-Type") != problemType || !strings.Contains(string(b), r.text) {
			t.Errorf("%s %s: %s %s", r.method, r.path, resp.Status, b)
		}
	}
}

func TestWhyThereIsNoOne(t *testing.T) {
	dir := t.TempDir()
	if _, err := Dial(filepath.Join(dir, "nothing", "here")); !errors.Is(err, ErrNotRunning) || errors.Is(err, ErrStale) {
		t.Errorf("no folder: %v", err)
	}
	first, err := listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(Path(dir)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v", info.Mode(), err)
	}
	if info, err := os.Stat(filepath.Dir(Path(dir))); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("its folder: %v, %v", info.Mode(), err)
	}
	// A process that dies leaves the name of its socket.
	first.listener.Close()
	if _, err := Dial(dir); !errors.Is(err, ErrStale) || !errors.Is(err, ErrNotRunning) {
		t.Errorf("stale: %v", err)
	}
	second := &fake{info: Info{PID: 2}}
	serve(t, dir, second)
	if in, err := dial(t, dir).Info(context.Background()); err != nil || in.PID != 2 {
		t.Errorf("replaced: %+v, %v", in, err)
	}
	// The first, late, does not take the second's away.
	if err := first.remove(); err != nil {
		t.Error(err)
	}
	dial(t, dir)
}

func TestSocketGoesWithTheServer(t *testing.T) {
	dir := t.TempDir()
	s, err := Serve(dir, &fake{})
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, dir)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Dial(dir); !errors.Is(err, ErrNotRunning) || errors.Is(err, ErrStale) {
		t.Error(err)
	}
	if _, err := c.Info(context.Background()); !errors.Is(err, ErrNotRunning) {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Dir(Path(dir))); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// Close lets an answer under way be given.
func TestCloseWaitsForAnswers(t *testing.T) {
	asked, give := make(chan struct{}), make(chan struct{})
	f := &fake{savepoint: func(context.Context, SavepointRequest) (Savepoint, error) {
		close(asked)
		<-give
		return Savepoint{ID: 3}, nil
	}}
	dir := t.TempDir()
	s, err := Serve(dir, f)
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, dir)
	got := make(chan error, 1)
	go func() {
		sp, err := c.Savepoint(context.Background(), SavepointRequest{})
		if err == nil && sp.ID != 3 {
			err = errors.New("another answer")
		}
		got <- err
	}()
	<-asked
	time.AfterFunc(50*time.Millisecond, func() { close(give) })
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// Paths longer than a socket's may be, of the folder and of the temporary folder too.
func TestDeepFolders(t *testing.T) {
	deep := filepath.Join(t.TempDir(), strings.Repeat("d", 100), strings.Repeat("e", 100))
	tmp := filepath.Join(t.TempDir(), "tmp")
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", tmp)
	serve(t, deep, &fake{info: Info{PID: 5}})
	if in, err := dial(t, deep).Info(context.Background()); err != nil || in.PID != 5 {
		t.Errorf("%+v, %v", in, err)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) != 0 {
		t.Errorf("left in the temporary folder: %v, %v", left, err)
	}
	t.Setenv("TMPDIR", filepath.Dir(deep))
	other := filepath.Join(deep, "other")
	serve(t, other, &fake{})
	dial(t, other)
	// Relative ones are those of the working folder.
	t.Chdir(deep)
	rel := filepath.Join(strings.Repeat("r", 120), "state")
	serve(t, rel, &fake{})
	dial(t, filepath.Join(deep, rel))
}

func TestPeerIsThisUser(t *testing.T) {
	dir := t.TempDir()
	serve(t, dir, &fake{})
	conn, err := net.Dial("unix", Path(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if p := peerOf(conn); !p.known || p.uid != os.Geteuid() {
		t.Errorf("%+v", p)
	}
	if (peer{uid: self() + 1, known: true}).permitted() || (peer{uid: -1, known: true}).permitted() {
		t.Error("another user is let in")
	}
}
