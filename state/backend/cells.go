package backend

import (
	"encoding/binary"
	"fmt"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/state"
)

// LoadCells implements state.Value.
func (s *valueStore) LoadCells(keys []state.Key, pos []state.Pos, cells []byte, stride int) error {
	if s.err != nil {
		return s.err
	}
	for i := 0; ; i++ {
		if i = s.tab.LoadCells(keys, pos, cells, stride, s.max, i); i == len(keys) {
			return nil
		}
		v, ok, hit := s.tab.ValueAt(pos[i], keys[i].Hash, keys[i].Bytes)
		if !hit {
			var err error
			if v, ok, err = s.Load(pos[i], keys[i]); err != nil {
				return err
			}
		}
		if len(v) > s.max {
			return fmt.Errorf("a stored value of state %q has %d bytes, the state declares at most %d", s.cfg.Descriptor.Name, len(v), s.max)
		}
		cell := cells[i*stride : (i+1)*stride]
		head := uint64(len(v))
		if ok {
			head |= abi.CellPresent << 32
		}
		binary.LittleEndian.PutUint64(cell, head)
		copy(cell[abi.CellHeader:], v)
	}
}

// StoreCells implements state.Value.
func (s *valueStore) StoreCells(keys []state.Key, pos []state.Pos, cells []byte, stride int) error {
	if s.err != nil {
		return s.err
	}
	for i := 0; ; i++ {
		if i = s.tab.StoreCells(keys, pos, cells, stride, s.max, i); i == len(keys) {
			return nil
		}
		cell := cells[i*stride : (i+1)*stride]
		head := binary.LittleEndian.Uint64(cell)
		flags := head >> 32
		if flags&abi.CellChanged == 0 {
			continue
		}
		var err error
		if flags&abi.CellPresent == 0 {
			err = s.Remove(pos[i], keys[i])
		} else {
			v := cell[abi.CellHeader : abi.CellHeader+int(uint32(head))]
			if len(v) > s.max || !s.tab.Overwrite(pos[i], keys[i].Hash, keys[i].Bytes, v) {
				err = s.Store(pos[i], keys[i], v)
			}
		}
		if err != nil {
			return err
		}
	}
}
