package record

import (
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
)

// Playback is a source that gives what was recorded: the records with event times and positions, the marks between
// them, the dead letters, in polls as they were. It implements operators.Source and
// Rejecter. Where what was
// recorded ends, it ends if the input did (PollEnd), else it is idle for good, and AtEnd says so.
type Playback struct {
	r      *Recording
	node   *operators.Node
	ctx    *operators.Context
	source int
	keyed  bool
	z      *zstd.Decoder
	raw    []byte
	events cursor
	e      event
	block  int // next one to look at
	at     int // records of e given already
	marks  int // marks of e given already
	letter abi.Batch
	idle   bool
	over   bool
	ended  bool
	splits []checkpoint.SplitPosition
}

// Source makes the source that plays a source node of the pipeline, one per task. Tasks have to be as many as were
// recorded: see Parallelism.
func (r *Recording) Source(n *operators.Node) operators.Source {
	return &Playback{r: r, node: n, keyed: n.Source.Key != nil || n.Source.NaturalKey}
}

// Parallelism is the number of tasks of a source that were recorded; 0: it was not.
func (r *Recording) Parallelism(operator string) int {
	if i := r.source(operator); i >= 0 {
		return r.Header.Sources[i].Parallelism
	}
	return 0
}

// Open implements operators.Source. Errors: ErrOther.
func (p *Playback) Open(ctx *operators.Context) (err error) {
	p.ctx = ctx
	if p.source = p.r.source(p.node.ID); p.source < 0 {
		return fmt.Errorf("%w: source %s was not recorded", ErrOther, p.node.ID)
	}
	s := &p.r.Header.Sources[p.source]
	if s.Parallelism != ctx.Parallelism {
		return fmt.Errorf("%w: source %s was recorded with %d tasks, it would run with %d", ErrOther, p.node.ID, s.Parallelism, ctx.Parallelism)
	}
	p.splits = nil
	for _, t := range p.r.End.Tasks { // which of the splits are this task's
		if t.Source == p.node.ID && t.Task == ctx.Task {
			for _, end := range t.Splits {
				for _, start := range s.Splits {
					if start.Index == end.Index {
						p.splits = append(p.splits, start)
					}
				}
			}
		}
	}
	p.z, err = newDecoder()
	return err
}

// Poll implements operators.Source. Errors: ErrDamaged with the block.
func (p *Playback) Poll(b *abi.Batch, most int) (operators.PollStatus, error) {
	p.letter.Reset()
	for {
		if p.at < p.e.batch.Len() || p.marks < len(p.e.batch.Marks) || p.e.rejected.Len() > 0 {
			p.give(b, most)
			return operators.PollMore, nil
		}
		switch more, err := p.next(); {
		case err != nil:
			return operators.PollMore, err
		case !more && p.over:
			p.finish()
			return operators.PollEnd, nil
		case !more:
			p.finish()
			return operators.PollIdle, nil
		}
	}
}

// give hands on a part of the batch.
func (p *Playback) give(b *abi.Batch, most int) {
	e := &p.e
	from, to := p.at, min(p.at+most, e.batch.Len())
	base := b.Len()
	for i := from; i < to; i++ {
		f := e.batch.Frame(i)
		b.AppendFrame(f)
		if p.keyed {
			b.Hash = append(b.Hash, p.ctx.Hasher.Hash(f.Key()))
		}
	}
	for ; p.marks < len(e.batch.Marks) && int(e.batch.Marks[p.marks].Index) <= to; p.marks++ {
		m := e.batch.Marks[p.marks]
		b.Marks = append(b.Marks, abi.Mark{Index: uint32(base + int(m.Index) - from), Watermark: m.Watermark})
	}
	if p.at = to; to == e.batch.Len() {
		p.letter, e.rejected = e.rejected, p.letter
		e.rejected.Reset()
	}
}

// next finds the next event of the task; false: there is none.
func (p *Playback) next() (bool, error) {
	for {
		if p.events.next(&p.e) {
			p.at, p.marks = 0, 0
			switch p.e.kind {
			case eventIdle:
				p.idle = true
			case eventActive:
				p.idle = false
			case eventOver:
				p.over = true
			default:
				return true, nil
			}
			continue
		}
		if p.events.err != nil {
			return false, fmt.Errorf("%w (block %d, task %d of source %s)", p.events.err, p.block-1, p.ctx.Task, p.node.ID)
		}
		for p.block < len(p.r.blocks) && !p.mine(&p.r.blocks[p.block]) {
			p.block++
		}
		if p.block == len(p.r.blocks) {
			return false, nil
		}
		var err error
		if p.raw, err = p.r.read(p.block, p.z, p.raw); err != nil {
			return false, err
		}
		p.events = cursor{rest: p.raw}
		p.block++
	}
}

func (p *Playback) mine(b *placed) bool {
	return b.kind == kindEvents && b.source == p.source && b.task == p.ctx.Task
}

// finish takes over the positions of the end.
func (p *Playback) finish() {
	if p.ended {
		return
	}
	p.ended = true
	for _, t := range p.r.End.Tasks {
		if t.Source == p.node.ID && t.Task == p.ctx.Task {
			p.splits = t.Splits
		}
	}
}

// AtEnd says that all that was recorded for the task was given.
func (p *Playback) AtEnd() bool { return p.ended }

// Idle says that the watermark does without this task, as it did when it was recorded.
func (p *Playback) Idle() bool { return p.idle }

// Ready implements operators.Source: what is not there will not come.
func (p *Playback) Ready() <-chan struct{} { return nil }

// Positions implements operators.Source: those of the snapshot, and behind all that was recorded those of its end.
func (p *Playback) Positions() []checkpoint.SplitPosition { return p.splits }

// Describe implements operators.Source.
func (p *Playback) Describe(pos abi.Position) string { return p.r.Describe(p.node.ID, pos) }

// Rejected implements operators.Rejecter.
func (p *Playback) Rejected() *abi.Batch { return &p.letter }

// Close implements operators.Source.
func (p *Playback) Close() error {
	if p.z != nil {
		p.z.Close()
	}
	return nil
}
