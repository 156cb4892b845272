package runs

import "encoding/binary"

// Lookup is one key of a batch. The caller sets Hash, Key and Runs; GetAll the rest.
type Lookup struct {
	Hash uint64
	Key  []byte
	Runs []Layer // newest first

	Value     []byte // points into the file: valid while the caller's reference is
	Tombstone bool
	Found     bool

	run   *Run
	block int
}

// Layer is a run and the hashes for which it counts, Hi inclusive: a run may be shared with tasks that
// own other hashes.
type Layer struct {
	Run    *Run
	Lo, Hi uint64
}

func (l *Layer) covers(h uint64) bool {
	return l.Run != nil && h >= l.Lo && h <= l.Hi && h >= l.Run.foot.lo && h <= l.Run.foot.hi && l.Run.foot.lines > 0
}

// GetAll resolves the keys of a batch, each in its newest run that has it. It goes level by level, and
// within a level in passes over the batch, each touching what the next one needs: so the cache misses of
// different keys overlap. Keys that are Found already are left alone. It allocates nothing.
func GetAll(ls []Lookup) (err error) {
	var sum uint64
	for level := 0; ; level++ {
		more := false
		for i := range ls { // filter lines
			l := &ls[i]
			l.run = nil
			if l.Found || level >= len(l.Runs) {
				continue
			}
			more = true
			if y := &l.Runs[level]; y.covers(l.Hash) {
				l.run = y.Run
				line, _ := filterPlace(l.Hash, l.run.foot.lines)
				sum += uint64(l.run.filter[line*lineSize])
			}
		}
		if !more {
			sink(sum)
			return nil
		}
		for i := range ls { // filter; directory
			if l := &ls[i]; l.run != nil {
				if !l.run.May(l.Hash) {
					l.run = nil
				} else {
					sum += uint64(l.run.dir[l.run.bucket(l.Hash)])
				}
			}
		}
		for i := range ls { // first hashes
			if l := &ls[i]; l.run != nil {
				sum += l.run.first[l.run.dir[l.run.bucket(l.Hash)]]
			}
		}
		for i := range ls { // block: header, and the end of the offsets
			if l := &ls[i]; l.run != nil {
				l.block = l.run.below(l.Hash)
				x := l.run.extent(l.block)
				sum += uint64(x[0]) + uint64(x[blockSize-1])
			}
		}
		for i := range ls { // the guessed record
			if l := &ls[i]; l.run != nil {
				sum += l.run.touchRecord(l.block, l.Hash)
			}
		}
		for i := range ls {
			l := &ls[i]
			if l.run == nil {
				continue
			}
			if l.Value, l.Tombstone, l.Found, err = l.run.find(l.block, l.Hash, l.Key); err != nil {
				return err
			}
		}
	}
}

// touchRecord reads from the record where a hash should be. The block may not be checked yet, so the
// offset is taken modulo the block.
func (r *Run) touchRecord(b int, h uint64) uint64 {
	x := r.extent(b)
	n := blockEntries(x)
	if n == 0 || n > blockSize/2 {
		return 0
	}
	i := r.guess(b, n, h)
	return binary.LittleEndian.Uint64(x[min(recordOff(x, i), blockSize-8):])
}

// sink keeps the compiler from dropping the touches.
//
//go:noinline
func sink(uint64) {}
