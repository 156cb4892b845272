package window

import (
	"bytes"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/state"
)

const (
	keyTable    = 4 * abi.MaxBatchRecords // power of two
	keyIdxBits  = 12
	keyIdxMask  = 1<<keyIdxBits - 1
	keyGenLimit = 1 << (32 - keyIdxBits)
)

// slot is a key of the batch and its block while it is worked on.
type slot struct {
	blk    []byte
	epoch  uint64 // of the load; see keys.epoch
	stored bool   // the state has a value
	dirty  bool
}

// keys are the distinct keys of a run of records.
type keys struct {
	list  []state.Key
	pos   []state.Pos
	slots []slot
	idx   []uint32 // key of each record
	table []uint32 // generation<<keyIdxBits | index, by hash
	gen   uint32
	dirty []uint32
	epoch uint64 // blocks loaded in an earlier one may be stale
}

func newKeys() *keys {
	return &keys{list: make([]state.Key, 0, abi.MaxBatchRecords), pos: make([]state.Pos, abi.MaxBatchRecords),
		slots: make([]slot, abi.MaxBatchRecords), idx: make([]uint32, 0, abi.MaxBatchRecords), table: make([]uint32, keyTable)}
}

func (k *keys) reset() {
	k.list, k.idx, k.dirty = k.list[:0], k.idx[:0], k.dirty[:0]
	k.epoch++
	if k.gen++; k.gen >= keyGenLimit {
		clear(k.table)
		k.gen = 1
	}
}

// add takes the key of the next record.
func (k *keys) add(h uint64, key []byte) {
	i := uint32(h) & (keyTable - 1)
	for {
		e := k.table[i]
		if e>>keyIdxBits != k.gen {
			break
		}
		j := e & keyIdxMask
		if k.list[j].Hash == h && bytes.Equal(k.list[j].Bytes, key) {
			k.idx = append(k.idx, j)
			return
		}
		i = (i + 1) & (keyTable - 1)
	}
	n := uint32(len(k.list))
	k.table[i] = k.gen<<keyIdxBits | n
	k.idx = append(k.idx, n)
	k.list = append(k.list, state.Key{Hash: h, Bytes: key})
	k.slots[n].dirty = false
}
