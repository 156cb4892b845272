// Package backend is the keyed state of one operator in one task: value states (a hot table over run
// files), ordered states and timers, frozen, limited and closed as one.
package backend

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/state"
)

// Kinds of backends.
const (
	Memory = "memory" // all live state is in memory; the budget is not enforced
	Disk   = "disk"   // beyond the budget state lives in files
)

const (
	kindTimers   = "timers"
	timersName   = "timers"
	expiryName   = "timers.ttl" // no state can have it: they differ in kind
	balanceSteps = 64           // calls of Step between two looks at the budget
)

// OrderedPart is ordered state as the backend needs it.
type OrderedPart interface {
	state.Ordered
	state.Part
}

// TimersPart is a timer service as the backend needs it.
type TimersPart interface {
	state.Timers
	state.Part
}

// Config says what to open. All fields are needed but those with a default.
type Config struct {
	Operator    string
	Descriptors []state.Descriptor
	Range       state.Range
	Hasher      state.Hasher
	Budget      int64  // bytes off heap for all of the operator's state in this task; default 64 MiB
	Dir         string // of local files, of this task alone; emptied first: what a crash left is dirty
	Kind        string // Memory (default) or Disk
	Objects     state.Objects
	Restore     []state.Snapshot // of all tasks of one checkpoint; none: start empty
	FS          state.FS         // default: the real disk
	Log         *slog.Logger     // default: none

	// NewOrdered and NewTimers open the parts that are not value states; they may be nil if there are none.
	NewOrdered func(state.PartConfig) (OrderedPart, error)
	NewTimers  func(state.PartConfig) (TimersPart, error)
}

// Backend implements state.Keyed.
//
// The budget: a part may grow by an equal share of what all parts together leave free, looked at every
// 64 steps; at least it gets a quarter of an equal share of the whole. So the first to need memory has
// it, and together they exceed the budget by a quarter at most, and by the copies of a cut being
// written: the dirty entries once more.
type Backend struct {
	cfg    Config
	values []*valueStore // by descriptor; nil where it is ordered
	order  []OrderedPart
	timers TimersPart
	expiry TimersPart // calendar of entries with a TTL; nil: there are none
	parts  []state.Part
	frozen *frozen
	steps  int
}

var _ state.Keyed = (*Backend)(nil)

// Open opens the state of one operator in one task, empty or restored. The folder is emptied.
//
// Errors: ErrCorrupt, naming a file, for what is damaged; a snapshot that does not fit the descriptors;
// the disk's.
func Open(cfg Config) (*Backend, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	in, err := checkRestore(&cfg)
	if err != nil {
		return nil, err
	}
	if err := cfg.FS.RemoveAll(cfg.Dir); err != nil {
		return nil, state.StorageError("empty", cfg.Dir, err)
	}
	b := &Backend{cfg: cfg}
	b.values = make([]*valueStore, len(cfg.Descriptors))
	b.order = make([]OrderedPart, len(cfg.Descriptors))
	for i, d := range cfg.Descriptors {
		if err := b.open(i, d, in); err != nil {
			return nil, errors.Join(err, b.Close())
		}
	}
	if cfg.NewTimers != nil {
		if b.timers, err = b.openTimers(timersName, 0, in); err != nil {
			return nil, errors.Join(err, b.Close())
		}
	}
	if slices.ContainsFunc(cfg.Descriptors, func(d state.Descriptor) bool { return d.TTL.MS > 0 }) {
		if b.expiry, err = b.openTimers(expiryName, 1, in); err != nil {
			return nil, errors.Join(err, b.Close())
		}
	}
	b.balance()
	return b, nil
}

// openTimers opens the n-th timer service.
func (b *Backend) openTimers(name string, n int, in []state.Snapshot) (TimersPart, error) {
	pc, err := b.partConfig(len(b.cfg.Descriptors)+n, state.Descriptor{Name: name, Kind: kindTimers}, in)
	if err != nil {
		return nil, err
	}
	t, err := b.cfg.NewTimers(pc)
	if err != nil {
		return nil, err
	}
	b.parts = append(b.parts, t)
	return t, nil
}

func (cfg *Config) validate() error {
	if cfg.Kind == "" {
		cfg.Kind = Memory
	}
	if cfg.Budget == 0 {
		cfg.Budget = 64 << 20
	}
	if cfg.FS == nil {
		cfg.FS = state.OS{}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	switch {
	case cfg.Kind != Memory && cfg.Kind != Disk:
		return fmt.Errorf("state backend %q: expected %s or %s", cfg.Kind, Memory, Disk)
	case cfg.Dir == "" || cfg.Objects == nil:
		return fmt.Errorf("state of operator %q: no folder or no snapshot store", cfg.Operator)
	case cfg.Range.Hi <= cfg.Range.Lo || cfg.Range.Hi > state.Slots:
		return fmt.Errorf("state of operator %q: slots [%d, %d) are no range", cfg.Operator, cfg.Range.Lo, cfg.Range.Hi)
	}
	names := map[string]bool{timersName: cfg.NewTimers != nil}
	for _, d := range cfg.Descriptors {
		if names[d.Name] {
			return fmt.Errorf("operator %q declares state %q twice", cfg.Operator, d.Name)
		}
		names[d.Name] = true
		if d.TTL.MS > 0 && cfg.NewTimers == nil {
			return fmt.Errorf("state %q of operator %q: no timers for its TTL", d.Name, cfg.Operator)
		}
		if d.Kind != abi.StateValue && cfg.NewOrdered == nil {
			return fmt.Errorf("state %q of operator %q: no store for kind %s", d.Name, cfg.Operator, d.Kind)
		}
	}
	return nil
}

func (b *Backend) partConfig(i int, d state.Descriptor, in []state.Snapshot) (state.PartConfig, error) {
	cfg := &b.cfg
	pc := state.PartConfig{
		Operator: cfg.Operator, Descriptor: d, Range: cfg.Range, Hasher: cfg.Hasher,
		Dir:  filepath.Join(cfg.Dir, fmt.Sprintf("state-%02d", i)),
		Cold: cfg.Kind == Disk, Limit: cfg.Budget / int64(len(cfg.Descriptors)+1),
		FS: cfg.FS, Objects: cfg.Objects, Log: cfg.Log,
		Restore: restoreParts(in, d.Name, string(d.Kind)),
	}
	return pc, state.StorageError("make", pc.Dir, cfg.FS.MkdirAll(pc.Dir))
}

func (b *Backend) open(i int, d state.Descriptor, in []state.Snapshot) error {
	pc, err := b.partConfig(i, d, in)
	if err != nil {
		return err
	}
	if d.Kind == abi.StateValue {
		v, err := newValueStore(pc)
		if err != nil {
			return fmt.Errorf("state %q of operator %q: %w", d.Name, b.cfg.Operator, err)
		}
		b.values[i] = v
		b.parts = append(b.parts, v)
		return nil
	}
	o, err := b.cfg.NewOrdered(pc)
	if err != nil {
		return fmt.Errorf("state %q of operator %q: %w", d.Name, b.cfg.Operator, err)
	}
	b.order[i] = o
	b.parts = append(b.parts, o)
	return nil
}

// Value implements state.Keyed; it panics if descriptor i is of another kind.
func (b *Backend) Value(i int) state.Value {
	if b.values[i] == nil {
		panic(fmt.Sprintf("state %q of operator %q is not a value", b.cfg.Descriptors[i].Name, b.cfg.Operator))
	}
	return b.values[i]
}

// Ordered implements state.Keyed; it panics if descriptor i is a value.
func (b *Backend) Ordered(i int) state.Ordered {
	if b.order[i] == nil {
		panic(fmt.Sprintf("state %q of operator %q is a value", b.cfg.Descriptors[i].Name, b.cfg.Operator))
	}
	return b.order[i]
}

// Timers implements state.Keyed; nil if the backend was opened without.
func (b *Backend) Timers() state.Timers {
	if b.timers == nil {
		return nil
	}
	return b.timers
}

// Expiry implements state.Expiring.
func (b *Backend) Expiry() state.Timers {
	if b.expiry == nil {
		return nil
	}
	return b.expiry
}

// Freeze implements state.Keyed.
func (b *Backend) Freeze() (state.Frozen, error) {
	if b.frozen != nil {
		select {
		case <-b.frozen.done:
		default:
			return nil, fmt.Errorf("state of operator %q: a freeze while the one before it is not done", b.cfg.Operator)
		}
	}
	f := &frozen{slots: b.cfg.Range, done: make(chan struct{})}
	for _, p := range b.parts {
		c, err := p.Freeze()
		if err != nil {
			return nil, err
		}
		f.cuts = append(f.cuts, c)
	}
	b.frozen = f
	go f.wait()
	return f, nil
}

// Step implements state.Keyed: one step of one part per call, so that a call stays short with many parts.
func (b *Backend) Step() (busy bool, err error) {
	if b.steps++; b.steps%balanceSteps == 0 {
		b.balance()
	}
	for _, p := range b.parts {
		if busy, err = p.Step(); busy || err != nil {
			return busy, err
		}
	}
	return false, nil
}

// balance gives each part its limit; see Backend.
func (b *Backend) balance() {
	if b.cfg.Kind != Disk || len(b.parts) == 0 {
		return
	}
	n := int64(len(b.parts))
	used := make([]int64, len(b.parts))
	free := b.cfg.Budget
	for i, p := range b.parts {
		used[i] = p.Stats().MemBytes
		free -= used[i]
	}
	for i, p := range b.parts {
		p.Limit(max(used[i]+free/n, b.cfg.Budget/(4*n)))
	}
}

// Committed implements state.Keyed.
func (b *Backend) Committed(s state.Snapshot) {
	for i, p := range b.parts {
		if i < len(s.States) {
			p.Committed(s.States[i])
		}
	}
}

// Stats implements state.Keyed.
func (b *Backend) Stats() state.Stats {
	var all state.Stats
	for _, p := range b.parts {
		s := p.Stats()
		if p == b.expiry { // not what the operator calls a timer
			s.Timers, s.Entries = 0, 0
		}
		all.Entries += s.Entries
		all.MemBytes += s.MemBytes
		all.ColdBytes += s.ColdBytes
		all.Timers += s.Timers
		all.Evictions += s.Evictions
		all.ColdReads += s.ColdReads
		all.OpenIters += s.OpenIters
		all.MergeBytes += s.MergeBytes
	}
	return all
}

// Close implements state.Keyed: it waits for background work, fails a cut that is not done and removes
// the local files that no snapshot took over.
func (b *Backend) Close() error {
	var errs []error
	for _, p := range b.parts {
		errs = append(errs, p.Close())
	}
	b.parts = nil
	return errors.Join(append(errs, state.StorageError("empty", b.cfg.Dir, b.cfg.FS.RemoveAll(b.cfg.Dir)))...)
}

// frozen implements state.Frozen over the cuts of the parts.
type frozen struct {
	slots  state.Range
	cuts   []state.Cut
	done   chan struct{}
	result state.Snapshot
	err    error
}

func (f *frozen) wait() {
	f.result.Range = f.slots
	for _, c := range f.cuts {
		<-c.Done()
		s, err := c.Result()
		f.err = errors.Join(f.err, err)
		f.result.States = append(f.result.States, s)
	}
	if f.err != nil {
		f.result = state.Snapshot{}
	}
	close(f.done)
}

func (f *frozen) Done() <-chan struct{} { return f.done }

func (f *frozen) Result() (state.Snapshot, error) { return f.result, f.err }
