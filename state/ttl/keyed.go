package ttl

import (
	"fmt"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/state"
)

// Moment is when a callback happens, for the states of its key.
type Moment struct {
	Event      int64 // ms; what has expired by then is not there
	Stamp      int64 // ms; of what the callback writes, event time
	Processing int64 // ms; both, for processing time
}

// Config says what Open needs.
type Config struct {
	Operator    string
	Descriptors []state.Descriptor // as the guest declares them; MaxBytes without the stamp
	Restored    []state.Snapshot   // what Open restores from
	Watermark   int64              // at the start; abi.MinWatermark: none yet
	First       int64              // the first watermark there ever was; abi.MinWatermark: not known
	Processing  int64              // ms, the clock at the start
	// Open opens the state itself.
	Open func([]state.Descriptor) (state.Keyed, error)
}

// Keyed is keyed state of which at least one has a TTL. Before each callback the operator says when it
// happens: At for host calls, Batch for LoadCells and StoreCells of its keys.
//
// Concurrency: as state.Keyed.
type Keyed struct {
	state.Keyed
	cal    state.Timers
	wraps  []wrap // by descriptor
	notes  map[string]*state.TTLNote
	first  int64
	at     Moment
	times  []int64 // of Batch
	stamps []int64
	passed [2]int64 // by domain: nothing before is asked for any more
	sweep  sweeper
}

// wrap is one state with a TTL; at most one of the two is set, none without a TTL.
type wrap struct {
	value   *value
	ordered *ordered
}

func (w wrap) policy() *policy {
	if w.value != nil {
		return &w.value.policy
	}
	return &w.ordered.policy
}

// Open opens keyed state. Entries get stamps where a state has a TTL now that it had not in the snapshot
// (they age from the restore on), lose them where it has none any more, and a changed TTL counts for all
// entries. Where no state has a TTL the result is what cfg.Open gave.
func Open(cfg Config) (state.Keyed, error) {
	inner := make([]state.Descriptor, len(cfg.Descriptors))
	any := false
	for i, d := range cfg.Descriptors {
		if d.TTL.MS > 0 {
			any = true
			if d.MaxBytes == 0 {
				d.MaxBytes = abi.MaxStateValueBytes
			}
			d.MaxBytes += StampBytes
		}
		inner[i] = d
	}
	in, err := cfg.Open(inner)
	if err != nil {
		return nil, err
	}
	out, err := wrapped(cfg, in, any)
	if err != nil {
		_ = in.Close() // the first error says more
		return nil, err
	}
	return out, nil
}

func wrapped(cfg Config, in state.Keyed, any bool) (state.Keyed, error) {
	k := &Keyed{Keyed: in, wraps: make([]wrap, len(cfg.Descriptors)), notes: map[string]*state.TTLNote{}, first: cfg.First,
		passed: [2]int64{cfg.Watermark, cfg.Processing}}
	if k.first == abi.MinWatermark {
		k.first = cfg.Watermark
	}
	if x, ok := in.(state.Expiring); ok && any {
		k.cal = x.Expiry()
	}
	if any && k.cal == nil {
		return nil, fmt.Errorf("operator %q: its state has no calendar for states with a TTL", cfg.Operator)
	}
	k.sweep.init(k)
	for i, d := range cfg.Descriptors {
		if err := k.wrap(i, d); err != nil {
			return nil, fmt.Errorf("operator %q: %w", cfg.Operator, err)
		}
		if err := k.convert(i, d, noteOf(cfg.Restored, d)); err != nil {
			return nil, fmt.Errorf("operator %q, state %q: change its TTL: %w", cfg.Operator, d.Name, err)
		}
	}
	if !any {
		return in, nil
	}
	return k, nil
}

func (k *Keyed) wrap(i int, d state.Descriptor) error {
	if d.TTL.MS <= 0 {
		return nil
	}
	p, err := newPolicy(d)
	if err != nil {
		return err
	}
	k.notes[d.Name] = &state.TTLNote{MS: d.TTL.MS, Domain: d.TTL.Domain}
	if d.Kind == abi.StateValue {
		limit := d.MaxBytes
		if limit == 0 {
			limit = abi.MaxStateValueBytes
		}
		k.wraps[i].value = &value{Value: k.Keyed.Value(i), k: k, policy: p, max: limit, stride: abi.CellStride(limit + StampBytes)}
		return nil
	}
	k.wraps[i].ordered = &ordered{Ordered: k.Keyed.Ordered(i), k: k, policy: p, list: d.Kind == abi.StateList}
	return nil
}

// Value implements state.Keyed.
func (k *Keyed) Value(i int) state.Value {
	if v := k.wraps[i].value; v != nil {
		return v
	}
	return k.Keyed.Value(i)
}

// Ordered implements state.Keyed.
func (k *Keyed) Ordered(i int) state.Ordered {
	if o := k.wraps[i].ordered; o != nil {
		return o
	}
	return k.Keyed.Ordered(i)
}

// RawValue and RawOrdered are the state below, entries with their stamps: to take changes back.
func (k *Keyed) RawValue(i int) state.Value { return k.Keyed.Value(i) }

// RawOrdered is RawValue of map and list state.
func (k *Keyed) RawOrdered(i int) state.Ordered { return k.Keyed.Ordered(i) }

// Bare is an entry of state i without its stamp, of one as it is kept below; it aliases raw.
func (k *Keyed) Bare(i int, raw []byte) ([]byte, error) {
	if w := k.wraps[i]; w.value == nil && w.ordered == nil {
		return raw, nil
	}
	_, v, err := split(raw)
	return v, err
}

// Renew gives an entry the stamp of a read at the present moment, if state i has it so and the entry is
// there. The slice with which to take that back, through Raw, is borrowed until the next call; renewed: there
// was something to do.
func (k *Keyed) Renew(i int, key state.Key, ukey []byte) (was []byte, renewed bool, err error) {
	w := k.wraps[i]
	if w == (wrap{}) || !w.policy().OnRead {
		return nil, false, nil
	}
	if w.value != nil {
		return w.value.renew(key)
	}
	return w.ordered.renew(key, ukey)
}

// At sets the moment of the host calls that follow.
func (k *Keyed) At(m Moment) {
	k.at = m
	k.at.Processing = max(m.Processing, k.passed[abi.DomainProcessing])
}

// Batch sets the moments of the keys of a batch, by index, for LoadCells and StoreCells: event times at which
// they are loaded, and the stamps of what is written. The slices are borrowed until the next call.
func (k *Keyed) Batch(times, stamps []int64, processing int64) {
	k.times, k.stamps = times, stamps
	k.at.Processing = max(processing, k.passed[abi.DomainProcessing])
}

// Mark says that there is a watermark: the first one counts.
func (k *Keyed) Mark(w int64) {
	if k.first == abi.MinWatermark {
		k.first = w
	}
}

// First is the first watermark there ever was, abi.MinWatermark: none yet. It belongs into the snapshot.
func (k *Keyed) First() int64 { return k.first }

// Passed says that no later callback has a Moment before these, so that what has expired by then can go.
func (k *Keyed) Passed(event, processing int64) {
	k.Mark(event)
	k.passed[abi.DomainEvent] = max(k.passed[abi.DomainEvent], event)
	k.passed[abi.DomainProcessing] = max(k.passed[abi.DomainProcessing], processing)
}

// NextProcessing is when something expires by the clock next, about, ms; false: nothing does.
func (k *Keyed) NextProcessing() (int64, bool) { return k.cal.Next(abi.DomainProcessing) }

// Step implements state.Keyed: besides, it removes what has expired, some of it.
func (k *Keyed) Step() (busy bool, err error) {
	busy, err = k.Keyed.Step()
	if err != nil {
		return busy, err
	}
	more, err := k.sweep.step()
	return busy || more, err
}

// moment is now and the stamp of a write, by the domain of a state.
func (k *Keyed) moment(p *policy) (now, stamp int64) {
	if p.Domain == abi.DomainProcessing {
		return k.at.Processing, k.at.Processing
	}
	return k.at.Event, k.at.Stamp
}

// moments is moment for key i of the batch.
func (k *Keyed) moments(p *policy, i int) (now, stamp int64) {
	if p.Domain == abi.DomainProcessing {
		return k.at.Processing, k.at.Processing
	}
	return k.times[i], k.stamps[i]
}

// since is the stamp an entry ages from; noStamp: from the first watermark, which is still to come.
func (k *Keyed) since(stamp int64) int64 {
	if stamp == noStamp {
		return k.first
	}
	return stamp
}

func (k *Keyed) expired(p *policy, stamp, now int64) bool {
	s := k.since(stamp)
	return s != noStamp && now >= p.expiry(s)
}

// arm makes the calendar remember an entry.
func (k *Keyed) arm(p *policy, key state.Key, stamp int64) error {
	at := int64(noStamp) // due at the first watermark, which tells the rest
	if s := k.since(stamp); s != noStamp {
		at = p.alarm(p.expiry(s))
	}
	return k.cal.Set(p.Domain, key, p.name, at)
}

// Freeze implements state.Keyed: the snapshot says which states have stamps.
func (k *Keyed) Freeze() (state.Frozen, error) {
	f, err := k.Keyed.Freeze()
	if err != nil {
		return nil, err
	}
	return &frozen{f, k.notes}, nil
}

type frozen struct {
	state.Frozen
	notes map[string]*state.TTLNote
}

// Result implements state.Frozen.
func (f *frozen) Result() (state.Snapshot, error) {
	s, err := f.Frozen.Result()
	if err != nil {
		return s, err
	}
	states := make([]state.StateSnapshot, len(s.States))
	for i, x := range s.States {
		if x.Kind == string(abi.StateValue) || x.Kind == string(abi.StateMap) || x.Kind == string(abi.StateList) {
			x.TTL = f.notes[x.Name]
		}
		states[i] = x
	}
	s.States = states
	return s, nil
}
