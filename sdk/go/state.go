package millrace

import "math/bits"

// State is a keyed state of a function: a *Value, *List or *MapState.
//
// Scope: the key of the current record or timer. Visibility: a key's later records see what earlier ones
// wrote. Durability: a write survives once a checkpoint whose barrier came after it completes. A write of a
// record that fails is undone.
type State interface {
	describe() (name, kind string, maxBytes int)
	bind(index, slot int)
}

func prefetched(_, kind string, maxBytes int) bool {
	return kind == "value" && maxBytes > 0 && maxBytes <= maxPrefetchBytes
}

// Value is one value per key. With a bound of at most 4 KiB it comes with the batch and costs no host
// call.
type Value[T any] struct {
	name     string
	codec    Codec[T]
	index    uint32
	slot     int
	prefetch bool
}

// NewValue declares a value state; list it in Function.States.
func NewValue[T any](name string, c Codec[T]) *Value[T] {
	return &Value[T]{name: name, codec: c, prefetch: prefetched(name, "value", c.MaxBytes())}
}

func (v *Value[T]) describe() (string, string, int) { return v.name, "value", v.codec.MaxBytes() }

func (v *Value[T]) bind(index, slot int) { v.index, v.slot = uint32(index), slot }

// Get returns the value; the zero value and false if it was never set or was cleared. Errors: not keyed,
// bytes that are no T.
func (v *Value[T]) Get(c *Ctx) (t T, ok bool, err error) {
	b, err := v.bytes(c)
	if b == nil || err != nil {
		return t, false, err
	}
	t, err = v.codec.Decode(b)
	return t, err == nil, err
}

// Bytes returns the value's bytes, borrowed until the state is used again; nil if there is none.
func (v *Value[T]) Bytes(c *Ctx) ([]byte, error) { return v.bytes(c) }

func (v *Value[T]) bytes(c *Ctx) ([]byte, error) {
	if v.prefetch {
		return c.cell(v.slot)
	}
	return c.get(v.index, nil)
}

// Set sets the value. Errors: not keyed, longer than declared.
func (v *Value[T]) Set(c *Ctx, t T) (err error) {
	if c.enc, err = v.codec.Append(c.enc[:0], t); err != nil {
		return err
	}
	if v.prefetch {
		return c.setCell(v.slot, c.enc)
	}
	return failed("put", hostPut(v.index, nil, c.enc))
}

// Clear forgets the value; fine if there is none.
func (v *Value[T]) Clear(c *Ctx) error {
	if v.prefetch {
		return c.clearCell(v.slot)
	}
	return failed("clear", hostClear(v.index))
}

// List is an append-only list per key.
type List[T any] struct {
	name  string
	codec Codec[T]
	index uint32
}

// NewList declares a list state; list it in Function.States.
func NewList[T any](name string, c Codec[T]) *List[T] { return &List[T]{name: name, codec: c} }

func (l *List[T]) describe() (string, string, int) { return l.name, "list", l.codec.MaxBytes() }

func (l *List[T]) bind(index, _ int) { l.index = uint32(index) }

// Append appends an element. Errors: not keyed, over the limit of one value.
func (l *List[T]) Append(c *Ctx, t T) (err error) {
	if c.enc, err = l.codec.Append(c.enc[:0], t); err != nil {
		return err
	}
	return failed("append", hostAppend(l.index, c.enc))
}

// Each calls each with every element in order until it returns an error.
func (l *List[T]) Each(c *Ctx, each func(T) error) error {
	return c.scan(l.index, nil, func(_, v []byte) (bool, error) {
		t, err := l.codec.Decode(v)
		if err == nil {
			err = each(t)
		}
		return true, err
	})
}

// Clear forgets all elements.
func (l *List[T]) Clear(*Ctx) error { return failed("clear", hostClear(l.index)) }

// MapState is a sorted map per key.
type MapState[K, V any] struct {
	name   string
	keys   Codec[K]
	values Codec[V]
	index  uint32
}

// NewMap declares a map state; list it in Function.States. Use a key codec for k (Int64Key, TextKey, ...),
// so that scans come in order.
func NewMap[K, V any](name string, k Codec[K], v Codec[V]) *MapState[K, V] {
	return &MapState[K, V]{name: name, keys: k, values: v}
}

func (m *MapState[K, V]) describe() (string, string, int) {
	return m.name, "map", m.values.MaxBytes()
}

func (m *MapState[K, V]) bind(index, _ int) { m.index = uint32(index) }

func (m *MapState[K, V]) key(c *Ctx, k K) (err error) {
	c.ukey, err = m.keys.Append(c.ukey[:0], k)
	return err
}

// Get returns the entry of k; the zero value and false if there is none.
func (m *MapState[K, V]) Get(c *Ctx, k K) (v V, ok bool, err error) {
	if err := m.key(c, k); err != nil {
		return v, false, err
	}
	b, err := c.get(m.index, c.ukey)
	if b == nil || err != nil {
		return v, false, err
	}
	v, err = m.values.Decode(b)
	return v, err == nil, err
}

// Put sets the entry of k. Errors: not keyed, over the limits of a key or value.
func (m *MapState[K, V]) Put(c *Ctx, k K, v V) (err error) {
	if err = m.key(c, k); err != nil {
		return err
	}
	if c.enc, err = m.values.Append(c.enc[:0], v); err != nil {
		return err
	}
	return failed("put", hostPut(m.index, c.ukey, c.enc))
}

// Remove removes the entry of k; fine if there is none.
func (m *MapState[K, V]) Remove(c *Ctx, k K) error {
	if err := m.key(c, k); err != nil {
		return err
	}
	return failed("delete", hostDelete(m.index, c.ukey))
}

// Scan calls each with the entries in key order, until it returns false or an error. Do not change the map
// meanwhile.
func (m *MapState[K, V]) Scan(c *Ctx, each func(K, V) (bool, error)) error {
	return c.scan(m.index, nil, m.entry(each))
}

// ScanFrom is Scan beginning at the first key at or after from.
func (m *MapState[K, V]) ScanFrom(c *Ctx, from K, each func(K, V) (bool, error)) error {
	if err := m.key(c, from); err != nil {
		return err
	}
	return c.scan(m.index, c.ukey, m.entry(each))
}

func (m *MapState[K, V]) entry(each func(K, V) (bool, error)) func(k, v []byte) (bool, error) {
	return func(kb, vb []byte) (bool, error) {
		k, err := m.keys.Decode(kb)
		if err != nil {
			return false, err
		}
		v, err := m.values.Decode(vb)
		if err != nil {
			return false, err
		}
		return each(k, v)
	}
}

// Clear removes all entries of the current key.
func (m *MapState[K, V]) Clear(*Ctx) error { return failed("clear", hostClear(m.index)) }

const firstBuffer = 512

// get returns an entry's bytes in the scratch buffer, nil if there is none.
func (c *Ctx) get(state uint32, ukey []byte) ([]byte, error) {
	if len(c.scratch) == 0 {
		c.scratch = make([]byte, firstBuffer)
	}
	for {
		n := hostGet(state, ukey, c.scratch)
		switch {
		case n < 0:
			return nil, failed("get", int32(n))
		case n <= int64(len(c.scratch)):
			return c.scratch[:n:n], nil
		}
		c.scratch = make([]byte, roundUp(int(n)))
	}
}

func roundUp(n int) int { return 1 << bits.Len(uint(n-1)) }

const firstScanBuffer = 4 << 10

func (c *Ctx) scan(state uint32, from []byte, each func(k, v []byte) (bool, error)) error {
	iter := hostScan(state, from)
	if iter < 0 {
		return failed("scan", iter)
	}
	// The buffer is lent out of the context, so that callbacks may use both.
	buf := c.scratch
	c.scratch = nil
	if len(buf) < firstScanBuffer {
		buf = make([]byte, firstScanBuffer)
	}
	buf, err := scanAll(uint32(iter), buf, each)
	c.scratch = buf
	if closed := failed("scan_close", hostScanClose(uint32(iter))); err == nil {
		err = closed
	}
	return err
}

func scanAll(iter uint32, buf []byte, each func(k, v []byte) (bool, error)) ([]byte, error) {
	for {
		n := hostScanNext(iter, buf)
		if need := int(le.Uint32(buf)); n == statusTooSmall && need > len(buf) {
			buf = make([]byte, roundUp(need))
			continue
		}
		if n <= 0 {
			return buf, failed("scan_next", n)
		}
		for b := buf[:n]; len(b) > 0; {
			k := scanEntryHeader + int(le.Uint32(b))
			end := k + int(le.Uint32(b[4:]))
			if ok, err := each(b[scanEntryHeader:k:k], b[k:end:end]); !ok || err != nil {
				return buf, err
			}
			b = b[end:]
		}
	}
}
