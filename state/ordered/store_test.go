package ordered

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/millrace-io/millrace/state"
)

// TestScanBesideClearedKeysReadsLittle is C019 by counting: leaves of the tree and entries of Pebble that
// a scan of a small key reads beside one whose entries were deleted one by one, or cleared.
func TestScanBesideClearedKeysReadsLittle(t *testing.T) {
	const n = 100_000
	for _, cold := range []bool{false, true} {
		for _, clear := range []bool{false, true} {
			t.Run(fmt.Sprintf("cold %v clear %v", cold, clear), func(t *testing.T) {
				cfg := config(t, cold, 1<<20)
				s := openStore(t, cfg, nil)
				a := state.Key{Hash: 5, Bytes: []byte("A")}
				var k [16]byte
				for i := range n {
					if err := s.Put(a, numbered(k[:], i), []byte("value")); err != nil {
						t.Fatal(err)
					}
				}
				// neighbours on both sides, of the same hash
				for _, b := range []string{"@", "B"} {
					if err := s.Put(state.Key{Hash: 5, Bytes: []byte(b)}, nil, nil); err != nil {
						t.Fatal(err)
					}
				}
				if clear {
					if err := s.Clear(a); err != nil {
						t.Fatal(err)
					}
				} else {
					for i := range n {
						if err := s.Delete(a, numbered(k[:], i)); err != nil {
							t.Fatal(err)
						}
					}
				}
				for _, b := range []string{"@", "B"} {
					if entries, leaves, points := scanCost(t, s, state.Key{Hash: 5, Bytes: []byte(b)}); entries != 1 || leaves > 3 || points > 3 {
						t.Errorf("scan of %s: %d entries, %d leaves, %d points in Pebble", b, entries, leaves, points)
					}
				}
				entries, leaves, points := scanCost(t, s, a)
				if entries != 0 || clear && (leaves > 3 || points > 3) {
					t.Errorf("scan of A: %d entries, %d leaves, %d points in Pebble", entries, leaves, points)
				}
			})
		}
	}
}

func scanCost(t *testing.T, s *Store, k state.Key) (entries, leaves, points int) {
	t.Helper()
	i, err := s.Scan(k, nil)
	if err != nil {
		t.Fatal(err)
	}
	it := i.(*iterator)
	for it.Next() {
		entries++
	}
	leaves = it.tree.reads
	if it.cold != nil {
		points = it.cold.PointsRead()
	}
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	return entries, leaves, points
}

// TestMemoryComesBack: a million entries cleared, iterators closed, and next to nothing is held.
func TestMemoryComesBack(t *testing.T) {
	s := openStore(t, config(t, false, 0), nil)
	k := state.Key{Hash: 9, Bytes: []byte("k")}
	var u [16]byte
	for i := range 200_000 {
		if err := s.Put(k, numbered(u[:], i), make([]byte, i%500)); err != nil {
			t.Fatal(err)
		}
	}
	it, err := s.Scan(k, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Clear(k); err != nil {
		t.Fatal(err)
	}
	n := 0
	for it.Next() {
		n++
	}
	if err := it.Close(); err != nil || n != 200_000 {
		t.Fatal(n, err)
	}
	if b := s.l.tree.bytes(); b > 2*pageSize || s.Stats().Entries != 0 {
		t.Fatalf("%d bytes and %d entries after clear", b, s.Stats().Entries)
	}
}

// TestSteadyStateAllocatesNothing is for Get, Put, Set and Due.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	s, tm := openStore(t, config(t, false, 0), nil), openTimers(t, config(t, false, 0))
	h := s.h.cfg.Hasher
	var kb, ub [16]byte
	v := make([]byte, 40)
	now := int64(0)
	into := make([]state.Timer, 0, 64)
	step := func(i int) {
		k := key(h, numbered(kb[:], i%1000))
		if err := s.Put(k, numbered(ub[:], i%7), v); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Get(k, numbered(ub[:], i%5)); err != nil {
			t.Fatal(err)
		}
		if err := tm.Set(0, k, nil, now+1+int64(i%5000)); err != nil {
			t.Fatal(err)
		}
		if i%16 == 0 {
			now += 16
			for due := true; due; due = len(into) > 0 {
				var err error
				if into, err = tm.Due(0, now, 64, into); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for i := range 50_000 {
		step(i)
	}
	freeze(t, s)
	freeze(t, tm)
	i := 0
	// below the size of a log that is handed over: the background does allocate
	if n := testing.AllocsPerRun(20_000, func() { step(i); i++ }); n != 0 {
		t.Fatalf("%v allocations per step", n)
	}
}

// TestBorrowedEntryMayBePut: the slice that Get lends is a good argument for the next call.
func TestBorrowedEntryMayBePut(t *testing.T) {
	s := openStore(t, config(t, true, 64<<10), nil)
	k := state.Key{Hash: 3, Bytes: []byte("k")}
	for i := range 3000 {
		first := fmt.Sprintf("%0*d", 20+i%200, i)
		if err := s.Put(k, fmt.Appendf(nil, "%04d", i*7%1000), []byte(first)); err != nil {
			t.Fatal(err)
		}
		v, _, err := s.Get(k, fmt.Appendf(nil, "%04d", i*7%1000))
		if err != nil {
			t.Fatal(err)
		}
		other := fmt.Appendf(nil, "%04d", i*13%1000)
		if err := s.Put(k, other, v); err != nil {
			t.Fatal(err)
		}
		if v, _, err := s.Get(k, other); err != nil || string(v) != first {
			t.Fatalf("copy of entry %d is %q, want %q (%v)", i, v, first, err)
		}
	}
}

// fullDisk fails writes while full.
type fullDisk struct {
	state.OS
	full bool
}

func (d *fullDisk) Create(path string) (state.File, error) {
	if d.full {
		return nil, syscall.ENOSPC
	}
	return d.OS.Create(path)
}

// TestFullDiskStopsWritersAndLosesNothing: cuts fail with ErrStorageFull, writers get the same error when
// the log has no more room, and once there is space the next cut holds everything (C020, C024).
func TestFullDiskStopsWritersAndLosesNothing(t *testing.T) {
	cfg := config(t, false, 1<<20)
	disk := &fullDisk{}
	cfg.FS = disk
	s := openStore(t, cfg, nil)
	k := state.Key{Hash: 3, Bytes: []byte("k")}
	put := func(i int) error {
		return s.Put(k, fmt.Appendf(nil, "%06d", i), []byte(strings.Repeat("v", 100)))
	}
	n := 0
	for ; n < 100; n++ {
		if err := put(n); err != nil {
			t.Fatal(err)
		}
	}
	freeze(t, s)
	disk.full = true
	for range 2 {
		c, err := s.Freeze()
		if err != nil {
			t.Fatal(err)
		}
		<-c.Done()
		if _, err := c.Result(); n > 100 && !errors.Is(err, state.ErrStorageFull) {
			t.Fatalf("cut on a full disk: %v", err)
		}
		if err := put(n); err != nil {
			t.Fatal(err)
		}
		n++
	}
	var err error
	for ; n < 100_000; n++ {
		if err = put(n); err != nil {
			break
		}
	}
	if !errors.Is(err, state.ErrStorageFull) {
		t.Fatalf("put with a full log on a full disk: %v after %d", err, n)
	}
	disk.full = false
	snap := freeze(t, s)
	again := config(t, false, 0)
	again.Objects = cfg.Objects
	again.Restore = []state.RestorePart{{Range: cfg.Range, Snapshot: snap}}
	if got := openStore(t, again, nil).Stats().Entries; got != int64(n) {
		t.Fatalf("%d entries restored, want %d", got, n)
	}
}

// TestDamagedRunIsNamed: a flipped byte in an object fails the restore with its name.
func TestDamagedRunIsNamed(t *testing.T) {
	cfg := config(t, false, 0)
	s := openStore(t, cfg, nil)
	for i := range 1000 {
		if err := s.Put(state.Key{Hash: uint64(i) << 50, Bytes: []byte("k")}, nil, make([]byte, 50)); err != nil {
			t.Fatal(err)
		}
	}
	snap := freeze(t, s)
	object := snap.Runs[0].Object
	path, err := cfg.Objects.Path(t.Context(), object)
	if err != nil {
		t.Fatal(err)
	}
	flip(t, path)
	again := config(t, false, 0)
	again.Objects = cfg.Objects
	again.Restore = []state.RestorePart{{Range: cfg.Range, Snapshot: snap}}
	if _, err := Open(again, nil); !errors.Is(err, state.ErrCorrupt) || !strings.Contains(err.Error(), object) {
		t.Fatalf("restore of a damaged run: %v", err)
	}
}
