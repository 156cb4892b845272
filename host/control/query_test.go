package control

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/operators/stateview"
)

// stateful answers with what it was asked.
type stateful struct {
	fake
	asked stateview.Request
	err   error
}

func (s *stateful) State(_ context.Context, r stateview.Request) (stateview.Page, error) {
	s.asked = r
	return stateview.Page{Snapshot: 7, Consistent: !r.Live, Rows: []json.RawMessage{json.RawMessage(`{"key":"a"}`)}, Next: "n"}, s.err
}

func TestStateOnTheSocket(t *testing.T) {
	dir := t.TempDir()
	p := &stateful{}
	serve(t, dir, p)
	key := "k"
	page, err := dial(t, dir).State(context.Background(), stateview.Request{Query: stateview.Query{Operator: "op", Key: &key, Limit: 3}, Live: true})
	if err != nil || page.Snapshot != 7 || page.Consistent || len(page.Rows) != 1 || page.Next != "n" {
		t.Errorf("%+v, %v", page, err)
	}
	if a := p.asked; a.Operator != "op" || *a.Key != "k" || a.Limit != 3 || !a.Live {
		t.Errorf("asked %+v", a)
	}
	p.err = &Error{Kind: KindNotFound, Message: "no such state"}
	var e *Error
	if _, err := dial(t, dir).State(context.Background(), stateview.Request{}); !errors.As(err, &e) || e.Kind != KindNotFound {
		t.Errorf("%v", err)
	}
	other := t.TempDir()
	serve(t, other, &fake{})
	if _, err := dial(t, other).State(context.Background(), stateview.Request{}); !errors.As(err, &e) || e.Kind != KindUnsupported {
		t.Errorf("a pipeline without: %v", err)
	}
}

func TestQueriesOverHTTP(t *testing.T) {
	p := &stateful{}
	q, err := ServeQueries("127.0.0.1:0", p)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	}()
	ask := func(host, path string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequest("GET", "http://"+q.Addr()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if host != "" {
			r.Host = host
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(b)
	}
	resp, body := ask("localhost", "/v1/state/op/s?key=a%2Fb&entry=&raw=true")
	if resp.StatusCode != 200 || resp.Header.Get("Millrace-Snapshot") != "7" || !strings.Contains(body, `"next":"n"`) {
		t.Errorf("%s %s", resp.Status, body)
	}
	if a := p.asked; a.Operator != "op" || a.State != "s" || *a.Key != "a/b" || *a.Entry != "" || !a.Raw || a.Live {
		t.Errorf("asked %+v", a)
	}
	if ask("", "/v1/state/op/s?prefix=p&limit=5&after=x"); p.asked.KeyPrefix != "p" || p.asked.Limit != 5 || p.asked.After != "x" || p.asked.Key != nil {
		t.Errorf("asked %+v", p.asked)
	}
	for _, c := range []struct {
		host, path string
		status     int
		text       string
	}{
		{"evil.example", "/v1/state/op/s", 403, "not this machine"}, {"evil.example:80", "/v1/state/op/s", 403, "not this machine"},
		{"", "/v1/state/op", 404, "expected GET"}, {"", "/v1/state/op/s?key=a&key=b", 400, "2 times"}, {"", "/v1/state/op/s?limit=1001", 400, "1001"},
		{"", "/v1/state/op/s?live=perhaps", 400, "perhaps"}, {"", "/v1/state/op/s?kye=a", 400, "kye"},
	} {
		resp, body := ask(c.host, c.path)
		if resp.StatusCode != c.status || resp.Header.Get("Content-Type") != problemType || !strings.Contains(body, c.text) {
			t.Errorf("%s%s: %s %s", c.host, c.path, resp.Status, body)
		}
	}
	for _, address := range []string{"0.0.0.0:0", ":0", "192.0.2.1:0", "nonsense", "example.com:80"} {
		if q, err := ServeQueries(address, p); err == nil {
			q.Close()
			t.Errorf("%s is taken", address)
		}
	}
}
