package backend

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/state"
)

// touchCells is touch for a batch through cells: what they get is compared with the model, some are
// changed or removed, and those not marked hold rubbish that must not be stored.
func (j *world) touchCells(v state.Value, st int, pos []state.Pos, ks []state.Key) {
	m := j.model[st]
	next := make([]string, len(ks))
	longest := 0
	for i, k := range ks {
		next[i] = j.value(st)
		if old, ok := m[string(k.Bytes)]; ok && j.rng.IntN(2) == 0 {
			next[i] = strings.Repeat(string(rune('a'+j.rng.IntN(26))), len(old))
		}
		longest = max(longest, len(next[i]), len(m[string(k.Bytes)]))
	}
	stride := abi.CellStride(longest)
	cells := make([]byte, len(ks)*stride)
	for range 1 + j.rng.IntN(2) {
		j.must(v.LoadCells(ks, pos, cells, stride))
		for i, k := range ks {
			cell := cells[i*stride : (i+1)*stride]
			n, flags := binary.LittleEndian.Uint32(cell), binary.LittleEndian.Uint32(cell[4:])
			got := string(cell[abi.CellHeader : abi.CellHeader+n])
			if want, there := m[string(k.Bytes)]; got != want || (flags == abi.CellPresent) != there || flags&^abi.CellPresent != 0 {
				j.t.Fatalf("state %d %q: cell with %.20q, flags %d, expected %.20q %v", st, k.Bytes, got, flags, want, there)
			}
			x := next[i]
			switch j.rng.IntN(8) {
			case 0:
				flags = abi.CellChanged
				delete(m, string(k.Bytes))
			case 1, 2:
				x = strings.Repeat("-", len(x))
			default:
				flags = abi.CellChanged | abi.CellPresent
				m[string(k.Bytes)] = x
			}
			binary.LittleEndian.PutUint32(cell, uint32(len(x)))
			binary.LittleEndian.PutUint32(cell[4:], flags)
			copy(cell[abi.CellHeader:], x)
		}
		j.must(v.StoreCells(ks, pos, cells, stride))
	}
}

// TestLoadCellsTooLong: a value from before the state's limit was lowered does not overrun its cell.
func TestLoadCellsTooLong(t *testing.T) {
	j := newJob(t, 3, Memory)
	j.open(1)
	s := j.tasks[0].Value(0).(*valueStore)
	ks, pos := []state.Key{j.key("a"), j.key("b")}, []state.Pos{0, 0}
	j.must(s.Store(state.NoPos, ks[0], make([]byte, 64)))
	j.must(s.Prefetch(ks, pos))
	s.max = 8
	stride := abi.CellStride(8)
	cells := make([]byte, 2*stride)
	if err := s.LoadCells(ks, pos, cells, stride); err == nil || !strings.Contains(err.Error(), "64 bytes") {
		t.Fatalf("a value of 64 bytes in a cell for 8: %v", err)
	}
}
