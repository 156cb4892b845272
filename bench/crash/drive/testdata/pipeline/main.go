// Command pipeline is a tiny exactly-once job for the tests of the driver: it counts per key, stages one
// file per 100 records, writes a manifest with its state and the offset, then renames the file.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/millrace-io/millrace/checkpoint/crashpoint"
)

type state struct {
	Offset int
	Part   int
	Staged string
	Final  string
	Count  map[string]uint64
	Xor    map[string]uint64
	Timers map[string]int64  // end of the open second
	Second map[string]uint64 // records in it
	Done   bool
}

var bug = os.Getenv("FAKE_BUG")

func main() {
	if err := run(os.Args[2], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(pipeline, dir string) error {
	text, err := os.ReadFile(pipeline)
	if err != nil {
		return err
	}
	var in, out string
	for _, l := range strings.Split(string(text), "\n") {
		if v, ok := strings.CutPrefix(l, "in: "); ok {
			in = v
		}
		if v, ok := strings.CutPrefix(l, "out: "); ok {
			out = v
		}
	}
	for _, d := range []string{dir, out} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	s, err := restore(dir)
	if err != nil || s.Done {
		return err
	}
	files, err := filepath.Glob(in)
	if err != nil || len(files) != 1 {
		return fmt.Errorf("%s: %d files, %v", in, len(files), err)
	}
	return process(s, files[0], dir, out)
}

func restore(dir string) (*state, error) {
	s := &state{Count: map[string]uint64{}, Xor: map[string]uint64{}, Timers: map[string]int64{}, Second: map[string]uint64{}}
	data, err := os.ReadFile(filepath.Join(dir, "manifest"))
	if os.IsNotExist(err) {
		return s, s.leftOver(dir)
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, s); err != nil {
		return nil, err
	}
	if bug == "forget-state" {
		s.Count, s.Xor = map[string]uint64{}, map[string]uint64{}
	}
	if bug != "forget-publish" {
		err = publish(s)
	}
	if err == nil {
		err = s.leftOver(dir)
	}
	return s, err
}

// leftOver is the bug of a job that stumbles over what a crash left behind.
func (s *state) leftOver(dir string) error {
	p := filepath.Join(dir, fmt.Sprintf("part-%d", s.Part+1))
	if _, err := os.Stat(p); err == nil && bug == "exit-on-restart" {
		return fmt.Errorf("%s is there without a manifest", p)
	}
	return nil
}

func publish(s *state) error {
	err := os.Rename(s.Staged, s.Final)
	if os.IsNotExist(err) {
		return nil // done before the crash
	}
	return err
}

func process(s *state, in, dir, out string) error {
	data, err := os.ReadFile(in)
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	for s.Offset < len(lines) {
		part := lines[s.Offset:min(s.Offset+100, len(lines))]
		s.Offset += len(part)
		s.Part++
		s.Done = s.Offset == len(lines)
		s.Staged = filepath.Join(dir, fmt.Sprintf("part-%d", s.Part))
		s.Final = filepath.Join(out, fmt.Sprintf("part-0-%d.ndjson", s.Part))
		if err := commit(s, part, dir); err != nil {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil
}

func commit(s *state, part []string, dir string) error {
	if err := s.stage(part); err != nil {
		return err
	}
	if bug == "publish-early" {
		data, err := os.ReadFile(s.Staged)
		if err == nil {
			err = os.WriteFile(strings.Replace(s.Final, "part-", fmt.Sprintf("part-%d-", os.Getpid()), 1), data, 0o644)
		}
		if err != nil {
			return err
		}
	}
	crashpoint.Hit(crashpoint.BeforeManifest)
	m, err := json.Marshal(s)
	if err != nil {
		return err
	}
	tmp := filepath.Join(dir, "manifest.tmp")
	if err := os.WriteFile(tmp, m, 0o644); err != nil {
		return err
	}
	if err := os.Rename(tmp, filepath.Join(dir, "manifest")); err != nil {
		return err
	}
	crashpoint.Hit(crashpoint.AfterManifest)
	if bug == "publish-early" {
		return nil
	}
	return publish(s)
}

func (s *state) stage(part []string) error {
	f, err := os.Create(s.Staged)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	for _, l := range part {
		var r struct {
			Key string
			N   uint64
			TS  int64
		}
		if err := json.Unmarshal([]byte(l), &r); err != nil {
			return err
		}
		s.fire(w, r.TS)
		s.Count[r.Key]++
		s.Xor[r.Key] ^= r.N
		s.Timers[r.Key] = (r.TS/1000 + 1) * 1000
		s.Second[r.Key]++
		fmt.Fprintf(w, `{"key":"%s","count":%d,"n":%d,"xor":%d,"wm":0}`+"\n", r.Key, s.Count[r.Key], r.N, s.Xor[r.Key])
	}
	if s.Done {
		s.fire(w, 1<<62)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}

func (s *state) fire(w *bufio.Writer, upTo int64) {
	var due []string
	for k, at := range s.Timers {
		if at <= upTo {
			due = append(due, k)
		}
	}
	sort.Strings(due)
	for _, k := range due {
		fmt.Fprintf(w, `{"key":"%s","timer":%d,"records":%d}`+"\n", k, s.Timers[k], s.Second[k])
		delete(s.Timers, k)
		delete(s.Second, k)
	}
}
