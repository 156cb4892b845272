package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// maxRequest bounds the body of a request, bytes.
const maxRequest = 1 << 20

// closing is how long Close waits for answers under way.
const closing = 5 * time.Second

// Server answers requests about one pipeline.
type Server struct {
	pipeline Pipeline
	mux      *http.ServeMux
	http     *http.Server
	socket   *socket
	done     chan error
}

// Serve listens on the control socket of a state folder, in place of one that an earlier process left. The
// caller holds the lock of the folder. Close it in the end, before the lock is given up.
func Serve(stateDir string, p Pipeline) (*Server, error) {
	sock, err := listen(stateDir)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	s := &Server{pipeline: p, mux: http.NewServeMux(), socket: sock, done: make(chan error, 1)}
	for _, t := range topics {
		t(s)
	}
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeProblem(w, &Error{Kind: KindNotFound, Message: fmt.Sprintf("no request %s %s in this version", r.Method, r.URL.Path)})
	})
	s.http = &http.Server{Handler: http.HandlerFunc(s.serve), ReadHeaderTimeout: closing, MaxHeaderBytes: 64 << 10,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, peerKey{}, peerOf(c))
		}}
	go func() { s.done <- s.http.Serve(sock.listener) }()
	return s, nil
}

// peerKey is the context's key of the other side's user.
type peerKey struct{}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if p, ok := r.Context().Value(peerKey{}).(peer); !ok || !p.permitted() {
		writeProblem(w, &Error{Kind: KindNotPermitted, Message: fmt.Sprintf("user %d may not talk to a pipeline of user %d", p.uid, self())})
		return
	}
	s.mux.ServeHTTP(w, r)
}

// Close removes the socket, and returns when answers under way are given or have had their time.
func (s *Server) Close() error {
	err := s.socket.remove()
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	if serr := s.http.Shutdown(ctx); serr != nil {
		err = errors.Join(err, s.http.Close())
	}
	if serr := <-s.done; !errors.Is(serr, http.ErrServerClosed) {
		err = errors.Join(err, serr)
	}
	return err
}

// none is the body of a request or answer that has none.
type none struct{}

// route answers requests of one pattern ("POST /v0/words"): the body is an In, the answer an Out.
func route[In, Out any](s *Server, pattern string, answer func(ctx context.Context, in In) (Out, error)) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		var in In
		if err := read(r, &in); err != nil {
			writeProblem(w, err)
			return
		}
		out, err := answer(r.Context(), in)
		if err != nil {
			writeProblem(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out)
	})
}

// read decodes a request's body; fields that this version does not know are refused, since leaving one out
// may do something else than was asked.
func read(r *http.Request, in any) error {
	if _, ok := in.(*none); ok {
		return nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxRequest))
	if err != nil {
		return &Error{Kind: KindBadRequest, Message: err.Error()}
	}
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	if err := d.Decode(in); err != nil {
		return &Error{Kind: KindBadRequest, Message: fmt.Sprintf("request %s %s: %v", r.Method, r.URL.Path, err)}
	}
	return nil
}

// unsupported is the answer of a topic that the pipeline does not implement.
func unsupported(what string) error {
	return &Error{Kind: KindUnsupported, Message: "this pipeline can't be asked to " + what}
}
