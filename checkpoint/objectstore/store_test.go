package objectstore_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/millrace-io/millrace/checkpoint/objectstore"
)

var (
	realServer  = flag.String("s3", "", "host:port of a server with a bucket named snapshots, to be tested besides the one in this process")
	conditional = flag.Bool("s3.conditional", true, "that server knows If-None-Match")
)

var ctx = context.Background()

// stores are all implementations; conditional: writes that need a new key work.
func stores(t *testing.T, test func(t *testing.T, s objectstore.Store, conditional bool)) {
	t.Run("memory", func(t *testing.T) { test(t, new(objectstore.Memory), true) })
	t.Run("s3", func(t *testing.T) {
		backend := s3mem.New()
		if err := backend.CreateBucket("snapshots"); err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server())
		t.Cleanup(server.Close)
		test(t, s3(t, strings.TrimPrefix(server.URL, "http://"), "a/b"), true)
	})
	t.Run("dir", func(t *testing.T) {
		test(t, objectstore.NewDir(objectstore.DirOptions{Path: filepath.Join(t.TempDir(), "p"), Random: rand.Reader}), true)
	})
	if *realServer != "" {
		t.Run("real", func(t *testing.T) {
			test(t, s3(t, *realServer, fmt.Sprintf("%s-%d", t.Name(), time.Now().UnixNano())), *conditional)
		})
	}
}

func s3(t *testing.T, endpoint, prefix string) *objectstore.S3 {
	t.Helper()
	s, err := objectstore.NewS3(objectstore.S3Options{Endpoint: endpoint, Plain: true, Region: "us-east-1", Bucket: "snapshots",
		Prefix: prefix, AccessKey: "access", SecretKey: "secret-secret"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(s objectstore.Store, key string, data []byte, onlyNew bool) error {
	return s.Put(ctx, key, bytes.NewReader(data), int64(len(data)), onlyNew)
}

func get(t *testing.T, s objectstore.Store, key string) []byte {
	t.Helper()
	r, err := s.Get(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestStoresKeepWhatIsPut(t *testing.T) {
	stores(t, func(t *testing.T, s objectstore.Store, conditional bool) {
		large := bytes.Repeat([]byte("millrace"), 1<<20) // 8 MiB
		for key, data := range map[string][]byte{"x/byte": {0}, "x/small": []byte("text"), "y/large": large} {
			if err := put(s, key, data, false); err != nil {
				t.Fatal(err)
			}
			if got := get(t, s, key); !bytes.Equal(got, data) {
				t.Errorf("%s: %d bytes", key, len(got))
			}
		}
		if err := put(s, "x/small", []byte("other"), false); err != nil {
			t.Fatal(err)
		}
		if got := get(t, s, "x/small"); string(got) != "other" {
			t.Errorf("%q", got)
		}
		if conditional {
			if err := put(s, "x/small", []byte("third"), true); !errors.Is(err, objectstore.ErrExists) {
				t.Errorf("over another: %v", err)
			}
			if err := errors.Join(put(s, "x/new", []byte("third"), true), put(s, "x/marker", []byte("\n"), true)); err != nil {
				t.Error(err)
			}
			if got := get(t, s, "x/small"); string(got) != "other" {
				t.Errorf("%q", got)
			}
		} else if err := errors.Join(put(s, "x/new", []byte("third"), false), put(s, "x/marker", []byte("\n"), false)); err != nil {
			t.Error(err)
		}
		list, err := s.List(ctx, "x/")
		if err != nil {
			t.Fatal(err)
		}
		var keys []string
		for _, e := range list {
			keys = append(keys, fmt.Sprint(e.Key, e.Size))
		}
		slices.Sort(keys)
		if want := []string{"x/byte1", "x/marker1", "x/new5", "x/small5"}; !slices.Equal(keys, want) {
			t.Errorf("got %v, want %v", keys, want)
		}
		if err := errors.Join(s.Delete(ctx, "x/small"), s.Delete(ctx, "x/small")); err != nil {
			t.Errorf("delete, twice: %v", err)
		}
		if _, err := s.Get(ctx, "x/small"); !errors.Is(err, objectstore.ErrNotFound) {
			t.Errorf("got %v", err)
		}
	})
}

func TestListsOfManyKeysAreWhole(t *testing.T) {
	stores(t, func(t *testing.T, s objectstore.Store, _ bool) {
		for i := range 1100 { // more than a page
			if err := put(s, fmt.Sprintf("many/%04d", i), []byte("x"), false); err != nil {
				t.Fatal(err)
			}
		}
		if list, err := s.List(ctx, "many/"); err != nil || len(list) != 1100 {
			t.Errorf("%d keys, %v", len(list), err)
		}
	})
}

func TestWrongBucketAndKeysAreRefused(t *testing.T) {
	backend := s3mem.New()
	server := httptest.NewServer(gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server())
	defer server.Close()
	s := s3(t, strings.TrimPrefix(server.URL, "http://"), "")
	_, err := s.Get(ctx, "x")
	for what, err := range map[string]error{"put": put(s, "x", []byte("x"), false), "get": err} {
		if !errors.Is(err, objectstore.ErrRefused) || !strings.Contains(err.Error(), "s3://snapshots/x") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, o := range []objectstore.S3Options{{Endpoint: "host"}, {Endpoint: "http://x/y", Bucket: "b"}} {
		if _, err := objectstore.NewS3(o); !errors.Is(err, objectstore.ErrRefused) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	denied := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer denied.Close()
	calls := 0
	counted := counter{s3(t, strings.TrimPrefix(denied.URL, "http://"), ""), &calls}
	if err := put(objectstore.Retry(counted, objectstore.RetryOptions{Timing: noTime{}}), "x", []byte("x"), false); !errors.Is(err, objectstore.ErrRefused) || calls != 1 {
		t.Errorf("denied: %v, %d calls", err, calls)
	}
}

type counter struct {
	objectstore.Store
	n *int
}

func (c counter) Put(ctx context.Context, key string, body io.ReaderAt, size int64, onlyNew bool) error {
	*c.n++
	return c.Store.Put(ctx, key, body, size, onlyNew)
}

type noTime struct{}

func (noTime) Sleep(ctx context.Context, _ time.Duration) error { return ctx.Err() }
func (noTime) After(time.Duration, func()) (stop func())        { return func() {} }

// script is a store whose calls fail as told.
type script struct {
	objectstore.Memory
	errs []error // of the next calls
}

var errNetwork = errors.New("network")

func (s *script) next() error {
	if len(s.errs) == 0 {
		return nil
	}
	err := s.errs[0]
	s.errs = s.errs[1:]
	return err
}

func (s *script) Put(ctx context.Context, key string, body io.ReaderAt, size int64, onlyNew bool) error {
	if err := s.next(); err != nil {
		return err
	}
	return s.Memory.Put(ctx, key, body, size, onlyNew)
}

func (s *script) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	if err := s.next(); err != nil {
		return nil, err
	}
	return s.Memory.Get(ctx, key)
}

// pauses notes the sleeps.
type pauses struct {
	mu    sync.Mutex
	slept []time.Duration
}

func (p *pauses) Sleep(ctx context.Context, d time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slept = append(p.slept, d)
	return ctx.Err()
}
func (p *pauses) After(time.Duration, func()) (stop func()) { return func() {} }

func TestRetriesPauseAndEnd(t *testing.T) {
	p := &pauses{}
	s := &script{errs: []error{errNetwork, errNetwork, errNetwork}}
	r := objectstore.Retry(s, objectstore.RetryOptions{First: time.Second, Longest: 3 * time.Second, Timing: p})
	if err := put(r, "x", []byte("text"), false); err != nil {
		t.Fatal(err)
	}
	if want := []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}; !slices.Equal(p.slept, want) {
		t.Errorf("slept %v, want %v", p.slept, want)
	}
	s.errs = slices.Repeat([]error{errNetwork}, 100)
	if err := put(r, "x", []byte("x"), false); !errors.Is(err, errNetwork) || !strings.Contains(err.Error(), "after 6 attempts") {
		t.Errorf("got %v", err)
	}
	if _, err := r.Get(ctx, "x"); !errors.Is(err, errNetwork) || len(s.errs) != 100-12 {
		t.Errorf("got %v, %d left", err, len(s.errs))
	}
	s.errs = nil
	if _, err := r.Get(ctx, "y"); !errors.Is(err, objectstore.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	s.errs = []error{errNetwork}
	if got := get(t, r, "x"); string(got) != "text" {
		t.Errorf("%q", got)
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	s.errs = slices.Repeat([]error{errNetwork}, 10)
	if err := r.Put(done, "x", bytes.NewReader(nil), 0, false); err == nil || len(s.errs) < 9 {
		t.Errorf("cancelled: %v, %d left", err, len(s.errs))
	}
}

// TestStallsEnd: a server that accepts and does not answer, by the real clock.
func TestStallsEnd(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-release }))
	defer server.Close()
	defer close(release)
	r := objectstore.Retry(s3(t, strings.TrimPrefix(server.URL, "http://"), ""),
		objectstore.RetryOptions{Attempts: 2, First: time.Millisecond, Stall: 30 * time.Millisecond})
	if err := put(r, "x", []byte("x"), false); !errors.Is(err, objectstore.ErrStalled) {
		t.Errorf("put: %v", err)
	}
	if _, err := r.Get(ctx, "x"); !errors.Is(err, objectstore.ErrStalled) {
		t.Errorf("get: %v", err)
	}
}
