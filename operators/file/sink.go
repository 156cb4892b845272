package file

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/crashpoint"
	"github.com/millrace-io/millrace/operators"
)

const (
	flushBytes       = 64 << 10 // written at once; small, as a barrier waits for the last write
	defaultPartBytes = 64 << 20
)

// Sink publishes JSON lines exactly once. Lines go into hidden staged files; a barrier makes them
// durable; after the checkpoint is complete they are renamed to where readers look. The renames are
// repeated at a restore, and what was staged after the checkpoint is removed.
//
// With a folder as path (a trailing slash) each checkpoint publishes parts named by task and sequence.
// A single file is published once, after the checkpoint behind the end of input.
type Sink struct {
	node *operators.Node
	cfg  *operators.SinkNode
	ctx  *operators.Context
	enc  *operators.LineEncoder
	disk disk
	out  output
	buf  []byte
	n    int64 // records since the last flush
	sum  int64 // records ever
	end  bool  // the end of input was seen
	last *pending
}

// output is where a sink's bytes go: parts or a single file.
type output interface {
	open() error
	// write takes whole lines.
	write(b []byte, records int64) error
	// cut makes the barrier's cut; the returned function makes it durable and may run elsewhere.
	cut(id checkpoint.ID, end bool) (func(*checkpoint.OperatorSnapshot) error, error)
	// publish makes everything cut at or before id visible.
	publish(id checkpoint.ID) error
	close() error
}

// NewSink makes the sink of node n.
func NewSink(n *operators.Node) *Sink { return &Sink{node: n, cfg: n.Sink, disk: osDisk{}} }

// Open implements operators.Operator.
func (s *Sink) Open(ctx *operators.Context) error {
	s.ctx = ctx
	if ctx.Crash == nil {
		ctx.Crash = func(string) {}
	}
	s.enc = operators.NewLineEncoder(s.cfg)
	s.enc.Snapshot = ctx.Snapshot
	path := join(s.cfg.Dir, s.cfg.Path)
	if s.cfg.Single {
		s.out = &single{sink: s, final: path}
	} else {
		s.out = &parts{sink: s, folder: filepath.Clean(path)}
	}
	if err := s.out.open(); err != nil {
		return s.wrap(err)
	}
	return nil
}

func (s *Sink) wrap(err error) error {
	return fmt.Errorf("sink %q: %w", s.ctx.Operator, operators.DiskError(err))
}

// Batch implements operators.Operator.
func (s *Sink) Batch(_ int, b *abi.Batch, _ operators.Collector) (err error) {
	for i := range b.Off {
		f := b.Frame(i)
		if s.buf, err = s.enc.Append(s.buf, f); err != nil {
			return operators.SinkError(s.ctx, f, err)
		}
		s.n++
		if len(s.buf) >= flushBytes {
			if err := s.flush(); err != nil {
				return err
			}
		}
	}
	if n := len(b.Marks); n > 0 && b.Marks[n-1].Watermark == abi.MaxWatermark {
		s.end = true
	}
	return nil
}

func (s *Sink) flush() error {
	if len(s.buf) == 0 {
		return nil
	}
	if err := s.out.write(s.buf, s.n); err != nil {
		return s.wrap(err)
	}
	s.sum += s.n
	s.buf, s.n = s.buf[:0], 0
	return nil
}

// writeHalves writes b with the crash point in the middle of a write.
func (s *Sink) writeHalves(f writeFile, b []byte) error {
	if _, err := f.Write(b[:len(b)/2]); err != nil {
		return err
	}
	s.ctx.Crash(crashpoint.MidDelta)
	_, err := f.Write(b[len(b)/2:])
	return err
}

// pending is a cut whose files are being made durable.
type pending struct {
	done chan struct{}
	snap checkpoint.OperatorSnapshot
	err  error
}

// Done implements operators.Pending.
func (p *pending) Done() <-chan struct{} { return p.done }

// Result implements operators.Pending.
func (p *pending) Result() (checkpoint.OperatorSnapshot, error) { return p.snap, p.err }

// Barrier implements operators.Snapshotter. It writes at most flushBytes; the fsyncs are in the
// background, in the order of the barriers.
func (s *Sink) Barrier(b checkpoint.Barrier) (operators.Pending, error) {
	if err := s.flush(); err != nil {
		return nil, err
	}
	s.enc.Snapshot = b.ID
	s.ctx.Crash(crashpoint.AfterFlush)
	sync, err := s.out.cut(b.ID, s.end)
	if err != nil {
		return nil, s.wrap(err)
	}
	p := &pending{done: make(chan struct{})}
	p.snap.Operator = s.ctx.Operator
	p.snap.Numbers = map[string]int64{"records": s.sum}
	before := s.last
	s.last = p
	go func() {
		defer close(p.done)
		if before != nil {
			<-before.done
			if before.err != nil {
				p.err = before.err
				return
			}
		}
		if err := sync(&p.snap); err != nil {
			p.err = s.wrap(err)
		}
	}()
	return p, nil
}

// Step implements operators.Snapshotter.
func (s *Sink) Step() (bool, error) { return false, nil }

// Held implements operators.Holder: what is staged stays so, and in the list of the next checkpoints.
func (s *Sink) Held(checkpoint.ID) error { return nil }

// held says that a start does not publish a file yet.
func (s *Sink) held(f checkpoint.StagedFile) bool { return s.ctx.Held != 0 && f.Cut > s.ctx.Held }

// stillStaged checks a staged file that is held back.
func (s *Sink) stillStaged(path string, size int64) error {
	st, err := s.disk.stat(path)
	if err != nil {
		return fmt.Errorf("%w: %s, which is held back, is not there", operators.ErrOutputLost, path)
	}
	if st.Size() != size {
		return fmt.Errorf("%w: %s has %d bytes, the checkpoint says %d", operators.ErrOutputLost, path, st.Size(), size)
	}
	return nil
}

// Complete implements operators.Snapshotter.
func (s *Sink) Complete(id checkpoint.ID) error {
	if err := s.out.publish(id); err != nil {
		return s.wrap(err)
	}
	return nil
}

// Counters implements operators.Counted.
func (s *Sink) Counters() map[string]int64 { return map[string]int64{"written": s.sum + s.n} }

// Close implements operators.Operator. What was not published stays staged.
func (s *Sink) Close() error {
	if s.last != nil {
		<-s.last.done
	}
	if s.out == nil {
		return nil
	}
	return s.out.close()
}

// mine says whether a file of old task t is this task's to restore or remove.
func (s *Sink) mine(t int) bool { return t%s.ctx.Parallelism == s.ctx.Task }

// republish repeats the rename of a staged file of the checkpoint.
func (s *Sink) republish(dir string, f checkpoint.StagedFile, final string) error {
	staged := filepath.Join(dir, filepath.Base(f.Staged))
	if st, err := s.disk.stat(staged); err == nil {
		if st.Size() != f.Size {
			return fmt.Errorf("%w: %s has %d bytes, the checkpoint says %d", operators.ErrOutputLost, staged, st.Size(), f.Size)
		}
		if _, err := s.disk.stat(final); err == nil {
			return fmt.Errorf("%w: %s is there, and its content is still staged as %s", operators.ErrNotOurs, final, staged)
		}
		return notOurs(s.disk.rename(staged, final), final)
	}
	st, err := s.disk.stat(final)
	if err != nil && filepath.Clean(f.Final) != filepath.Clean(final) {
		return fmt.Errorf("%w: the checkpoint published %s, the sink's path is now another; restore the old path, or begin anew (--fresh) with the new one",
			operators.ErrOutputLost, f.Final)
	}
	if err != nil {
		return fmt.Errorf("%w: neither %s nor %s is there", operators.ErrOutputLost, staged, final)
	}
	if st.Size() != f.Size {
		return fmt.Errorf("%w: %s has %d bytes, the checkpoint says %d", operators.ErrOutputLost, final, st.Size(), f.Size)
	}
	return nil
}

// withdraw takes published output out of the readers' sight, and keeps it.
func (s *Sink) withdraw(final, kept string) error {
	if err := s.disk.rename(final, kept); err != nil {
		return err
	}
	s.ctx.Log.Warn("output withdrawn", "operator", s.ctx.Operator, "file", final, "kept", kept)
	return s.disk.syncDir(filepath.Dir(final))
}

// checkFolder makes sure that path is a folder, made if it is not there.
func (s *Sink) checkFolder(path string) error {
	if st, err := s.disk.stat(path); err == nil && !st.IsDir() {
		return fmt.Errorf("%w: %s is a %s, expected a folder", operators.ErrNotOurs, strings.TrimSuffix(path, "/"), kindName(st.Mode().IsRegular(), kindOf(st.Mode())))
	}
	return s.disk.mkdir(path)
}

func kindName(regular bool, kind string) string {
	if regular {
		return "file"
	}
	return kind
}
