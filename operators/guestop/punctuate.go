package guestop

import (
	"fmt"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
)

// Punctuator runs a watermark function: it sees each record of a source and may say that the watermark of its
// split goes on behind it. It implements operators.Punctuator.
type Punctuator struct {
	caller
	proj *projection
	b    *abi.Batch
	lo   int // of the call
}

var _ operators.Punctuator = (*Punctuator)(nil)

// NewPunctuator makes an instance of a watermark function. Node.Input is the schema of the source's records.
func NewPunctuator(cfg CallerConfig) (*Punctuator, error) {
	p := &Punctuator{}
	var err error
	if p.proj, err = newProjection(cfg.Node.Input, cfg.Node.Fn.Input); err != nil {
		return nil, fmt.Errorf("operator %s: %w", cfg.Context.Operator, err)
	}
	p.frameAt = func(i int) abi.Frame { return p.b.Frame(p.lo + i) }
	return p, p.open(cfg)
}

// Punctuate implements operators.Punctuator.
func (p *Punctuator) Punctuate(b *abi.Batch, nowMS int64, into []operators.Punctuation) ([]operators.Punctuation, error) {
	p.now = nowMS
	if p.proj != nil {
		var err error
		if b, err = p.proj.apply(b); err != nil {
			return into, fmt.Errorf("operator %s: %w", p.ctx.Operator, err)
		}
	}
	p.b = b
	from := len(into)
	for range b.Off {
		into = append(into, operators.Punctuation{Watermark: abi.NoTime})
	}
	answers := into[from:]
	badAt := -1
	for lo := 0; lo < b.Len(); {
		if lo == badAt {
			lo++
			continue
		}
		hi := p.limit(lo)
		if badAt > lo {
			hi = min(hi, badAt)
		}
		n, f, err := p.try(lo, hi, answers[lo:hi])
		switch {
		case err != nil:
			return into, err
		case f != nil:
			for i := range answers[lo:hi] {
				answers[lo+i] = operators.Punctuation{Watermark: abi.NoTime}
			}
			badAt = lo + f.Record
			answers[badAt].Fault = f
		default:
			lo += n
		}
	}
	p.accept()
	return into, nil
}

// limit is where a call that begins at lo ends at the latest.
func (p *Punctuator) limit(lo int) int {
	hi := lo + 1
	for hi < p.b.Len() && hi-lo < abi.MaxBatchRecords && int(p.b.Off[hi]-p.b.Off[lo])+len(p.b.Frame(hi)) <= abi.MaxBatchBytes {
		hi++
	}
	return hi
}

// try makes one call. What it says of records is kept only if it went well.
func (p *Punctuator) try(lo, hi int, answers []operators.Punctuation) (n int, f *Fault, err error) {
	size, err := p.write(lo, hi)
	if err != nil {
		return 0, nil, fmt.Errorf("operator %s: %w", p.ctx.Operator, err)
	}
	if n, f, err = p.call(size); f != nil || err != nil {
		return 0, f, err
	}
	if f = p.take(n, answers); f != nil {
		return 0, f, p.discard(f)
	}
	for _, x := range p.failures {
		fault := p.fault(FaultReturned, x.record, "%s", x.msg)
		p.stats.Faults++
		answers[x.record].Fault = fault
	}
	return n, nil, nil
}

func (p *Punctuator) write(lo, hi int) (int, error) {
	p.lo = lo
	n := hi - lo
	start, end := int(p.b.Off[lo]), len(p.b.Data)
	if hi < p.b.Len() {
		end = int(p.b.Off[hi])
	}
	frames := align8(abi.BlockHeader + 4*n)
	size := frames + end - start
	in, err := p.guest.In(size)
	if err != nil {
		return 0, err
	}
	h := in[:abi.BlockHeader]
	clear(h)
	le.PutUint32(h[abi.BlockKind:], abi.KindWatermarks)
	le.PutUint32(h[abi.BlockN:], uint32(n))
	le.PutUint32(h[abi.BlockOffsets:], abi.BlockHeader)
	le.PutUint32(h[abi.BlockFunction:], uint32(p.node.Index))
	le.PutUint64(h[abi.BlockWatermark:], 1<<63) // none: what it is depends on the other splits
	le.PutUint64(h[abi.BlockProcessing:], uint64(p.now))
	for i := range n {
		le.PutUint32(in[abi.BlockHeader+4*i:], uint32(int(p.b.Off[lo+i])-start+frames))
	}
	copy(in[frames:size], p.b.Data[start:end])
	return size, nil
}

// take reads the answers of a call: at most one frame of a record, whose time is the watermark.
func (p *Punctuator) take(consumed int, answers []operators.Punctuation) *Fault {
	if consumed < 1 || consumed > len(answers) {
		return p.fault(FaultProtocol, 0, "the call returned with %d records done of %d", consumed, len(answers))
	}
	if len(p.emits) > 0 {
		return p.fault(FaultProtocol, p.emits[0].record, "a watermark function gives no outputs")
	}
	last := -1
	for rest := p.guest.Out(); len(rest) > 0; {
		f, r, err := abi.NextFrame(rest)
		if err != nil {
			return p.fault(FaultProtocol, max(last, 0), "the answer behind record %d: %v", last, err)
		}
		c := int(f.Cause())
		switch {
		case c >= consumed || c < last:
			return p.fault(FaultProtocol, max(last, 0), "an answer says it is of record %d, expected %d to %d", c, last+1, consumed-1)
		case c == last:
			return p.fault(FaultProtocol, c, "a watermark function gives at most one watermark for a record")
		case f.Output() != 0:
			return p.fault(FaultProtocol, c, "output %d, a watermark function has no side outputs", f.Output())
		}
		last, rest = c, r
		answers[c].Watermark = f.Time()
	}
	return nil
}
