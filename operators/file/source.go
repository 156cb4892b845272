// Package file holds the file source (JSON lines, CSV, Parquet, text lines, binary frames; each file is
// a split) and the file sink, which publishes JSON lines exactly once by renaming.
package file

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/format"
)

// followInterval is how often a followed file at its end is looked at again.
const followInterval = 50 * time.Millisecond

// Source reads files. Split i of all (sorted by name) belongs to task i modulo the parallelism; a task
// reads its splits one after the other, or, if they are followed, in turns.
type Source struct {
	node   *operators.Node
	cfg    *operators.FileSource
	ctx    *operators.Context
	in     *operators.Intake
	all    []checkpoint.SplitPosition                 // of every task
	known  atomic.Pointer[[]checkpoint.SplitPosition] // all, for Describe
	splits []*split
	cur    int
	ready  chan struct{}
	timer  *time.Timer
	ends   map[uint32]checkpoint.SplitPosition // where splits are held; nil: nowhere
}

// split is one file of this task.
type split struct {
	pos    checkpoint.SplitPosition
	num    int // in the intake
	file   *os.File
	reader reader
	whole  bool // followed: the file ended where the last record did
}

// reader is a split being read, by format.
type reader interface {
	// read handles at most max records. end: the file holds no further one, now.
	read(b *abi.Batch, max int) (end bool, err error)
	// offset is where the next record starts.
	offset() int64
	close() error
}

// NewSource makes the source of node n.
func NewSource(n *operators.Node) *Source {
	return &Source{node: n, cfg: n.Source.File, ready: make(chan struct{}, 1)}
}

// Bound implements operators.Bounded.
func (s *Source) Bound(ends map[uint32]checkpoint.SplitPosition) { s.ends = ends }

// bound says that a split is held at its end.
func (s *Source) bound(sp *split) bool {
	end, ok := s.ends[sp.pos.Index]
	return ok && operators.Reached(sp.pos, end)
}

// behind is the split to read next of those that wait for each other.
func (s *Source) behind() (num int, ok bool) {
	if s.ends == nil {
		return s.in.Behind()
	}
	least := int64(math.MaxInt64)
	for _, sp := range s.splits {
		p := sp.pos
		s.in.Put(sp.num, &p)
		if !p.Finished && !s.bound(sp) && (!ok || p.MaxTime < least) {
			num, least, ok = sp.num, p.MaxTime, true
		}
	}
	return num, ok
}

// Open implements operators.Source.
func (s *Source) Open(ctx *operators.Context) error {
	s.ctx = ctx
	s.in = operators.NewIntake(s.node, ctx, s.Describe)
	if err := s.resolve(); err != nil {
		return err
	}
	s.known.Store(&s.all)
	for i, p := range s.all {
		if i%ctx.Parallelism != ctx.Task {
			continue
		}
		sp := &split{pos: p}
		if err := s.check(sp); err != nil {
			return err
		}
		sp.num = s.in.AddSplit(sp.pos)
		s.splits = append(s.splits, sp)
	}
	return nil
}

// resolve lists all splits: those of the checkpoint, or what the paths match now.
func (s *Source) resolve() error {
	for _, r := range s.ctx.Restored {
		s.all = append(s.all, r.Splits...)
	}
	if len(s.all) > 0 {
		slices.SortFunc(s.all, func(a, b checkpoint.SplitPosition) int { return int(a.Index) - int(b.Index) })
		return nil
	}
	names, err := expand(s.cfg.Dir, s.cfg.Paths)
	if err != nil {
		return err
	}
	for i, n := range names {
		s.all = append(s.all, checkpoint.SplitPosition{Split: n, Index: uint32(i), MaxTime: abi.NoTime, Mark: abi.MinWatermark})
	}
	return nil
}

// expand resolves globs below dir, in sorted order, without repetition.
func expand(dir string, patterns []string) ([]string, error) {
	var names []string
	for _, p := range patterns {
		if !strings.ContainsAny(p, `*?[\`) {
			names = append(names, p)
			continue
		}
		found, err := filepath.Glob(join(dir, p))
		if err != nil {
			return nil, fmt.Errorf("path %q: %w", p, err)
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("path %q matches no file in %s", p, dir)
		}
		for _, f := range found {
			if rel, err := filepath.Rel(dir, f); err == nil && !filepath.IsAbs(p) {
				f = rel
			}
			names = append(names, f)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

func join(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// check takes or verifies the identity of a split's file.
func (s *Source) check(sp *split) error {
	f, err := openInput(join(s.cfg.Dir, sp.pos.Split), sp.pos.Split)
	if err != nil {
		return err
	}
	defer f.Close()
	if sp.pos.Identity == "" {
		id, err := identify(f, -1)
		sp.pos.Identity = id.String()
		return err
	}
	id, err := parseIdentity(sp.pos.Identity)
	if err != nil {
		return err
	}
	if err := verify(f, sp.pos.Split, id, sp.pos.Offset, s.cfg.Follow); err != nil {
		return err
	}
	st, err := f.Stat()
	if err == nil && st.Size() < sp.pos.Offset && s.node.Source.Format != "parquet" {
		err = fmt.Errorf("%w: %s has %d bytes, it was read up to %d", operators.ErrInputChanged, sp.pos.Split, st.Size(), sp.pos.Offset)
	}
	return err
}

// Poll implements operators.Source.
func (s *Source) Poll(b *abi.Batch, max int) (operators.PollStatus, error) {
	s.in.Begin()
	if s.cfg.Follow {
		return s.pollFollowed(b, max)
	}
	if s.in.Aligned() {
		return s.pollAligned(b, max)
	}
	for s.cur < len(s.splits) {
		sp := s.splits[s.cur]
		if sp.pos.Finished {
			s.cur++
			continue
		}
		end, err := s.read(sp, b, max)
		if err != nil {
			return operators.PollMore, err
		}
		if !end {
			return operators.PollMore, nil
		}
		if err := s.finish(sp, b); err != nil {
			return operators.PollMore, err
		}
		s.cur++
		if !b.Empty() {
			return operators.PollMore, nil
		}
	}
	return operators.PollEnd, nil
}

func (s *Source) finish(sp *split, b *abi.Batch) error {
	sp.pos.Finished = true
	s.in.Finish(b, sp.num)
	return sp.close()
}

// pollAligned reads all splits at the same time, always the one that is furthest behind.
func (s *Source) pollAligned(b *abi.Batch, max int) (operators.PollStatus, error) {
	for {
		num, ok := s.behind()
		switch {
		case !ok:
			return operators.PollEnd, nil
		case s.in.Held(num) && b.Empty():
			return operators.PollIdle, nil
		case s.in.Held(num):
			return operators.PollMore, nil
		}
		sp := s.splits[num]
		end, err := s.read(sp, b, max)
		if err == nil && end {
			err = s.finish(sp, b)
		}
		if err != nil || !end || !b.Empty() {
			return operators.PollMore, err
		}
	}
}

// pollFollowed takes from the next split that has something.
func (s *Source) pollFollowed(b *abi.Batch, max int) (operators.PollStatus, error) {
	for range s.splits {
		sp := s.splits[s.cur]
		s.cur = (s.cur + 1) % len(s.splits)
		if s.in.Held(sp.num) || s.bound(sp) {
			continue
		}
		before := sp.pos.Offset
		if _, err := s.read(sp, b, max); err != nil {
			return operators.PollMore, err
		}
		if sp.pos.Offset != before {
			return operators.PollMore, nil
		}
		if sp.whole {
			s.in.CaughtUp(b, sp.num)
		}
	}
	if s.timer == nil {
		s.timer = time.AfterFunc(followInterval, func() {
			select {
			case s.ready <- struct{}{}:
			default:
			}
		})
	} else {
		s.timer.Reset(followInterval)
	}
	return operators.PollIdle, nil
}

func (s *Source) read(sp *split, b *abi.Batch, max int) (end bool, err error) {
	if sp.reader == nil {
		if err := s.start(sp); err != nil {
			return false, err
		}
	}
	end, err = sp.reader.read(b, max)
	sp.pos.Offset = sp.reader.offset()
	if err != nil {
		return false, err
	}
	if end && s.cfg.Follow {
		st, err := sp.file.Stat()
		sp.whole = err == nil && st.Size() == sp.pos.Offset
		if err == nil && st.Size() < sp.pos.Offset {
			return false, fmt.Errorf("%w: %s was cut to %d bytes while it was followed, it was read up to %d", operators.ErrInputChanged, sp.pos.Split, st.Size(), sp.pos.Offset)
		}
	}
	return end, nil
}

// start opens a split's reader at its position. A bounded split ends where the file ended when the job
// first started.
func (s *Source) start(sp *split) (err error) {
	if sp.file, err = openInput(join(s.cfg.Dir, sp.pos.Split), sp.pos.Split); err != nil {
		return err
	}
	limit := int64(-1)
	if !s.cfg.Follow {
		id, err := parseIdentity(sp.pos.Identity)
		if err != nil {
			return err
		}
		limit = id.size
	}
	switch f := s.node.Source.Format; f {
	case "ndjson", "lines":
		sp.reader = &lineSplit{in: s.in, num: sp.num, index: sp.pos.Index, blank: f == "lines",
			lines: newLineReader(sp.file, sp.pos.Offset, limit, !s.cfg.Follow)}
	case "csv":
		r := &csvSplit{in: s.in, num: sp.num, index: sp.pos.Index, src: sp.file}
		r.dec, err = format.NewCSV(sp.file, limit, sp.pos.Offset, operators.DecodePlan(s.node))
		sp.reader = r
	case "parquet":
		r := &parquetSplit{in: s.in, num: sp.num, index: sp.pos.Index}
		r.dec, err = format.NewParquet(sp.file, limit, sp.pos.Offset, operators.DecodePlan(s.node))
		sp.reader = r
	case "binary":
		r := newBinarySplit(sp.file, sp.pos.Offset, limit)
		r.in, r.num, r.index = s.in, sp.num, sp.pos.Index
		sp.reader = r
	default:
		err = fmt.Errorf("format %q is not one the file source reads", f)
	}
	if err != nil {
		sp.reader = nil
		return fmt.Errorf("input %s: %w", sp.pos.Split, err)
	}
	return nil
}

func (sp *split) close() error {
	if sp.file == nil {
		return nil
	}
	var err error
	if sp.reader != nil {
		err = sp.reader.close()
	}
	if cerr := sp.file.Close(); err == nil {
		err = cerr
	}
	sp.reader, sp.file = nil, nil
	return err
}

// Ready implements operators.Source.
func (s *Source) Ready() <-chan struct{} { return s.ready }

// Positions implements operators.Source.
func (s *Source) Positions() []checkpoint.SplitPosition {
	ps := make([]checkpoint.SplitPosition, len(s.splits))
	for i, sp := range s.splits {
		ps[i] = sp.pos
		s.in.Put(sp.num, &ps[i])
	}
	return ps
}

// Intake implements operators.Timed.
func (s *Source) Intake() *operators.Intake { return s.in }

// Rejected implements operators.Rejecter.
func (s *Source) Rejected() *abi.Batch { return s.in.Rejected() }

// Counters implements operators.Counted.
func (s *Source) Counters() map[string]int64 { return s.in.Counters() }

// Describe implements operators.Source. For lines it counts, so it is for messages only. Other tasks call
// it too, also before this one is open: then, and for a split that is not there, it knows nothing, "".
func (s *Source) Describe(p abi.Position) string {
	if known := s.known.Load(); known != nil {
		for _, sp := range *known {
			if sp.Index == p.Split {
				return s.describe(sp.Split, p.Offset)
			}
		}
	}
	return ""
}

func (s *Source) describe(name string, offset uint64) string {
	if s.node.Source.Format == "parquet" {
		return fmt.Sprintf("%s, row %d", name, offset+1)
	}
	n, err := countLines(join(s.cfg.Dir, name), int64(offset))
	if s.node.Source.Format == "binary" || err != nil {
		return fmt.Sprintf("%s (byte %d)", name, offset)
	}
	return fmt.Sprintf("%s:%d (byte %d)", name, n+1, offset)
}

func countLines(path string, upTo int64) (n int, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	buf := make([]byte, 64<<10)
	r := io.LimitReader(f, upTo)
	for {
		k, err := r.Read(buf)
		n += bytes.Count(buf[:k], []byte{'\n'})
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// Close implements operators.Source.
func (s *Source) Close() error {
	if s.timer != nil {
		s.timer.Stop()
	}
	var first error
	for _, sp := range s.splits {
		if err := sp.close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// lineSplit reads lines as records.
type lineSplit struct {
	in    *operators.Intake
	num   int
	index uint32
	blank bool // an empty line is a record
	lines *lineReader
}

func (r *lineSplit) read(b *abi.Batch, max int) (bool, error) {
	for n := 0; n < max && !b.Full(max); n++ {
		line, at, err := r.lines.next()
		pos := abi.Position{Split: r.index, Offset: uint64(at)}
		switch e := err.(type) {
		case nil:
			if len(line) == 0 && !r.blank {
				continue
			}
			err = r.in.Line(b, r.num, pos, line)
		case tooLong:
			err = r.in.Reject(pos, line, e)
		default:
			if err == io.EOF {
				return true, nil
			}
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

func (r *lineSplit) offset() int64 { return r.lines.offset() }
func (r *lineSplit) close() error  { return nil }

// Splits is the number of files that a source node's paths name now; 0 if that can't be told.
func Splits(n *operators.Node) int {
	names, err := expand(n.Source.File.Dir, n.Source.File.Paths)
	if err != nil {
		return 0
	}
	return len(names)
}
