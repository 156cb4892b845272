package hostcall

import (
	"bytes"

	"github.com/millrace-io/millrace/abi"
)

// tailBytes of what a guest printed are kept for its error messages.
const tailBytes = 4 << 10

// Stdio takes what a guest writes to stdout and stderr: whole lines go to the log, the last bytes are kept.
type Stdio struct {
	tail []byte    // at most 2*tailBytes; the last tailBytes count
	line [2][]byte // the unfinished line of stdout, stderr
}

// write handles bytes of fd 1 or 2.
func (o *Stdio) write(s *Scope, fd int, b []byte) {
	o.keep(b)
	rest := &o.line[fd-1]
	for len(b) > 0 {
		nl := bytes.IndexByte(b, '\n')
		part := b
		if nl >= 0 {
			part = b[:nl]
		}
		room := abi.MaxLogLineBytes - len(*rest)
		*rest = append(*rest, part[:min(room, len(part))]...)
		if nl < 0 {
			return
		}
		o.flushLine(s, fd)
		b = b[nl+1:]
	}
}

func (o *Stdio) keep(b []byte) {
	if len(b) >= tailBytes {
		o.tail, b = o.tail[:0], b[len(b)-tailBytes:]
	}
	if len(o.tail)+len(b) > 2*tailBytes {
		n := copy(o.tail, o.tail[len(o.tail)-tailBytes:])
		o.tail = o.tail[:n]
	}
	o.tail = append(o.tail, b...)
}

func (o *Stdio) flushLine(s *Scope, fd int) {
	level := abi.LogInfo
	if fd == 2 {
		level = abi.LogWarn
	}
	if rest := o.line[fd-1]; len(rest) > 0 {
		s.Env.Log(s.Record(), level, rest)
		o.line[fd-1] = rest[:0]
	}
}

// Flush logs unfinished lines; after a call has ended.
func (o *Stdio) Flush(s *Scope) {
	if len(o.line[0])+len(o.line[1]) > 0 {
		o.flushLine(s, 1)
		o.flushLine(s, 2)
	}
}

// Tail is the last few KiB that the guest printed.
func (o *Stdio) Tail() string { return string(o.tail[max(0, len(o.tail)-tailBytes):]) }

// Reset forgets everything.
func (o *Stdio) Reset() { o.tail, o.line[0], o.line[1] = o.tail[:0], o.line[0][:0], o.line[1][:0] }
