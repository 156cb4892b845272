package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/millrace-io/millrace/abi"
)

const (
	blockBytes = 256 << 10
	clipBytes  = 4 << 10 // of a line that is too long, for its dead letter
)

// tooLong says that a line is over abi.MaxRecordBytes.
type tooLong struct{ bytes int64 }

func (e tooLong) Error() string {
	return fmt.Sprintf("line of %d bytes, a record has at most %d (the first %d are kept)", e.bytes, abi.MaxRecordBytes, clipBytes)
}

// lineReader cuts a file into lines, in blocks. It reads up to limit (exclusive; negative: to wherever
// the file ends now) and allocates nothing per line.
type lineReader struct {
	src   io.ReaderAt
	limit int64
	buf   []byte
	lo    int   // start of the next line in buf
	scan  int   // no newline in buf[lo:scan]
	hi    int   // end of what is read
	base  int64 // offset in the file of buf[0]
	last  bool  // a last line without newline counts
}

func newLineReader(src io.ReaderAt, offset, limit int64, last bool) *lineReader {
	return &lineReader{src: src, limit: limit, buf: make([]byte, blockBytes), base: offset, last: last}
}

// offset is where the next line starts.
func (l *lineReader) offset() int64 { return l.base + int64(l.lo) }

// next returns the next line without its end, borrowed until the next call, and its offset. io.EOF:
// no whole line is there (now). An over-long line gives its beginning and a tooLong.
func (l *lineReader) next() (line []byte, at int64, err error) {
	for {
		if i := bytes.IndexByte(l.buf[l.scan:l.hi], '\n'); i >= 0 {
			at, line = l.offset(), l.buf[l.lo:l.scan+i]
			l.lo = l.scan + i + 1
			l.scan = l.lo
			return l.finish(line, at)
		}
		l.scan = l.hi
		if l.hi-l.lo > abi.MaxRecordBytes {
			return l.pass()
		}
		n, err := l.fill()
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, l.offset(), err
		}
		if n > 0 {
			continue
		}
		if !l.last || l.hi == l.lo {
			return nil, l.offset(), io.EOF
		}
		at, line = l.offset(), l.buf[l.lo:l.hi]
		l.lo, l.scan = l.hi, l.hi
		return l.finish(line, at)
	}
}

func (l *lineReader) finish(line []byte, at int64) ([]byte, int64, error) {
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	if len(line) > abi.MaxRecordBytes {
		return line[:clipBytes], at, tooLong{int64(len(line))}
	}
	return line, at, nil
}

// fill reads more behind hi, making room first.
func (l *lineReader) fill() (int, error) {
	if l.lo > 0 && (l.lo == l.hi || l.hi == len(l.buf)) {
		copy(l.buf, l.buf[l.lo:l.hi])
		l.base += int64(l.lo)
		l.hi -= l.lo
		l.scan -= l.lo
		l.lo = 0
	}
	if l.hi == len(l.buf) {
		l.buf = append(l.buf, make([]byte, len(l.buf))...)
	}
	room := l.buf[l.hi:]
	if l.limit >= 0 {
		left := l.limit - l.base - int64(l.hi)
		if left <= 0 {
			return 0, io.EOF
		}
		room = room[:min(int64(len(room)), left)]
	}
	n, err := l.src.ReadAt(room, l.base+int64(l.hi))
	l.hi += n
	return n, err
}

// pass reads over the rest of an over-long line. A followed file may end in the middle of it: then the
// line is begun again by the next call, which costs time and no memory.
func (l *lineReader) pass() ([]byte, int64, error) {
	at := l.offset()
	head := append([]byte(nil), l.buf[l.lo:l.lo+clipBytes]...)
	pos := l.base + int64(l.hi)
	block := make([]byte, blockBytes)
	for {
		room := block
		if l.limit >= 0 {
			room = room[:max(0, min(int64(len(room)), l.limit-pos))]
		}
		n, err := 0, error(io.EOF)
		if len(room) > 0 {
			n, err = l.src.ReadAt(room, pos)
		}
		if i := bytes.IndexByte(room[:n], '\n'); i >= 0 {
			l.seek(pos + int64(i) + 1)
			return head, at, tooLong{pos + int64(i) - at}
		}
		pos += int64(n)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, at, err
		}
		if n == 0 {
			if !l.last {
				return nil, at, io.EOF
			}
			l.seek(pos)
			return head, at, tooLong{pos - at}
		}
	}
}

func (l *lineReader) seek(offset int64) {
	l.base, l.lo, l.scan, l.hi = offset, 0, 0, 0
}
