package replay

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/connect"
)

// OutputComparison is what a sink published between two snapshots, held against what a replay would have published. It
// is serialisable.
type OutputComparison struct {
	Sink  string `json:"sink"`
	Lines int64  `json:"lines"` // published
	Again int64  `json:"again"` // by the replay
	// Same: line by line. Reordered: the same lines, of several tasks or channels in another order.
	Same      bool   `json:"same"`
	Reordered bool   `json:"reordered,omitempty"`
	First     string `json:"first,omitempty"`   // published line that is first without its like
	Instead   string `json:"instead,omitempty"` // line of the replay in its place
	Skipped   string `json:"skipped,omitempty"` // why nothing was compared
}

// spool keeps the lines of sinks in files.
type spool struct{ dir string }

// sink is Options.Sink.
func (s *spool) sink(n *operators.Node, task int) Sink {
	return &spoolSink{path: s.path(n.ID, task), enc: operators.NewLineEncoder(n.Sink)}
}

func (s *spool) path(sink string, task int) string {
	return filepath.Join(s.dir, fmt.Sprintf("%s-%04d.ndjson", sink, task))
}

type spoolSink struct {
	path string
	enc  *operators.LineEncoder
	file *os.File
	w    *bufio.Writer
	line []byte
}

// Record implements Sink.
func (s *spoolSink) Record(f abi.Frame) (err error) {
	if s.file == nil {
		if s.file, err = os.Create(s.path); err != nil {
			return err
		}
		s.w = bufio.NewWriterSize(s.file, 256<<10)
	}
	if s.line, err = s.enc.Append(s.line[:0], f); err == nil {
		_, err = s.w.Write(s.line)
	}
	return err
}

// Close implements Sink.
func (s *spoolSink) Close() error {
	if s.file == nil {
		return nil
	}
	return errors.Join(s.w.Flush(), s.file.Close())
}

// compare holds what a sink published between two snapshots against the spool.
func (s *spool) compare(n *operators.Node, from, to *checkpoint.Manifest) (*OutputComparison, error) {
	c := &OutputComparison{Sink: n.ID}
	if n.Sink.Connector != "file" {
		c.Skipped = "what goes to " + n.Sink.Connector + " is not kept"
		return c, nil
	}
	published, skip, err := publishedBetween(n, from, to)
	if err != nil {
		return nil, err
	}
	if published == nil && n.Sink.Single {
		c.Skipped = "its file is published once, at the end of the input"
		return c, nil
	}
	var again []string
	for task := range n.Parallelism {
		if p := s.path(n.ID, task); exists(p) {
			again = append(again, p)
		}
	}
	was, is := &lines{files: published, skip: skip, provenance: n.Sink.Provenance}, &lines{files: again, provenance: n.Sink.Provenance}
	if err := c.hold(was, is); err != nil {
		return nil, err
	}
	return c, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// publishedBetween are the files that a sink published behind one snapshot up to another, by task and in the order in
// which they were written; of a single file skip lines were there before.
func publishedBetween(n *operators.Node, from, to *checkpoint.Manifest) (files []string, skip int64, err error) {
	of := func(m *checkpoint.Manifest) (snaps []checkpoint.OperatorSnapshot) {
		for _, t := range m.Tasks {
			for _, o := range t.Operators {
				if o.Operator == n.ID {
					snaps = append(snaps, o)
				}
			}
		}
		return snaps
	}
	before := of(from)
	if files, err = connect.Later(n, before); err != nil {
		return nil, 0, err
	}
	after, err := connect.Later(n, of(to))
	if err != nil {
		return nil, 0, err
	}
	files = slices.DeleteFunc(files, func(f string) bool { return slices.Contains(after, f) })
	slices.SortFunc(files, func(a, b string) int { return cmp.Compare(filepath.Base(a), filepath.Base(b)) })
	if n.Sink.Single {
		for _, s := range before {
			skip += s.Numbers["records"]
		}
	}
	return files, skip, nil
}

// lines reads files line by line.
type lines struct {
	files      []string
	skip       int64
	provenance bool
	r          *bufio.Reader
	f          *os.File
	n          int64
	sum        [2]uint64 // of the hashes of all lines, whatever their order
}

var snapshotOf = regexp.MustCompile(`"from":\{"snapshot":\d+`)

// next is the next line with its end; io.EOF behind the last.
func (l *lines) next() ([]byte, error) {
	for {
		if l.r == nil {
			if len(l.files) == 0 {
				return nil, io.EOF
			}
			f, err := os.Open(l.files[0])
			if err != nil {
				return nil, err
			}
			l.files, l.f, l.r = l.files[1:], f, bufio.NewReaderSize(f, 256<<10)
		}
		line, err := l.r.ReadBytes('\n')
		if len(line) == 0 && errors.Is(err, io.EOF) {
			if err := l.f.Close(); err != nil {
				return nil, err
			}
			l.r = nil
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, errors.Join(err, l.f.Close())
		}
		if l.skip > 0 {
			l.skip--
			continue
		}
		if l.provenance { // the last barrier before a record is another one in a replay
			line = snapshotOf.ReplaceAll(line, []byte(`"from":{"snapshot":0`))
		}
		h := xxh3.Hash128(line)
		l.sum[0] += h.Lo
		l.sum[1] += h.Hi
		l.n++
		return line, nil
	}
}

// hold compares line by line.
func (c *OutputComparison) hold(was, is *lines) error {
	c.Same = true
	for {
		a, err := was.next()
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		b, err := is.next()
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if a == nil && b == nil {
			break
		}
		if string(a) != string(b) && c.Same {
			c.Same, c.First, c.Instead = false, string(a), string(b)
		}
	}
	c.Lines, c.Again = was.n, is.n
	if !c.Same && was.n == is.n && was.sum == is.sum {
		c.Reordered, c.First, c.Instead = true, "", ""
	}
	return nil
}
