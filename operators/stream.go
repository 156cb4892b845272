package operators

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
)

// queueBytes bounds what a LineStream holds that was read and not yet polled.
const queueBytes = 1 << 20

// LineStream is a source over a byte stream that can't be read again: stdin, a socket. It is one split
// in task 0; the other tasks end at once. What arrived since the last checkpoint is lost with the
// process. A goroutine reads, so that Poll never blocks.
type LineStream struct {
	node  *Node
	name  string
	open  func() (io.ReadCloser, error) // also called again after a break; io.EOF: no more
	in    *Intake
	pos   checkpoint.SplitPosition
	mine  bool
	ready chan struct{}
	rest  []byte // taken, not yet handled
	swap  []byte
	rc    io.ReadCloser

	mu     sync.Mutex
	space  *sync.Cond
	queue  []byte // whole lines, each with its newline
	err    error  // io.EOF at the end
	closed bool
}

// NewLineStream makes the source of node n. open is called by the reading goroutine until it returns
// an error; io.EOF ends the stream.
func NewLineStream(n *Node, name string, open func() (io.ReadCloser, error)) *LineStream {
	s := &LineStream{node: n, name: name, open: open, ready: make(chan struct{}, 1)}
	s.space = sync.NewCond(&s.mu)
	return s
}

// Open implements Source. The offset is a count of bytes, only for messages.
func (s *LineStream) Open(ctx *Context) error {
	s.in = NewIntake(s.node, ctx, s.Describe)
	if s.mine = ctx.Task == 0; !s.mine {
		return nil
	}
	s.pos = checkpoint.SplitPosition{Split: s.name, MaxTime: abi.NoTime, Mark: abi.MinWatermark}
	for _, r := range ctx.Restored {
		for _, p := range r.Splits {
			s.pos = p
		}
	}
	s.in.AddSplit(s.pos)
	if !s.pos.Finished {
		go s.pump()
	}
	return nil
}

func (s *LineStream) pump() {
	for {
		rc, err := s.open()
		if err != nil {
			s.fail(err)
			return
		}
		s.mu.Lock()
		if s.rc = rc; s.closed {
			rc.Close()
		}
		s.mu.Unlock()
		s.wake() // from now on silence means that nothing comes
		err = s.read(rc)
		rc.Close()
		if err != nil {
			s.fail(err)
			return
		}
	}
}

// read queues whole lines of one connection; nil at its end. A last line without newline counts. An
// over-long line goes on the queue cut just beyond the limit, so that the intake rejects it.
func (s *LineStream) read(rc io.Reader) error {
	r := bufio.NewReaderSize(rc, 64<<10)
	var line []byte
	for {
		chunk, err := r.ReadSlice('\n')
		if len(line)+len(chunk) <= abi.MaxRecordBytes+1 {
			line = append(line, chunk...)
		} else if len(line) <= abi.MaxRecordBytes {
			line = append(line, chunk[:abi.MaxRecordBytes+1-len(line)]...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if n := len(line); n > 0 {
			if line[n-1] != '\n' {
				line = append(line, '\n')
			}
			if err := s.push(line); err != nil {
				return err
			}
		}
		line = line[:0]
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("source %q: reading %s: %w", s.node.ID, s.name, err)
		}
	}
}

func (s *LineStream) push(line []byte) error {
	s.mu.Lock()
	for len(s.queue) >= queueBytes && !s.closed {
		s.space.Wait()
	}
	closed := s.closed
	s.queue = append(s.queue, line...)
	s.mu.Unlock()
	s.wake()
	if closed {
		return io.EOF
	}
	return nil
}

func (s *LineStream) fail(err error) {
	s.mu.Lock()
	s.err = err
	s.mu.Unlock()
	s.wake()
}

func (s *LineStream) wake() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// Poll implements Source.
func (s *LineStream) Poll(b *abi.Batch, max int) (PollStatus, error) {
	s.in.Begin()
	if !s.mine || s.pos.Finished {
		return PollEnd, nil
	}
	if len(s.rest) == 0 {
		s.mu.Lock()
		s.rest, s.queue, s.swap = s.queue, s.swap[:0], s.queue
		err, connected := s.err, s.rc != nil
		s.mu.Unlock()
		s.space.Signal()
		if len(s.rest) == 0 {
			if connected && err == nil {
				s.in.CaughtUp(b, 0)
			}
			return s.ended(b, err)
		}
	}
	for n := 0; n < max && len(s.rest) > 0 && !b.Full(max); n++ {
		if err := s.one(b); err != nil {
			return PollMore, err
		}
	}
	return PollMore, nil
}

func (s *LineStream) ended(b *abi.Batch, err error) (PollStatus, error) {
	switch {
	case err == nil:
		return PollIdle, nil
	case !errors.Is(err, io.EOF):
		return PollEnd, err
	}
	s.pos.Finished = true
	s.in.Finish(b, 0)
	return PollEnd, nil
}

func (s *LineStream) one(b *abi.Batch) error {
	i := 0
	for s.rest[i] != '\n' {
		i++
	}
	line := s.rest[:i:i]
	s.rest = s.rest[i+1:]
	at := abi.Position{Split: s.pos.Index, Offset: uint64(s.pos.Offset)}
	s.pos.Offset += int64(i) + 1
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	switch {
	case len(line) > abi.MaxRecordBytes:
		return s.in.Reject(at, line[:4<<10], fmt.Errorf("line over %d bytes (the first 4096 are kept)", abi.MaxRecordBytes))
	case len(line) == 0 && s.node.Source.Format != "lines":
		return nil
	}
	return s.in.Line(b, 0, at, line)
}

// Ready implements Source.
func (s *LineStream) Ready() <-chan struct{} { return s.ready }

// Positions implements Source.
func (s *LineStream) Positions() []checkpoint.SplitPosition {
	if !s.mine {
		return nil
	}
	p := s.pos
	s.in.Put(0, &p)
	return []checkpoint.SplitPosition{p}
}

// Describe implements Source.
func (s *LineStream) Describe(p abi.Position) string {
	return fmt.Sprintf("%s (byte %d)", s.name, p.Offset)
}

// Intake implements Timed.
func (s *LineStream) Intake() *Intake { return s.in }

// Rejected implements Rejecter.
func (s *LineStream) Rejected() *abi.Batch { return s.in.Rejected() }

// Counters implements Counted.
func (s *LineStream) Counters() map[string]int64 { return s.in.Counters() }

// Close implements Source. It does not wait for a read that blocks.
func (s *LineStream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.space.Broadcast()
	if s.rc != nil {
		s.rc.Close()
	}
	return nil
}
