package engine

import (
	"fmt"

	"github.com/millrace-io/millrace/host/hostcall"
	"github.com/millrace-io/millrace/host/instrument"
)

// meter is the rewriter's globals in one instance, and the accounts they hold for the call under way.
type meter struct {
	fuel, limit, quantum, prologue, stop, cursor, misuse hostcall.Word

	fuelFirst    int64 // what the prologue began with
	fuelPerCall  int64
	yieldedEarly int64 // taken off the quantum by yield, not spent
}

func (m *meter) bind(mod instance) error {
	for _, g := range []struct {
		to   *hostcall.Word
		name string
	}{
		{&m.fuel, instrument.GlobalFuel}, {&m.limit, instrument.GlobalLimit}, {&m.quantum, instrument.GlobalQuantum},
		{&m.prologue, instrument.GlobalPrologue}, {&m.stop, instrument.GlobalStop}, {&m.cursor, instrument.GlobalCursor},
		{&m.misuse, instrument.GlobalMisuse},
	} {
		if *g.to = mod.global(g.name); *g.to == nil {
			return fmt.Errorf("engine: the rewritten module has no global %s", g.name)
		}
	}
	return nil
}

// beginPlain is for calls that handle no block: one account, and mr.next traps.
func (m *meter) beginPlain(fuel int64) { m.begin(0, fuel, 0, 0) }

// begin opens the accounts of a call that starts at record first.
func (m *meter) begin(first uint32, fuel, perRecord, perCall int64) {
	m.fuelFirst, m.fuelPerCall, m.yieldedEarly = fuel, perCall, 0
	m.fuel.Set(uint64(fuel))
	m.limit.Set(uint64(perRecord))
	m.quantum.Set(uint64(perCall))
	m.prologue.Set(^uint64(0))
	m.cursor.Set(uint64(first - 1))
	m.misuse.Set(0)
}

// spent is the fuel that the call has used so far: prologue, closed records and the open one.
func (m *meter) spent() int64 {
	fuel := int64(m.fuel.Get())
	prologue := int64(m.prologue.Get())
	if prologue < 0 {
		return m.fuelFirst - fuel
	}
	closed := m.fuelPerCall - int64(m.quantum.Get()) - m.yieldedEarly
	return m.fuelFirst - prologue + closed + int64(m.limit.Get()) - fuel
}

// billed is what the records that are done have used, each on its own account.
func (m *meter) billed() int64 {
	if int64(m.prologue.Get()) < 0 { // no mr.next
		return 0
	}
	return m.fuelPerCall - int64(m.quantum.Get()) - m.yieldedEarly
}

// yield leaves one unit of the quantum, which the record under way spends.
func (m *meter) yield() {
	if q := int64(m.quantum.Get()); q > 1 {
		m.quantum.Set(1)
		m.yieldedEarly += q - 1
	}
}

// exhausted says that the open account ran out.
func (m *meter) exhausted() bool { return int64(m.fuel.Get()) < 0 }

// askedToYield says that the last mr.next returned 1: the record at the cursor was not begun.
func (m *meter) askedToYield() bool { return int64(m.quantum.Get()) < 1 }
