package guestop

import (
	"bytes"
	"encoding/binary"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/state"
)

var le = binary.LittleEndian

// maxCellBytes bounds the prefetched values of one block: with large declared values a call gets fewer
// records rather than a larger buffer.
const maxCellBytes = 512 << 10

const (
	keyTable    = 4 * abi.MaxBatchRecords // power of two
	keyIdxBits  = 12
	keyIdxMask  = 1<<keyIdxBits - 1
	keyGenLimit = 1 << (32 - keyIdxBits)
)

// block is the records of one call: which keys they have, and how they lie in the guest's input buffer.
type block struct {
	lo, n  int         // records of the batch
	keyed  bool        //
	keys   []state.Key // distinct keys, in order of first appearance
	keyIdx []uint32    // key index of each record
	last   []uint32    // last record of each key
	table  []uint32    // generation<<keyIdxBits | key index, by hash
	gen    uint32
	cells  int // bytes of cells per key, all prefetched states
	size   int
	kind   uint32
	marks  []abi.Mark // inside the block, batch indexes
	src    *abi.Batch
}

func (k *block) init(pre []prefetched) {
	k.keys = make([]state.Key, 0, abi.MaxBatchRecords)
	k.keyIdx = make([]uint32, 0, abi.MaxBatchRecords)
	k.last = make([]uint32, 0, abi.MaxBatchRecords)
	k.table = make([]uint32, keyTable)
	for i := range pre {
		pre[i].pos = make([]state.Pos, abi.MaxBatchRecords)
		k.cells += pre[i].stride
	}
}

// collect takes records [lo, hi), or fewer, into the block and finds their distinct keys. A record whose
// key may not enter keyed state is returned as a fault and ends the block before it.
func (k *block) collect(o *Op, b *abi.Batch, lo, hi int) *Fault {
	k.lo, k.n = lo, 0
	k.keys, k.keyIdx, k.last = k.keys[:0], k.keyIdx[:0], k.last[:0]
	k.keyed = o.node.Keyed
	if hi > lo+abi.MaxBatchRecords {
		hi = lo + abi.MaxBatchRecords
	}
	if !k.keyed {
		k.n = hi - lo
		return nil
	}
	if len(b.Hash) != b.Len() {
		b.Hash = b.Hash[:0]
		for i := range b.Off {
			b.Hash = append(b.Hash, o.ctx.Hasher.Hash(b.Frame(i).Key()))
		}
	}
	if k.gen++; k.gen >= keyGenLimit {
		clear(k.table)
		k.gen = 1
	}
	maxKeys := abi.MaxBatchRecords
	if k.cells > 0 {
		maxKeys = max(1, min(maxKeys, maxCellBytes/k.cells))
	}
	f := k.gather(o, b, lo, hi, maxKeys)
	k.keyIdx = k.keyIdx[:k.n]
	return f
}

// gather fills the block until a record's key may not enter it, or finds no room.
func (k *block) gather(o *Op, b *abi.Batch, lo, hi, maxKeys int) *Fault {
	k.keyIdx = k.keyIdx[:hi-lo]
	hashes := b.Hash[lo:hi]
	for i, off := range b.Off[lo:hi] {
		key := abi.Frame(b.Data[off:]).Key()
		if key == nil || len(key) > abi.MaxKeyBytes {
			return k.badKey(o, key, i)
		}
		j, ok := k.addKey(hashes[i], key, uint32(i), maxKeys)
		if !ok {
			return nil
		}
		k.keyIdx[i] = j
		k.n++
	}
	return nil
}

func (k *block) badKey(o *Op, key []byte, at int) *Fault {
	if key == nil {
		return o.fault(FaultLimit, at, "a null key may not enter keyed state")
	}
	return o.fault(FaultLimit, at, "key of %d bytes, at most %d may enter keyed state", len(key), abi.MaxKeyBytes)
}

// addKey is the key index of a record's key; ok: there was room for it.
func (k *block) addKey(h uint64, key []byte, record uint32, maxKeys int) (index uint32, ok bool) {
	table := (*[keyTable]uint32)(k.table)
	i := uint32(h) % keyTable
	for table[i]>>keyIdxBits == k.gen {
		j := table[i] & keyIdxMask
		if e := &k.keys[j]; e.Hash == h && bytes.Equal(e.Bytes, key) {
			k.last[j] = record
			return j, true
		}
		i = (i + 1) % keyTable
	}
	n := len(k.keys)
	if n >= maxKeys {
		return 0, false
	}
	table[i] = k.gen<<keyIdxBits | uint32(n)
	k.keys = append(k.keys, state.Key{Hash: h, Bytes: key})
	k.last = append(k.last, record)
	return uint32(n), true
}

// frame is record i of the block.
func (k *block) frame(i int) abi.Frame { return k.src.Frame(k.lo + i) }

func align8(n int) int { return (n + 7) &^ 7 }

// write lays the block out in the guest's input buffer and returns its size.
func (k *block) write(o *Op, kind uint32, b *abi.Batch, marks []abi.Mark) (int, error) {
	for len(marks) > 0 && int(marks[len(marks)-1].Index) >= k.lo+k.n {
		marks = marks[:len(marks)-1]
	}
	k.kind, k.marks, k.src = kind, marks, b
	start := b.Off[k.lo]
	end := uint32(len(b.Data))
	if k.lo+k.n < len(b.Off) {
		end = b.Off[k.lo+k.n]
	}
	offTab := abi.BlockHeader
	keyTab := align8(offTab + 4*k.n)
	stateTab := keyTab
	if k.keyed {
		stateTab = align8(keyTab + 4*k.n)
	}
	markTab := stateTab + 8*len(o.pre)
	cells := markTab + 16*len(marks)
	at := cells
	for i := range o.pre {
		o.pre[i].base = at
		at += o.pre[i].stride * len(k.keys)
	}
	frames := at
	k.size = frames + int(end-start)
	in, err := o.guest.In(k.size)
	if err != nil {
		return 0, err
	}
	h := in[:abi.BlockHeader]
	clear(h)
	le.PutUint32(h[abi.BlockKind:], kind)
	le.PutUint32(h[abi.BlockN:], uint32(k.n))
	le.PutUint32(h[abi.BlockOffsets:], uint32(offTab))
	if k.keyed {
		le.PutUint32(h[abi.BlockKeys:], uint32(keyTab))
	}
	le.PutUint32(h[abi.BlockNKeys:], uint32(len(k.keys)))
	le.PutUint32(h[abi.BlockNStates:], uint32(len(o.pre)))
	le.PutUint32(h[abi.BlockStates:], uint32(stateTab))
	le.PutUint32(h[abi.BlockNMarks:], uint32(len(marks)))
	le.PutUint32(h[abi.BlockMarks:], uint32(markTab))
	le.PutUint32(h[abi.BlockFunction:], uint32(o.node.Index))
	le.PutUint64(h[abi.BlockWatermark:], uint64(o.wm))
	le.PutUint64(h[abi.BlockProcessing:], uint64(o.now))
	delta := uint32(frames) - start
	t := in[offTab : offTab+4*k.n]
	for _, off := range b.Off[k.lo : k.lo+k.n] {
		le.PutUint32(t, off+delta)
		t = t[4:]
	}
	if k.keyed {
		t = in[keyTab : keyTab+4*k.n]
		for _, j := range k.keyIdx[:k.n] {
			le.PutUint32(t, j)
			t = t[4:]
		}
	}
	k.writeMarks(in[markTab:], marks)
	copy(in[frames:k.size], b.Data[start:end])
	return k.size, k.writeCells(o, in, stateTab)
}

func (k *block) writeMarks(t []byte, marks []abi.Mark) {
	for i, m := range marks {
		le.PutUint32(t[16*i:], m.Index-uint32(k.lo))
		le.PutUint32(t[16*i+4:], 0)
		le.PutUint64(t[16*i+8:], uint64(m.Watermark))
	}
}

func (k *block) writeCells(o *Op, in []byte, stateTab int) error {
	for i := range o.pre {
		p := &o.pre[i]
		le.PutUint32(in[stateTab+8*i:], uint32(p.base))
		le.PutUint32(in[stateTab+8*i+4:], uint32(p.stride))
		n := len(k.keys)
		if err := p.value.LoadCells(k.keys, p.pos[:n], in[p.base:p.base+n*p.stride], p.stride); err != nil {
			return err
		}
	}
	return nil
}
