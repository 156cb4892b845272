package ttl

import (
	"encoding/binary"
	"fmt"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/state"
)

// value is a value state with a TTL. Load and Store go by the moment of Keyed.At, the cells by Keyed.Batch.
type value struct {
	state.Value
	policy
	k      *Keyed
	max    int    // bytes of a value without its stamp
	stride int    // of cells with stamps
	cells  []byte // those of the last LoadCells
	buf    []byte
}

// Load implements state.Value.
func (v *value) Load(p state.Pos, key state.Key) ([]byte, bool, error) {
	now, _ := v.k.moment(&v.policy)
	_, val, ok, err := v.live(p, key, now)
	return val, ok, err
}

// live loads what has not expired.
func (v *value) live(p state.Pos, key state.Key, now int64) (stamp int64, val []byte, ok bool, err error) {
	raw, ok, err := v.Value.Load(p, key)
	if err != nil || !ok {
		return 0, nil, false, err
	}
	if stamp, val, err = split(raw); err != nil {
		return 0, nil, false, err
	}
	if v.k.expired(&v.policy, stamp, now) {
		return 0, nil, false, nil
	}
	return stamp, val, true, nil
}

// Store implements state.Value.
func (v *value) Store(p state.Pos, key state.Key, val []byte) error {
	if len(val) > v.max {
		return fmt.Errorf("%w: value of %d bytes in state %q, limit %d", state.ErrTooLarge, len(val), v.name, v.max)
	}
	now, stamp := v.k.moment(&v.policy)
	v.buf = appendStamped(v.buf[:0], stamp, val) // first: val may be borrowed
	_, _, was, err := v.live(p, key, now)
	if err == nil && !was {
		err = v.k.arm(&v.policy, key, stamp)
	}
	if err != nil {
		return err
	}
	return v.Value.Store(p, key, v.buf)
}

func (v *value) renew(key state.Key) (was []byte, renewed bool, err error) {
	now, stamp := v.k.moment(&v.policy)
	old, val, ok, err := v.live(state.NoPos, key, now)
	if err != nil || !ok || old == stamp {
		return nil, false, err
	}
	n := StampBytes + len(val)
	v.buf = appendStamped(appendStamped(v.buf[:0], old, val), stamp, val)
	return v.buf[:n:n], true, v.Value.Store(state.NoPos, key, v.buf[n:])
}

// LoadCells implements state.Value.
func (v *value) LoadCells(keys []state.Key, pos []state.Pos, cells []byte, stride int) error {
	n := len(keys) * v.stride
	if cap(v.cells) < n {
		v.cells = make([]byte, n)
	}
	v.cells = v.cells[:n]
	if err := v.Value.LoadCells(keys, pos, v.cells, v.stride); err != nil {
		return err
	}
	for i := range keys {
		in, out := v.cells[i*v.stride:(i+1)*v.stride], cells[i*stride:(i+1)*stride]
		val, ok, err := v.cell(in, i)
		if err != nil {
			return err
		}
		if len(val) > v.max {
			return fmt.Errorf("a stored value of state %q has %d bytes, the state declares at most %d", v.name, len(val), v.max)
		}
		head := uint64(len(val))
		if ok {
			head |= abi.CellPresent << 32
		}
		binary.LittleEndian.PutUint64(out, head)
		copy(out[abi.CellHeader:], val)
	}
	return nil
}

// cell is the value in a cell with its stamp, unless it has expired for key i of the batch.
func (v *value) cell(in []byte, i int) (val []byte, ok bool, err error) {
	head := binary.LittleEndian.Uint64(in)
	if head>>32&abi.CellPresent == 0 {
		return nil, false, nil
	}
	stamp, val, err := split(in[abi.CellHeader : abi.CellHeader+int(uint32(head))])
	if now, _ := v.k.moments(&v.policy, i); err != nil || v.k.expired(&v.policy, stamp, now) {
		return nil, false, err
	}
	return val, true, nil
}

// StoreCells implements state.Value: of the batch that was loaded last.
func (v *value) StoreCells(keys []state.Key, pos []state.Pos, cells []byte, stride int) error {
	any := false
	for i := range keys {
		changed, err := v.merge(keys[i], cells[i*stride:(i+1)*stride], v.cells[i*v.stride:(i+1)*v.stride], i)
		if err != nil {
			return err
		}
		any = any || changed
	}
	if !any {
		return nil
	}
	return v.Value.StoreCells(keys, pos, v.cells, v.stride)
}

// merge takes what the guest left in a cell into the one with the stamp.
func (v *value) merge(key state.Key, out, in []byte, i int) (changed bool, err error) {
	head := binary.LittleEndian.Uint64(out)
	flags := head >> 32
	_, live, err := v.cell(in, i)
	if err != nil {
		return false, err
	}
	_, stamp := v.k.moments(&v.policy, i)
	old := int64(binary.LittleEndian.Uint64(in[abi.CellHeader:]))
	switch {
	case flags&abi.CellChanged != 0 && flags&abi.CellPresent == 0:
		binary.LittleEndian.PutUint64(in, abi.CellChanged<<32)
		return true, nil
	case flags&abi.CellChanged != 0:
		val := out[abi.CellHeader : abi.CellHeader+int(uint32(head))]
		binary.LittleEndian.PutUint64(in, uint64(StampBytes+len(val))|(abi.CellChanged|abi.CellPresent)<<32)
		copy(in[abi.CellHeader+StampBytes:], val)
	case live && v.OnRead && stamp != old && stamp != Untouched:
		in[4] |= abi.CellChanged
	default:
		in[4] &^= abi.CellChanged
		return false, nil
	}
	if !live {
		if err := v.k.arm(&v.policy, key, stamp); err != nil {
			return false, err
		}
	}
	binary.LittleEndian.PutUint64(in[abi.CellHeader:], uint64(stamp))
	return true, nil
}
