package operators

import (
	"encoding/binary"
	"errors"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators/format"
)

// KeyBy sets the key of each record from its value, and the key's hash. Records without that key go by
// the node's null policy.
type KeyBy struct {
	node    *Node
	schema  []abi.Field
	ctx     *Context
	keyer   *format.Keyer
	out     abi.Batch
	dead    abi.Batch
	skipped int64
	letters int64
}

// NewKeyBy makes the operator of node n. Its schema is that of its input's values.
func NewKeyBy(n *Node) *KeyBy { return &KeyBy{node: n, schema: n.Schema} }

// Open implements Operator.
func (k *KeyBy) Open(ctx *Context) error {
	k.ctx = ctx
	k.keyer = format.NewKeyer(k.node.KeyBy.Fields, k.node.KeyBy.Whole, k.schema)
	return nil
}

// Close implements Operator.
func (k *KeyBy) Close() error { return nil }

// Batch implements Operator.
func (k *KeyBy) Batch(_ int, b *abi.Batch, out Collector) error {
	k.out.Reset()
	k.dead.Reset()
	m := 0
	for i := range b.Off {
		m = k.marks(b, m, uint32(i))
		f := b.Frame(i)
		key, err := k.keyer.Key(f.Value())
		if err == nil {
			appendWithKey(&k.out, f, key)
			k.out.Hash = append(k.out.Hash, k.ctx.Hasher.Hash(key))
			continue
		}
		if err := k.reject(f, err); err != nil {
			return err
		}
	}
	k.marks(b, m, uint32(b.Len()))
	if err := out.Emit(OutputMain, &k.out); err != nil {
		return err
	}
	if k.node.KeyBy.Null.Policy == PolicyDeadLetter && !k.dead.Empty() {
		return out.Emit(OutputDeadLetter, &k.dead)
	}
	return nil
}

// marks copies b's marks from number m on that stand before record i.
func (k *KeyBy) marks(b *abi.Batch, m int, i uint32) int {
	for m < len(b.Marks) && b.Marks[m].Index <= i {
		k.out.Mark(b.Marks[m].Watermark)
		k.dead.Mark(b.Marks[m].Watermark)
		m++
	}
	return m
}

func (k *KeyBy) reject(f abi.Frame, cause error) error {
	kind := KindMalformed
	if errors.Is(cause, format.ErrNullKey) {
		kind, cause = KindNullKey, NullKeyError(k.node.KeyBy)
	}
	pos := k.ctx.Describe(f.Pos())
	switch k.node.KeyBy.Null.Policy {
	case PolicySkip:
		k.skipped++
		return nil
	case PolicyDeadLetter:
		k.letters++
		AppendDeadLetter(&k.dead, f, &DeadLetter{Operator: k.node.ID, Task: k.ctx.Task, Kind: kind,
			Error: cause.Error(), Position: pos, Attempts: 1})
		return nil
	}
	return &RecordError{k.node.ID, pos, cause}
}

// Counters implements Counted.
func (k *KeyBy) Counters() map[string]int64 {
	return map[string]int64{"skipped": k.skipped, "dead letters": k.letters}
}

// appendWithKey appends f with another key.
func appendWithKey(b *abi.Batch, f abi.Frame, key []byte) {
	old := int(binary.LittleEndian.Uint32(f[abi.FrameKeyLen:]))
	at := len(b.Data)
	b.Off = append(b.Off, uint32(at))
	b.Data = append(b.Data, f[:abi.FrameHeader]...)
	b.Data = append(b.Data, key...)
	b.Data = append(b.Data, f[abi.FrameHeader+old:]...)
	g := b.Data[at:]
	binary.LittleEndian.PutUint32(g[abi.FrameSize:], uint32(len(g)))
	binary.LittleEndian.PutUint32(g[abi.FrameKeyLen:], uint32(len(key)))
	g[abi.FrameFlags] |= abi.FlagKey
}
