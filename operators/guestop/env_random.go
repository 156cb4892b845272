package guestop

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"

	"github.com/millrace-io/millrace/abi"
)

// randomStream is the random numbers of one record: a function of operator, split and offset (of a timer:
// key, name and time), so that a lost attempt and its replay draw the same, and no two records do.
type randomStream struct {
	record int
	seed   uint64
	drawn  uint64
	word   [8]byte
	left   int // unused bytes of word
}

// Random implements Env.
func (e *env) Random(record int, b []byte) {
	d := &e.draws
	if d.record != record || d.record < 0 {
		d.record, d.drawn, d.left = record, 0, 0
		d.seed = e.op.recordSeed(record)
	}
	for len(b) > 0 {
		if d.left == 0 {
			var n [8]byte
			binary.LittleEndian.PutUint64(n[:], d.drawn)
			binary.LittleEndian.PutUint64(d.word[:], xxh3.HashSeed(n[:], d.seed))
			d.drawn++
			d.left = 8
		}
		n := copy(b, d.word[8-d.left:])
		d.left -= n
		b = b[n:]
	}
}

// recordSeed is independent of the job's secret hash seed.
func (o *Op) recordSeed(record int) uint64 {
	h := xxh3.HashString(o.ctx.Operator)
	if record < 0 {
		return xxh3.HashSeed([]byte{byte(o.ctx.Task)}, h)
	}
	f := o.blk.frame(record)
	var p [20]byte
	if o.blk.kind == abi.KindRecords {
		pos := f.Pos()
		binary.LittleEndian.PutUint32(p[:], pos.Split)
		binary.LittleEndian.PutUint64(p[4:], pos.Offset)
		return xxh3.HashSeed(p[:12], h)
	}
	binary.LittleEndian.PutUint64(p[:], uint64(f.Time()))
	p[8] = byte(o.blk.kind)
	h = xxh3.HashSeed(p[:9], h)
	h = xxh3.HashSeed(f.Key(), h)
	return xxh3.HashSeed(f.Value(), h)
}

func (o *Op) recordTime(record int) int64 { return o.blk.frame(record).Time() }
