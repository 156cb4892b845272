package spec

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/operators"
)

// kept is a pipeline whose snapshots go to a store, which begins in line 3.
func kept(store string) string {
	return "name: p\ncheckpoint:\n  retain: 4\n  store: " + store + "\noperators:\n  - {id: a, source: file, path: x}\n  - {id: o, sink: file, path: out/}\n"
}

func TestStore(t *testing.T) {
	var dir string
	plain := operators.StoreSettings{Interval: 10 * time.Second, Retain: 4, Credentials: "env"}
	for text, change := range map[string]func(*operators.StoreSettings){
		"s3://snapshots": func(s *operators.StoreSettings) {
			s.URL, s.Bucket, s.Prefix = "s3://snapshots/p", "snapshots", "p"
		},
		"s3://snapshots/a/b/": func(s *operators.StoreSettings) {
			s.URL, s.Bucket, s.Prefix = "s3://snapshots/a/b/p", "snapshots", "a/b/p"
		},
		"file:///mnt/far": func(s *operators.StoreSettings) { s.URL, s.Folder = "file:///mnt/far/p", "/mnt/far/p" },
		"file:far": func(s *operators.StoreSettings) {
			s.Folder = filepath.Join(dir, "far", "p")
			s.URL = "file://" + s.Folder
		},
		"{url: 's3://snapshots', endpoint: 'http://127.0.0.1:9000', region: eu, credentials: 'file:aws', encrypt: ['env:NEW', 'file:/old'], sign: 'file:key', interval: 1m, retain: 9}": func(s *operators.StoreSettings) {
			*s = operators.StoreSettings{URL: "s3://snapshots/p", Bucket: "snapshots", Prefix: "p", Endpoint: "http://127.0.0.1:9000", Region: "eu",
				Credentials: "file:" + filepath.Join(dir, "aws"), Encrypt: []string{"env:NEW", "file:/old"}, Sign: []string{"file:" + filepath.Join(dir, "key")},
				Interval: time.Minute, Retain: 9}
		},
	} {
		g := good(t, kept(text))
		dir = g.Nodes[0].Source.File.Dir
		want := plain
		change(&want)
		if got := g.Checkpoint.Store; !reflect.DeepEqual(got, &want) {
			t.Errorf("%s:\n%+v, want\n%+v", text, got, want)
		}
	}
	if g := good(t, strings.Replace(kept("x"), "  store: x\n", "", 1)); g.Checkpoint.Store != nil {
		t.Errorf("%+v", g.Checkpoint.Store)
	}
}

func TestStoreProblems(t *testing.T) {
	for text, want := range map[string]string{
		"http://x":                               `"http://x" is no place for snapshots`,
		"file://host/x":                          "names no folder",
		"file:.":                                 "names no folder",
		"s3://A_b":                               `"A_b" is no name of a bucket`,
		"s3://abc/../x":                          "has . or .. in it",
		"s3://me:pw@snapshots":                   "has no user",
		"[a]":                                    "expected text",
		"{region: eu}":                           `the field "url" is missing`,
		"{url: 's3://abc', endpoint: 'ftp://x'}": "is no server",
		"{url: 's3://abc', endpoint: 'http://example.com'}":  "in clear",
		"{url: 'file:x', region: eu}":                        "a folder has none",
		"{url: 's3://abc', credentials: AKIAsecret}":         "given by reference",
		"{url: 's3://abc', encrypt: 00ff00ff}":               "given by reference",
		"{url: 's3://abc', sign: ['env:A', 'env:A']}":        "twice",
		"{url: 's3://abc', sign: 'env:A B'}":                 "given by reference",
		"{url: 's3://abc', retain: 0}":                       "1 to 10000",
		"{url: 's3://abc', access_key: x}":                   `unknown field "access_key"`,
		"{url: 's3://abc', interval: -1s, encrypt: '12:34'}": "negative",
	} {
		_, ps := parse(t, kept(text))
		found := false
		for _, p := range ps {
			found = found || p.Line == 4 && strings.Contains(p.Message, want)
			if all := p.String(); strings.Contains(all, "AKIA") || strings.Contains(all, "00ff") || strings.Contains(all, "pw@") {
				t.Errorf("%s: the message repeats what may be a secret: %s", text, all)
			}
		}
		if !found {
			t.Errorf("%s: nothing with %q among:\n%v", text, want, ps)
		}
	}
}

// All that is wrong with a store is told at once, each with its line.
func TestStoreProblemsAtOnce(t *testing.T) {
	_, ps := parse(t, kept("\n    url: s3://X\n    endpoint: http://example.com\n    credentials: hunter2\n    encrypt: hunter2\n    tier: cold\n    retain: none"))
	for i, want := range []string{"no name of a bucket", "in clear", "given by reference", "given by reference", "unknown field", "whole number"} {
		if !strings.Contains(fmt.Sprint(ps), fmt.Sprintf(":%d: ", 5+i)) || !strings.Contains(fmt.Sprint(ps), want) {
			t.Errorf("line %d: nothing with %q among:\n%v", 5+i, want, ps)
		}
	}
	if _, err := Parse("p.yaml", []byte(kept("s3://snapshots")), Options{Confine: true}); err == nil || !strings.Contains(err.Error(), "of others") {
		t.Errorf("%v", err)
	}
}
