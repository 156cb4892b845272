package objectstore_test

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/checkpoint/objectstore"
	"github.com/millrace-io/millrace/checkpoint/snapstore/faultfs"
)

func memDir(t *testing.T, disk *faultfs.Mem, seed byte) *objectstore.Dir {
	t.Helper()
	return objectstore.NewDir(objectstore.DirOptions{Path: "/far/p", FS: disk, Random: rand.NewChaCha8([32]byte{seed})})
}

// A crash before any operation of a Put leaves the whole file or none under its name; what is half-written is
// listed as its key, and goes with it.
func TestCrashInPutToAFolder(t *testing.T) {
	data := bytes.Repeat([]byte("x"), 700<<10)
	outcomes := map[bool]int{}
	halves := 0
	for seed := range uint64(20) {
		for _, onlyNew := range []bool{false, true} {
			rng := rand.New(rand.NewPCG(seed, 1))
			disk := faultfs.New()
			if err := errors.Join(disk.Mkdir("/far"), disk.SyncDir("/")); err != nil {
				t.Fatal(err)
			}
			hook := func(faultfs.Op, string) error {
				after := memDir(t, disk.CrashClone(rng, rng.Float64()), 2)
				r, err := after.Get(ctx, "objects/a.1")
				outcomes[err == nil]++
				if err == nil {
					if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, data) {
						t.Fatalf("seed %d: %d bytes, %v", seed, len(got), err)
					}
				} else if !errors.Is(err, objectstore.ErrNotFound) {
					t.Fatal(err)
				}
				list, err := after.List(ctx, "objects/")
				if err != nil || len(list) > 1 || len(list) == 1 && list[0].Key != "objects/a.1" {
					t.Fatalf("seed %d: %v %v", seed, list, err)
				}
				if len(list) == 1 && outcomes[false] > 0 {
					halves++
				}
				if err := errors.Join(after.Delete(ctx, "objects/a.1"), after.Delete(ctx, "objects/a.1")); err != nil {
					t.Fatal(err)
				}
				if list, err := after.List(ctx, ""); err != nil || len(list) != 0 {
					t.Fatalf("seed %d: left: %v %v", seed, list, err)
				}
				return nil
			}
			d := objectstore.NewDir(objectstore.DirOptions{Path: "/far/p", FS: faultfs.Inject(disk, hook), Random: rand.NewChaCha8([32]byte{1})})
			if err := put(d, "objects/a.1", data, onlyNew); err != nil {
				t.Fatal(err)
			}
			if list, err := memDir(t, disk.CrashClone(rng, 0), 3).List(ctx, ""); err != nil || len(list) != 1 {
				t.Fatalf("not durable: %v %v", list, err)
			}
		}
	}
	if outcomes[true] == 0 || outcomes[false] == 0 || halves == 0 {
		t.Errorf("not all was seen: %v, %d halves", outcomes, halves)
	}
}

func TestFolderThatIsNotThere(t *testing.T) {
	dir := t.TempDir()
	d := objectstore.NewDir(objectstore.DirOptions{Path: filepath.Join(dir, "mnt", "p"), Random: crand.Reader})
	_, err := d.Get(ctx, "catalog/1")
	for what, err := range map[string]error{"put": put(d, "catalog/1", []byte("x"), true), "get": err} {
		if !errors.Is(err, objectstore.ErrRefused) || !strings.Contains(err.Error(), filepath.Join(dir, "mnt")) {
			t.Errorf("%s: %v", what, err)
		}
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	if err := os.Mkdir(filepath.Join(dir, "mnt"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := d.Put(done, "a/b", bytes.NewReader([]byte("x")), 1, false); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if list, err := d.List(ctx, ""); err != nil || len(list) != 0 {
		t.Errorf("left: %v %v", list, err)
	}
}

// Credentials come from a file, a session, or the role that a container has: what the server sees is theirs.
func TestS3Credentials(t *testing.T) {
	role := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"AccessKeyId":"of-the-role","SecretAccessKey":"s","Token":"role-token","Expiration":"2999-01-01T00:00:00Z"}`)
	}))
	defer role.Close()
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", role.URL)
	file := filepath.Join(t.TempDir(), "aws")
	if err := os.WriteFile(file, []byte("[default]\naws_access_key_id = of-the-file\naws_secret_access_key = s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var auth, token string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		auth, token = r.Header.Get("Authorization"), r.Header.Get("X-Amz-Security-Token")
		w.WriteHeader(http.StatusForbidden)
	}))
	defer server.Close()
	for want, o := range map[string]objectstore.S3Options{
		"of-the-file": {CredentialsFile: file},
		"of-the-role": {Role: true},
		"given":       {AccessKey: "given", SecretKey: "s", Token: "given-token"},
	} {
		o.Endpoint, o.Plain, o.Bucket, o.Region = strings.TrimPrefix(server.URL, "http://"), true, "snapshots", "eu"
		s, err := objectstore.NewS3(o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(ctx, "x"); !errors.Is(err, objectstore.ErrRefused) {
			t.Errorf("%s: %v", want, err)
		}
		if !strings.Contains(auth, "Credential="+want+"/") || !strings.Contains(auth, "/eu/s3/") || want != "of-the-file" && !strings.HasSuffix(token, "-token") {
			t.Errorf("%s: %s, token %s", want, auth, token)
		}
	}
}
