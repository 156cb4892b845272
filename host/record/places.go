package record

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
)

// How positions in a split are named.
const (
	placesLine   = "line"
	placesRow    = "row"
	placesByte   = "byte"
	placesNumber = "number"
)

// placesOf is how a source names its positions.
func placesOf(n *operators.Node) string {
	switch {
	case n.Source.Connector != "file":
		return placesNumber
	case n.Source.Format == "parquet":
		return placesRow
	case n.Source.Format == "binary":
		return placesByte
	}
	return placesLine
}

// describe names a position as its source does; line 0: not known.
func (s *Source) describe(name string, offset uint64, line int64) string {
	switch {
	case s.Places == placesNumber:
		return fmt.Sprintf("generated record %d", offset)
	case s.Places == placesRow:
		return fmt.Sprintf("%s, row %d", name, offset+1)
	case s.Places == placesLine && line > 0:
		return fmt.Sprintf("%s:%d (byte %d)", name, line, offset)
	}
	return fmt.Sprintf("%s (byte %d)", name, offset)
}

// placer finds the lines of records.
type placer interface {
	// mark appends the lines of a batch's records that are not behind the one in last, and moves last on.
	mark(b *abi.Batch, last map[uint32]int64, lines []lineAt) ([]lineAt, error)
	close()
}

// lineCounter counts the lines of files beside the source that reads them: what lies between two records may be
// blank lines, or lines that went elsewhere.
type lineCounter struct {
	dir    string
	splits map[uint32]*lineFile
}

// lineFile is one file up to where it was counted.
type lineFile struct {
	path   string
	file   *os.File
	buf    []byte
	lo, hi int   // of buf, not counted yet
	at     int64 // offset of buf[lo]
	lines  int64 // before that
}

func newLineCounter(n *operators.Node, splits []checkpoint.SplitPosition) *lineCounter {
	c := &lineCounter{dir: n.Source.File.Dir, splits: map[uint32]*lineFile{}}
	for _, p := range splits {
		path := p.Split
		if !filepath.IsAbs(path) {
			path = filepath.Join(c.dir, path)
		}
		c.splits[p.Index] = &lineFile{path: path}
	}
	return c
}

func (c *lineCounter) mark(b *abi.Batch, last map[uint32]int64, lines []lineAt) ([]lineAt, error) {
	for i := range b.Len() {
		pos := b.Frame(i).Pos()
		f := c.splits[pos.Split]
		if f == nil {
			continue
		}
		before, err := f.before(int64(pos.Offset))
		if err != nil {
			return lines, err
		}
		was, ok := last[pos.Split]
		if !ok || was != before {
			lines = append(lines, lineAt{i, before + 1})
		}
		last[pos.Split] = before + 1
	}
	return lines, nil
}

// before counts the lines that end before an offset, which never falls.
func (f *lineFile) before(offset int64) (int64, error) {
	if f.file == nil {
		var err error
		if f.file, err = os.Open(f.path); err != nil {
			return 0, err
		}
		f.buf = make([]byte, 64<<10)
	}
	for f.at < offset {
		if f.lo == f.hi {
			n, err := f.file.Read(f.buf)
			if n == 0 && err == io.EOF {
				break
			}
			if n == 0 && err != nil {
				return 0, err
			}
			f.lo, f.hi = 0, n
		}
		n := int(min(offset-f.at, int64(f.hi-f.lo)))
		f.lines += int64(bytes.Count(f.buf[f.lo:f.lo+n], []byte{'\n'}))
		f.lo, f.at = f.lo+n, f.at+int64(n)
	}
	return f.lines, nil
}

func (c *lineCounter) close() {
	for _, f := range c.splits {
		if f.file != nil {
			f.file.Close()
		}
	}
}
