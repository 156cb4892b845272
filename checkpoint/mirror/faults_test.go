package mirror

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/minio/minio-go/v7"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/objectstore"
	"github.com/millrace-io/millrace/checkpoint/seal"
)

// What pauses in the S3 client itself after a failure is no time that tests need.
func init() { minio.DefaultRetryUnit = time.Microsecond }

var (
	commits    = flag.Int("commits", 40, "snapshots pushed per kind of fault in TestT8ObjectStoreFaults")
	realServer = flag.String("s3", "", "host:port of a server with an empty bucket named snapshots, to be used instead of the one in this process")
)

// server is an S3 server in this process, reached without a network, or another one.
type server struct {
	mu       sync.Mutex
	handler  http.Handler // nil: it is at endpoint
	endpoint string
	prefix   string
}

func newServer(t testing.TB) *server {
	t.Helper()
	if *realServer != "" {
		return &server{endpoint: *realServer, prefix: fmt.Sprintf("%s-%d", t.Name(), time.Now().UnixNano())}
	}
	backend := s3mem.New()
	if err := backend.CreateBucket("snapshots"); err != nil {
		t.Fatal(err)
	}
	return &server{endpoint: "s3.test", prefix: "team/j", handler: gofakes3.New(backend, gofakes3.WithTimeSkewLimit(0), gofakes3.WithLogger(gofakes3.DiscardLog())).Server()}
}

// RoundTrip implements http.RoundTripper. One request at a time: the server's conditional writes are not atomic.
func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.handler == nil {
		return http.DefaultTransport.RoundTrip(r)
	}
	if r.Body == nil {
		r.Body = http.NoBody
	}
	r.Header.Set("Content-Length", fmt.Sprint(r.ContentLength)) // as a connection would
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	res := w.Result()
	res.Request = r
	return res, r.Context().Err()
}

func (s *server) store(t testing.TB, transport http.RoundTripper) objectstore.Store {
	t.Helper()
	store, err := objectstore.NewS3(objectstore.S3Options{Endpoint: s.endpoint, Plain: true, Region: "us-east-1", Bucket: "snapshots", Prefix: s.prefix,
		AccessKey: "a", SecretKey: "b", Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// timing is time that passes when nothing else happens: sleeps end at once, and what waits for an answer in
// vain runs into its limit.
type timing struct {
	mu      sync.Mutex
	n       int
	pending map[int]func()
}

func (t *timing) Sleep(ctx context.Context, _ time.Duration) error { return ctx.Err() }

func (t *timing) After(_ time.Duration, f func()) (stop func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pending == nil {
		t.pending = map[int]func(){}
	}
	t.n++
	n := t.n
	t.pending[n] = f
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.pending, n)
	}
}

// pass lets all limits run out.
func (t *timing) pass() {
	t.mu.Lock()
	var fs []func()
	for n, f := range t.pending {
		fs = append(fs, f)
		delete(t.pending, n)
	}
	t.mu.Unlock()
	for _, f := range fs {
		f()
	}
}

// faults is a network and a server that misbehave in one way.
type faults struct {
	server *server
	timing *timing
	rng    *rand.Rand
	kind   string
	rate   float64 // of requests
	fired  int
	storm  int // requests still refused
	late   []*http.Request
	lists  map[string][][]byte // by URL, answers so far
	before func()              // before each request
}

var kinds = []string{"storm", "stall", "reset in PUT", "reset in GET", "answer lost", "stale LIST", "wrong ETag", "slow DELETE", "late PUT", "all"}

// copyOf makes a request that can be sent later.
func copyOf(r *http.Request) *http.Request {
	c := r.Clone(context.Background())
	if r.Body != nil {
		data, _ := io.ReadAll(r.Body)
		r.Body, c.Body = io.NopCloser(bytes.NewReader(data)), io.NopCloser(bytes.NewReader(data))
	}
	return c
}

var errReset = errors.New("connection reset by peer")

// RoundTrip implements http.RoundTripper.
func (f *faults) RoundTrip(r *http.Request) (*http.Response, error) {
	if f.before != nil {
		f.before()
	}
	for len(f.late) > 0 && f.rng.IntN(3) == 0 {
		if res, err := f.server.RoundTrip(f.late[0]); err == nil {
			res.Body.Close()
		}
		f.late = f.late[1:]
	}
	list := r.Method == http.MethodGet && strings.Contains(r.URL.RawQuery, "list-type")
	kind := f.kind
	if kind == "all" {
		kind = kinds[f.rng.IntN(len(kinds)-1)]
	}
	if f.storm > 0 {
		f.storm--
		return answer(r, http.StatusServiceUnavailable), nil
	}
	rate := f.rate
	if rate > 0 && r.Method == http.MethodDelete {
		rate = 0.5 // there are few
	}
	strike := f.rng.Float64() < rate
	switch {
	case kind == "stale LIST" && list:
		return f.stale(r)
	case !strike:
	case kind == "storm":
		f.fired++
		f.storm = f.rng.IntN(8)
		return answer(r, http.StatusServiceUnavailable), nil
	case kind == "stall":
		f.fired++
		f.timing.pass()
		<-r.Context().Done()
		return nil, r.Context().Err()
	case kind == "reset in PUT" && r.Method == http.MethodPut:
		f.fired++
		_, _ = io.CopyN(io.Discard, r.Body, 10)
		return nil, errReset
	case kind == "reset in GET" && r.Method == http.MethodGet && !list:
		res, err := f.server.RoundTrip(r)
		if err == nil && res.ContentLength > 1 {
			f.fired++
			res.Body = io.NopCloser(io.MultiReader(io.LimitReader(res.Body, res.ContentLength/2), errReader{}))
		}
		return res, err
	case kind == "answer lost" && r.Method != http.MethodGet:
		f.fired++
		if res, err := f.server.RoundTrip(r); err == nil {
			res.Body.Close()
		}
		return nil, errReset
	case kind == "wrong ETag":
		res, err := f.server.RoundTrip(r)
		if err == nil && res.Header.Get("ETag") != "" {
			f.fired++
			res.Header.Set("ETag", `"00000000000000000000000000000000"`)
		}
		return res, err
	case kind == "slow DELETE" && r.Method == http.MethodDelete, kind == "late PUT" && r.Method == http.MethodPut:
		f.fired++
		f.late = append(f.late, copyOf(r))
		if r.Method == http.MethodDelete && f.rng.IntN(2) == 0 {
			return answer(r, http.StatusNoContent), nil
		}
		return nil, errReset
	}
	return f.server.RoundTrip(r)
}

// stale answers a list with what it was up to three lists ago.
func (f *faults) stale(r *http.Request) (*http.Response, error) {
	res, err := f.server.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	if f.lists == nil {
		f.lists = map[string][][]byte{}
	}
	url := r.URL.String()
	f.lists[url] = append(f.lists[url], data)
	if all := f.lists[url]; len(all) > 1 && f.rng.IntN(3) > 0 {
		f.fired++
		data = all[max(0, len(all)-2-f.rng.IntN(3))]
	}
	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
	res.Header.Del("Content-Length")
	return res, nil
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errReset }

func answer(r *http.Request, status int) *http.Response {
	w := httptest.NewRecorder()
	w.WriteHeader(status)
	res := w.Result()
	res.Request = r
	return res
}

var errCrash = errors.New("the process was killed")

// TestT8ObjectStoreFaults pushes snapshots while the object store misbehaves in one way at a time and in all,
// the process is killed at its crash points, and another one retains, collects and takes it for dead between any
// two of its requests. At each moment every snapshot of the catalog has all its objects; when the faults end, a
// push goes through, and after a GC nothing is left over.
func TestT8ObjectStoreFaults(t *testing.T) {
	for i, kind := range kinds {
		t.Run(kind, func(t *testing.T) { faultRun(t, kind, uint64(i)+1) })
	}
}

func faultRun(t *testing.T, kind string, seed uint64) {
	w := newWorld(t, seed)
	srv := newServer(t)
	tm := &timing{}
	f := &faults{server: srv, timing: tm, kind: kind, rate: 0.1, rng: rand.New(rand.NewPCG(seed, 80))}
	protect := func(o *Options) {}
	if seed%2 == 0 {
		k := key(t, 1)
		protect = func(o *Options) {
			o.Keys, o.Tenant, o.Signer, o.Verifier = []seal.Key{k}, "acme", seal.Ed25519(k), seal.Verifier{Public: append(seal.Verifier{}.Public, seal.Public(seal.Ed25519(k)))}
		}
	}
	clean := w.mirror(srv.store(t, srv), protect)
	busy := false
	f.before = func() {
		if busy {
			return
		}
		busy = true
		defer func() { busy = false }()
		interfere(t, f.rng, w, clean)
	}
	faulty := objectstore.Retry(srv.store(t, f), objectstore.RetryOptions{Timing: tm})
	died, pushed, failed := 0, 0, 0
	for n := range *commits {
		kind := checkpoint.KindCheckpoint
		if n%10 == 9 {
			kind = checkpoint.KindSavepoint
		}
		id := w.snapshot(kind)
		m := w.mirror(faulty, func(o *Options) {
			protect(o)
			if n%5 == 4 {
				after := f.rng.IntN(3)
				o.Crash = func(string) {
					if after--; after < 0 {
						panic(errCrash)
					}
				}
			}
		})
		err := work(m, clean, w, id, f.rng)
		switch {
		case errors.Is(err, errCrash):
			died++
		case err != nil:
			failed++
		default:
			pushed++
		}
		pointers(t, w, clean, fmt.Sprintf("seed %d, after %d: %v", seed, id, err))
	}
	t.Logf("%d faults; %d pushed, %d failed, %d killed", f.fired, pushed, failed, died)
	if f.fired == 0 || died == 0 && *commits >= 40 || pushed == 0 {
		t.Errorf("%d faults, %d pushed, %d killed: nothing was tried", f.fired, pushed, died)
	}
	// The end of the faults; what is under way arrives late.
	f.kind, f.rate, f.storm, f.before = "none", 0, 0, nil
	for len(f.late) > 0 {
		_, _ = faulty.Get(ctx, "nothing")
	}
	m := w.mirror(faulty, protect)
	w.push(m, w.snapshot(checkpoint.KindCheckpoint))
	w.now += 2 * leaseMS
	w.exactly(srv.store(t, srv), m)
	other := w.open("/restored", false)
	if _, err := m.Pull(ctx, other, w.last, false); err != nil || other.Verify(ctx, w.last, true) != nil {
		t.Errorf("pull: %v", err)
	}
}

// work is what a process does after a checkpoint; its death is an error.
func work(m, clean *Mirror, w *world, id checkpoint.ID, rng *rand.Rand) error {
	return killed(func() error { return pushAndTidy(m, clean, w, id, rng) })
}

func pushAndTidy(m, clean *Mirror, w *world, id checkpoint.ID, rng *rand.Rand) error {
	if _, err := m.Push(ctx, w.local, id); err != nil {
		return err
	}
	if c, err := clean.Catalog(ctx); err != nil {
		return err
	} else if _, ok := c.Find(id); !ok {
		w.t.Errorf("snapshot %d was pushed and is not there", id)
	}
	if rng.IntN(2) == 0 {
		if _, err := m.Retain(ctx, 3); err != nil {
			return err
		}
	}
	if id > 40 { // only a few savepoints are kept
		if err := m.Delete(ctx, id-40); err != nil {
			return err
		}
	}
	if rng.IntN(2) == 0 {
		_, err := m.GC(ctx)
		return err
	}
	return nil
}

// interfere is what another process does between two requests.
func interfere(t *testing.T, rng *rand.Rand, w *world, m *Mirror) {
	var err error
	switch rng.IntN(300) {
	case 0:
		_, err = m.Retain(ctx, 1+rng.IntN(3))
	case 1, 2:
		_, err = m.GC(ctx)
	case 3:
		w.now += 2 * leaseMS
		_, err = m.GC(ctx)
	}
	if err != nil {
		t.Fatalf("beside the faults: %v", err)
	}
}

// pointers says that the catalog names nothing that is missing.
func pointers(t *testing.T, w *world, m *Mirror, when string) {
	t.Helper()
	c, err := m.Catalog(ctx)
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	there := map[string]int64{}
	list, err := m.o.Store.List(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		there[e.Key] = e.Size
	}
	for _, s := range c.Snapshots {
		x, _, err := m.index(ctx, s)
		if err != nil {
			t.Fatalf("%s: snapshot %d: %v", when, s.ID, err)
		}
		for digest, at := range x.Objects {
			if size, ok := there[at.Key]; !ok || size != at.Size {
				t.Fatalf("%s: snapshot %d names object %s at %s, which is missing", when, s.ID, digest, at.Key)
			}
		}
	}
	if w.rng.IntN(20) == 0 {
		if err := m.Check(ctx); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
	}
}
