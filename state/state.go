// Package state holds keyed state and timers: what an operator's guest or native logic remembers per
// key, under a memory budget, with snapshots that stop the task for a microsecond.
//
// This file is the seam: the interfaces that operators use. Backend (backend.go) implements them over
// the hash-ordered hot table (table/), run files (runs/), the B+tree and calendar queue (ordered/) and,
// for ordered state beyond the budget, Pebble (coldpebble/).
package state

import (
	"errors"

	"github.com/millrace-io/millrace/abi"
)

// Errors of the state layer.
var (
	// ErrCorrupt wraps every checksum or format failure and names the file. It fails the task and is
	// never retried.
	ErrCorrupt = errors.New("state: corrupt")
	// ErrTooLarge says that a key, user key or value exceeds its limit. It is the record's error.
	ErrTooLarge = errors.New("state: too large")
	// ErrStorageFull wraps a failed write for lack of space.
	ErrStorageFull = errors.New("state: storage full")
)

// Key is a current key with its hash (Hasher.Hash of Bytes), computed once per record.
type Key struct {
	Hash  uint64
	Bytes []byte
}

// Pos is a hint where a key's entry is in a hot table; NoPos if it has none. A stale Pos is harmless:
// every method checks it against the key and looks the key up again.
type Pos int32

// NoPos is no hint.
const NoPos Pos = -1

// Value is value state: at most one value per key, under one descriptor, in one task.
//
// Concurrency: the task's goroutine only. An empty value is a value. Store and Remove are atomic for
// the caller: on error nothing changed.
type Value interface {
	// Prefetch brings the entries of all keys into the hot table (keys must be distinct) and fills pos,
	// which has the length of keys. It works in passes so that cache misses overlap.
	Prefetch(keys []Key, pos []Pos) error
	// Load returns the key's value. The slice is borrowed until the next call on this state.
	Load(p Pos, k Key) (v []byte, ok bool, err error)
	// Store sets the key's value, copying v.
	Store(p Pos, k Key, v []byte) error
	// Remove clears the key's value; clearing an absent one is no error.
	Remove(p Pos, k Key) error
	// LoadCells is Load for a batch, into the cells of a block (abi.CellHeader): cell i is at i*stride and
	// gets the value of key i, which pos[i] is the hint for, as Prefetch filled it. A value longer than the
	// descriptor's MaxBytes is an error.
	LoadCells(keys []Key, pos []Pos, cells []byte, stride int) error
	// StoreCells is Store, or Remove, of the cells marked abi.CellChanged, in order; their lengths have
	// been checked against stride. On error the cells before the one at fault are applied.
	StoreCells(keys []Key, pos []Pos, cells []byte, stride int) error
}

// Restored is what a value state offers besides, to build something up from it.
type Restored interface {
	// Restored calls f for every entry the state was restored with, in hash order. Only right after it was
	// opened, before any other call. What f gets is borrowed for the call.
	Restored(f func(k Key, v []byte) error) error
}

// Ordered is map state (and, with sequence numbers as user keys, list state): entries of a key in
// bytewise order of their user key.
type Ordered interface {
	// Get returns an entry; the slice is borrowed until the next call on this state.
	Get(k Key, ukey []byte) (v []byte, ok bool, err error)
	// Put sets an entry, copying ukey and v.
	Put(k Key, ukey, v []byte) error
	// Delete removes an entry; removing an absent one is no error.
	Delete(k Key, ukey []byte) error
	// Clear removes all entries of the key.
	Clear(k Key) error
	// Scan iterates the key's entries with user key >= from, as they are now: later changes are not
	// seen by this iterator (C016). The caller closes it.
	Scan(k Key, from []byte) (Iterator, error)
}

// Iterator walks entries. Next must be called before the first one.
type Iterator interface {
	// Next moves to the next entry; false at the end or on error.
	Next() bool
	// Entry is the current entry; both slices stay valid until Close.
	Entry() (ukey, v []byte)
	// Close frees the iterator and returns the first error met.
	Close() error
}

// Domain is the clock a timer goes by: abi.DomainEvent or abi.DomainProcessing.
type Domain int

// Timer is one registered timer. Identity is (domain, key, name, time).
type Timer struct {
	Key  Key
	Name []byte
	At   int64 // ms
}

// Timers is the timer service of one operator in one task.
type Timers interface {
	// Set registers a timer; registering it again is no change. ErrTooLarge over MaxTimersPerKey.
	Set(d Domain, k Key, name []byte, at int64) error
	// Delete removes a timer; removing an absent one is no error.
	Delete(d Domain, k Key, name []byte, at int64) error
	// Next is the time of the earliest timer of the domain (false: none). It may be earlier than that of
	// any live timer, never later.
	Next(d Domain) (at int64, ok bool)
	// Due removes and returns one round: of each key its earliest timer with At <= upTo, ordered by (At,
	// key bytes, name), at most max of them (a cut-off round's rest comes with the next call; no key
	// twice in a call). Empty: nothing is due. The slices are valid until the next call of Due.
	Due(d Domain, upTo int64, max int, into []Timer) ([]Timer, error)
	// Len is the number of live timers of both domains.
	Len() int
}

// Descriptor is what the backend needs to know of one state of an operator.
type Descriptor struct {
	Name     string
	Kind     abi.StateKind
	Version  int
	MaxBytes int // of one value; 0: abi.MaxStateValueBytes
	TTL      TTL // what package ttl goes by; a backend only opens the calendar for it
}
