package instrument

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/guests/hostile"
)

// blockOf is a call block of records with these values.
func blockOf(values ...string) []byte {
	le := binary.LittleEndian
	b := make([]byte, abi.BlockHeader+4*len(values))
	le.PutUint32(b[abi.BlockN:], uint32(len(values)))
	le.PutUint32(b[abi.BlockOffsets:], abi.BlockHeader)
	for i, v := range values {
		for len(b)%8 != 0 {
			b = append(b, 0)
		}
		le.PutUint32(b[abi.BlockHeader+4*i:], uint32(len(b)))
		b = abi.AppendRecord(b, &abi.Record{Value: []byte(v)})
	}
	return b
}

// Each attack on time and memory ends as it must, at the record that made it, within the time that its
// fuel lasts and the memory that the limits grant.
func TestHostileGuestsEndAtTheirRecord(t *testing.T) {
	for _, g := range hostile.Runnable() {
		t.Run(g.Name, func(t *testing.T) {
			m, err := Validate(g.Wasm, DefaultLimits())
			if err != nil {
				t.Fatal(err)
			}
			for _, imp := range m.Imports {
				if imp.Name != abi.CallNext {
					return // host calls are tested where they are implemented: host/engine, host/jobtest
				}
			}
			runHostile(t, g, rewrite(t, g.Wasm, DefaultOptions()))
		})
	}
}

func runHostile(t *testing.T, g hostile.Guest, r *Rewritten) {
	i := newEngine(t, false).instance(t, r.Wasm)
	started := time.Now()
	defer func() {
		if d := time.Since(started); d > 10*time.Second {
			t.Errorf("took %v", d)
		}
		if size := i.Memory().Size(); size > 64<<20 {
			t.Errorf("memory grew to %d bytes", size)
		}
	}()
	i.begin(abi.FuelPerInit/10, 0, 0, 0)
	if r.HasStart {
		if _, err := i.call(ExportStart); err == nil || i.get(GlobalFuel) >= 0 || g.Fault != hostile.FaultStart {
			t.Errorf("start: err %v, fuel %d", err, i.get(GlobalFuel))
		}
		return
	}
	block := blockOf("a", hostile.Trigger, "b")
	in, err := i.call(abi.ExportAlloc, uint64(len(block)))
	if err != nil {
		t.Fatal(err)
	}
	out, err := i.call(abi.ExportAlloc, 4096)
	if err != nil {
		t.Fatal(err)
	}
	i.Memory().Write(uint32(in[0]), block)
	i.begin(abi.FuelPerRecord, abi.FuelPerRecord, abi.FuelPerCall, 0)
	_, err = i.call(abi.ExportProcess, in[0], uint64(len(block)), out[0], 4096, 0)
	fuel, cursor, misuse := i.get(GlobalFuel), i.get(GlobalCursor), i.get(GlobalMisuse)
	t.Logf("%v: fuel %d, cursor %d, misuse %d, %v", g.Fault, fuel, cursor, misuse, time.Since(started))
	ok := false
	switch g.Fault {
	case hostile.FaultNone:
		consumed, _ := i.Memory().ReadUint32Le(uint32(out[0]))
		ok = err == nil && consumed == 3 && cursor == 3
	case hostile.FaultFuel:
		ok = err != nil && fuel < 0 && cursor == 1
	case hostile.FaultTrap:
		ok = err != nil && fuel >= 0 && misuse == 0 && cursor == 1
	case hostile.FaultStack:
		ok = err != nil && misuse == 0 && cursor == 1
	case hostile.FaultNext:
		ok = err != nil && fuel >= 0 && misuse == 1 && cursor >= 1
	case hostile.FaultOutput:
		ok = err == nil // what it says is for the host to judge
	}
	if !ok {
		t.Errorf("expected %s: err %v, fuel %d, cursor %d, misuse %d", g.Fault, err, fuel, cursor, misuse)
	}
}
