package record

import "github.com/millrace-io/millrace/abi"

// lineIndex finds the lines of records: those of one block are in memory, of others is known which offsets they have.
type lineIndex struct {
	last   int // block in found; -1: none
	found  map[abi.Position]int64
	ranges map[int][]offsets // by block that was looked into
	raw    []byte
	e      event
}

// offsets are the least and the greatest in a block of a split.
type offsets struct {
	split    uint32
	from, to uint64
}

// line finds the line of a record, 0 if it is not there.
func (r *Recording) line(source int, p abi.Position) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := &r.lines
	if x.last >= 0 && r.blocks[x.last].source == source {
		if l := x.found[p]; l > 0 {
			return l
		}
	}
	// The blocks from the one looked at last on, then those before it: positions are asked for as they are read.
	first := max(x.last, 0)
	for k := range r.blocks {
		n := (first + k) % len(r.blocks)
		if b := &r.blocks[n]; b.kind != kindEvents || b.source != source || !x.mayHold(n, p) {
			continue
		}
		if r.look(n) != nil {
			return 0
		}
		if l := x.found[p]; l > 0 {
			return l
		}
	}
	return 0
}

// mayHold says that a block may have a position.
func (x *lineIndex) mayHold(n int, p abi.Position) bool {
	known, ok := x.ranges[n]
	for _, o := range known {
		if o.split == p.Split && o.from <= p.Offset && p.Offset <= o.to {
			return true
		}
	}
	return !ok
}

// look notes the lines of all records of a block.
func (r *Recording) look(n int) (err error) {
	x := &r.lines
	if x.raw, err = r.read(n, r.z, x.raw); err != nil {
		return err
	}
	x.last, x.found = n, map[abi.Position]int64{}
	if x.ranges == nil {
		x.ranges = map[int][]offsets{}
	}
	ranges := map[uint32]*offsets{}
	last := map[uint32]int64{}
	c := cursor{rest: x.raw}
	for c.next(&x.e) {
		lines := x.e.lines
		for i := range x.e.batch.Len() {
			p := x.e.batch.Frame(i).Pos()
			last[p.Split]++
			if len(lines) > 0 && lines[0].record == i {
				last[p.Split], lines = lines[0].line, lines[1:]
			}
			x.found[p] = last[p.Split]
			if o := ranges[p.Split]; o == nil {
				ranges[p.Split] = &offsets{p.Split, p.Offset, p.Offset}
			} else {
				o.from, o.to = min(o.from, p.Offset), max(o.to, p.Offset)
			}
		}
	}
	known := []offsets{}
	for _, o := range ranges {
		known = append(known, *o)
	}
	x.ranges[n] = known
	return c.err
}
