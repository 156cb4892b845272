package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"

	"github.com/millrace-io/millrace/operators/stateview"
)

// Stateful is a Pipeline whose state can be asked for.
type Stateful interface {
	// State gives one page of rows. Nothing in it changes the pipeline.
	State(ctx context.Context, r stateview.Request) (stateview.Page, error)
}

const stateRoute = "POST /v0/state"

func queryRoutes(s *Server) {
	route(s, stateRoute, func(ctx context.Context, r stateview.Request) (stateview.Page, error) {
		p, ok := s.pipeline.(Stateful)
		if !ok {
			return stateview.Page{}, &Error{Kind: KindUnsupported, Message: "this pipeline's state can't be asked for"}
		}
		return p.State(ctx, r)
	})
}

// State asks for one page of rows.
func (c *Client) State(ctx context.Context, r stateview.Request) (stateview.Page, error) {
	return call[stateview.Request, stateview.Page](ctx, c, stateRoute, r)
}

// QueryServer answers requests about state on a loopback address, for reading only:
//
//	GET /v1/state/{operator}/{state}?key=K&entry=E&live=true
//	GET /v1/state/{operator}/{state}?prefix=P&limit=N&after=NEXT
//
// with "raw=true" for bytes in base64. The answer is a stateview.Page, whose snapshot is also in the header
// Millrace-Snapshot; errors are problem+json.
type QueryServer struct {
	http *http.Server
	addr net.Addr
	done chan error
}

// ServeQueries listens on an address of this machine alone ("127.0.0.1:0": any free port). Everybody on the
// machine can ask.
func ServeQueries(address string, p Stateful) (*QueryServer, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("query address: %w", err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("query address %s: not of this machine alone: expected 127.0.0.1, ::1 or localhost", address)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("query address: %w", err)
	}
	if a, ok := l.Addr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		return nil, fmt.Errorf("query address %s is %s here, which is not of this machine alone", address, l.Addr())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/state/{operator}/{state}", func(w http.ResponseWriter, r *http.Request) { answerQuery(w, r, p) })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeProblem(w, &Error{Kind: KindNotFound, Message: fmt.Sprintf("no request %s %s here; expected GET /v1/state/{operator}/{state}", r.Method, r.URL.Path)})
	})
	q := &QueryServer{http: &http.Server{Handler: local(mux), ReadHeaderTimeout: closing, MaxHeaderBytes: 64 << 10}, addr: l.Addr(), done: make(chan error, 1)}
	go func() { q.done <- q.http.Serve(l) }()
	return q, nil
}

// local refuses requests under another name than this machine's: a web page that a browser shows may have had
// its name point here.
func local(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			writeProblem(w, &Error{Kind: KindNotPermitted, Message: fmt.Sprintf("host %q is not this machine", r.Host)})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Addr is the address it listens on.
func (q *QueryServer) Addr() string { return q.addr.String() }

// Close returns when answers under way are given or have had their time.
func (q *QueryServer) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	err := q.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, q.http.Close())
	}
	if serr := <-q.done; !errors.Is(serr, http.ErrServerClosed) {
		err = errors.Join(err, serr)
	}
	return err
}

// queryParams are what a request may have besides its path.
var queryParams = map[string]bool{"key": true, "entry": true, "prefix": true, "limit": true, "after": true, "live": true, "raw": true}

func answerQuery(w http.ResponseWriter, r *http.Request, p Stateful) {
	req, err := queryOf(r)
	if err != nil {
		writeProblem(w, &Error{Kind: KindBadRequest, Message: err.Error()})
		return
	}
	page, err := p.State(r.Context(), req)
	if err != nil {
		writeProblem(w, err)
		return
	}
	w.Header().Set("Millrace-Snapshot", strconv.FormatUint(uint64(page.Snapshot), 10))
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(page) // the other side has gone, at worst
}

func queryOf(r *http.Request) (stateview.Request, error) {
	var req stateview.Request
	req.Operator, req.State = r.PathValue("operator"), r.PathValue("state")
	values := r.URL.Query()
	for name, v := range values {
		if !queryParams[name] {
			return req, fmt.Errorf("parameter %q, expected key, entry, prefix, limit, after, live or raw", name)
		}
		if len(v) != 1 {
			return req, fmt.Errorf("parameter %q is there %d times", name, len(v))
		}
	}
	if values.Has("key") {
		k := values.Get("key")
		req.Key = &k
	}
	if values.Has("entry") {
		e := values.Get("entry")
		req.Entry = &e
	}
	req.KeyPrefix, req.After = values.Get("prefix"), values.Get("after")
	var err error
	if l := values.Get("limit"); l != "" {
		if req.Limit, err = strconv.Atoi(l); err != nil || req.Limit < 1 || req.Limit > stateview.MostRows {
			return req, fmt.Errorf("limit %q, expected 1 to %d", l, stateview.MostRows)
		}
	}
	for name, to := range map[string]*bool{"live": &req.Live, "raw": &req.Raw} {
		if v := values.Get(name); v != "" {
			if *to, err = strconv.ParseBool(v); err != nil {
				return req, fmt.Errorf("%s %q, expected true or false", name, v)
			}
		}
	}
	return req, nil
}
