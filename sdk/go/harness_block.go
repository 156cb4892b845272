//go:build !wasip1

package millrace

import (
	"fmt"
	"math"
)

// block is a call block of the harness.
type block struct {
	bytes    []byte
	keys     []string // of each record; nil: not keyed
	distinct []string
	cells    []cells
}

type cells struct{ state, base, stride int }

func newBlock(kind uint32, h *Harness, records []Input) *block {
	b := &block{bytes: make([]byte, blockHeader)}
	n := len(records)
	b.put(blockKind, kind)
	b.put(blockN, uint32(n))
	b.put(blockFunction, uint32(h.index))
	le.PutUint64(b.bytes[blockWatermark:], uint64(h.watermark))
	le.PutUint64(b.bytes[blockProcessing:], uint64(h.processing))
	offsets := b.align()
	b.put(blockOffsets, uint32(offsets))
	b.grow(4 * n)
	if h.fn.Keyed {
		b.put(blockKeys, uint32(b.align()))
		index := map[string]int{}
		for _, r := range records {
			k := string(r.Key)
			i, ok := index[k]
			if !ok {
				i = len(b.distinct)
				index[k] = i
				b.distinct = append(b.distinct, k)
			}
			b.keys = append(b.keys, k)
			b.bytes = le.AppendUint32(b.bytes, uint32(i))
		}
		b.put(blockNKeys, uint32(len(b.distinct)))
		b.writeCells(h)
	}
	for i := range records {
		b.put(offsets+4*i, uint32(b.align()))
		b.bytes = appendFrame(b.bytes, &records[i])
	}
	return b
}

func (b *block) put(at int, v uint32) { le.PutUint32(b.bytes[at:], v) }

func (b *block) grow(n int) { b.bytes = append(b.bytes, make([]byte, n)...) }

func (b *block) align() int {
	b.grow(-len(b.bytes) & 7)
	return len(b.bytes)
}

func (b *block) writeCells(h *Harness) {
	for i, s := range h.fn.States {
		if _, _, most := s.describe(); prefetched(s.describe()) {
			b.cells = append(b.cells, cells{state: i, stride: cellHeader + (most+7)&^7})
		}
	}
	table := b.align()
	b.put(blockNStates, uint32(len(b.cells)))
	b.put(blockStates, uint32(table))
	b.grow(8 * len(b.cells))
	for i := range b.cells {
		c := &b.cells[i]
		c.base = b.align()
		b.put(table+8*i, uint32(c.base))
		b.put(table+8*i+4, uint32(c.stride))
		for _, k := range b.distinct {
			at := len(b.bytes)
			b.grow(c.stride)
			for j := at; j < at+c.stride; j++ {
				b.bytes[j] = 0xee // what is not valid must not matter
			}
			v, ok := h.host.entries[entryKey{c.state, k, ""}]
			b.put(at, uint32(len(v)))
			b.put(at+4, 0)
			if ok {
				b.put(at+4, cellPresent)
			}
			copy(b.bytes[at+cellHeader:], v)
		}
	}
}

// writeBack takes changed cells over into the host's state.
func (b *block) writeBack(h *Harness) {
	for _, c := range b.cells {
		name, _, most := h.fn.States[c.state].describe()
		for i, k := range b.distinct {
			cell := b.bytes[c.base+i*c.stride:][:c.stride]
			n, flags := int(le.Uint32(cell)), le.Uint32(cell[4:])
			switch at := (entryKey{c.state, k, ""}); {
			case flags&cellChanged == 0:
			case flags&cellPresent == 0:
				delete(h.host.entries, at)
			case n > most:
				panic(fmt.Sprintf("millrace: state %s holds %d bytes, at most %d are declared", name, n, most))
			default:
				h.host.entries[at] = append([]byte{}, cell[cellHeader:][:n]...)
			}
		}
	}
}

func appendFrame(dst []byte, r *Input) []byte {
	at := len(dst)
	dst = append(dst, zeroHeader[:]...)
	dst = append(append(dst, r.Key...), r.Value...)
	flags := byte(0)
	if r.Key != nil {
		flags |= flagKey
	}
	if r.Value != nil {
		flags |= flagValue
	}
	if len(r.Headers) > 0 {
		flags |= flagHeaders
		dst = le.AppendUint32(dst, uint32(len(r.Headers)))
		for _, h := range r.Headers {
			n := uint32(nullLen)
			if h.Value != nil {
				n = uint32(len(h.Value))
			}
			dst = le.AppendUint32(le.AppendUint32(dst, uint32(len(h.Key))), n)
			dst = append(append(dst, h.Key...), h.Value...)
		}
	}
	f := dst[at:]
	le.PutUint32(f, uint32(len(f)))
	f[frameFlags], f[frameOp] = flags, byte(r.Op)
	le.PutUint64(f[frameTime:], uint64(r.Time))
	le.PutUint32(f[frameKeyLen:], uint32(len(r.Key)))
	le.PutUint32(f[frameValueLen:], uint32(len(r.Value)))
	le.PutUint32(f[frameSplit:], r.Split)
	le.PutUint64(f[frameOffset:], r.Offset)
	return dst
}

// readOutputs gives the outputs of a call in order, with what went out by emit put in at its place.
func readOutputs(out []byte, h *testHost) (consumed uint32, outs []Out) {
	frames := out[outHeader:][:le.Uint32(out[outBytes:])]
	emitted := h.emitted
	h.emitted = nil
	count := uint32(0)
	for at := 0; ; {
		for len(emitted) > 0 && emitted[0].at <= at {
			outs = append(outs, readFrame(emitted[0].frame))
			emitted = emitted[1:]
		}
		if at == len(frames) {
			break
		}
		n := int(le.Uint32(frames[at:]))
		outs = append(outs, readFrame(frames[at:at+n]))
		at += n
		count++
	}
	if count != le.Uint32(out[outFrames:]) || len(emitted) > 0 {
		panic(fmt.Sprintf("millrace: %d output frames, the header says %d; %d emitted beyond the end", count, le.Uint32(out[outFrames:]), len(emitted)))
	}
	return le.Uint32(out[outConsumed:]), outs
}

// readFrame copies one whole frame.
func readFrame(f []byte) Out {
	r := Record{append([]byte(nil), f...)}
	o := Out{r.Input(), Input{Key: r.Key(), Value: r.Value(), Time: r.Time(), Op: r.Op()}}
	o.Split, o.Offset = r.Position()
	r.Headers(func(h Header) bool {
		o.Headers = append(o.Headers, h)
		return true
	})
	return o
}

func encodeRow(cells []any) []byte {
	n := len(cells)
	b := make([]byte, fixedBytes(n))
	for i, c := range cells {
		slot := uint64(0)
		switch v := c.(type) {
		case nil:
			b[i>>3] |= 1 << (i & 7)
		case int:
			slot = uint64(v)
		case int64:
			slot = uint64(v)
		case float64:
			slot = math.Float64bits(v)
		case bool:
			if v {
				slot = 1
			}
		case string:
			slot = uint64(len(b)) | uint64(len(v))<<32
			b = append(b, v...)
		case []byte:
			slot = uint64(len(b)) | uint64(len(v))<<32
			b = append(b, v...)
		default:
			panic(fmt.Sprintf("millrace: a row holds no %T", c))
		}
		le.PutUint64(b[bitmapBytes(n)+8*i:], slot)
	}
	return b
}
