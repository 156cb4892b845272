package ordered

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/millrace-io/millrace/state"
)

// TestSegmentIsSorted compares the order of a sealed log's records, some of them void, with that of a plain
// sort, for hashes that are spread, narrow, few and one.
func TestSegmentIsSorted(t *testing.T) {
	seed := rand.Int63()
	r := rand.New(rand.NewSource(seed))
	hashes := map[string]func() uint64{
		"spread": r.Uint64,
		"narrow": func() uint64 { return 7<<48 + r.Uint64()>>40 },
		"few":    func() uint64 { return uint64(r.Intn(3)) << 62 },
		"one":    func() uint64 { return 1<<64 - 1 },
	}
	for name, hash := range hashes {
		for _, n := range []int{1, 5, 1000, 30_000} {
			var l opLog
			var want [][]byte // composite key | ordinal
			var at []logAt
			for i := range n {
				comp := binary.BigEndian.AppendUint64(nil, hash())
				comp = fmt.Appendf(comp, "%d", r.Intn(50))
				v := binary.BigEndian.AppendUint32(nil, uint32(i))
				if err := l.reserve(len(comp), len(v)); err != nil {
					t.Fatal(err)
				}
				at = append(at, l.next())
				l.append(comp, v, kindValue)
				want = append(want, append(comp, v...))
			}
			for i := range want {
				if r.Intn(3) == 0 && l.n > 1 {
					l.void(at[i], 1<<20)
					want[i] = nil
				}
			}
			want = slices.DeleteFunc(want, func(b []byte) bool { return b == nil })
			slices.SortFunc(want, func(a, b []byte) int {
				x, y := len(a)-4, len(b)-4
				if c := bytes.Compare(a[:x], b[:y]); c != 0 {
					return c
				}
				return bytes.Compare(a[x:], b[y:])
			})
			s := l.seal()
			for i, ref := range s.sorted() {
				comp, v, _ := s.record(ref)
				if got := append(slices.Clone(comp), v...); !bytes.Equal(got, want[i]) {
					t.Fatalf("seed %d, %d %s hashes: record %d is %x, expected %x", seed, n, name, i, got, want[i])
				}
			}
			s.close()
			l.close()
		}
	}
}

// TestFiredTimersLeaveTheLog: timers that are set and fire between two cuts are in no snapshot, and their log
// stays as large as what waits; those of the snapshot before are removed from the next one.
func TestFiredTimersLeaveTheLog(t *testing.T) {
	cfg := config(t, false, 0)
	tm := openTimers(t, cfg)
	var kb [16]byte
	set := func(i int, at int64) {
		t.Helper()
		if err := tm.Set(0, key(cfg.Hasher, numbered(kb[:], i)), nil, at); err != nil {
			t.Fatal(err)
		}
	}
	fire := func(upTo int64, want int) {
		t.Helper()
		var into []state.Timer
		n := 0
		for {
			var err error
			if into, err = tm.Due(0, upTo, 100, into); err != nil {
				t.Fatal(err)
			}
			if n += len(into); len(into) == 0 {
				break
			}
		}
		if n != want {
			t.Fatalf("%d timers fired at %d, expected %d", n, upTo, want)
		}
	}
	const rounds, each = 500, 1000
	for i := range rounds {
		for j := range each {
			set(j, int64(i)*1000+int64(j))
		}
		fire(int64(i)*1000+999, each)
		if b := tm.log.bytes; b > 4*logChunk {
			t.Fatalf("round %d: %d bytes of log, nothing waits", i, b)
		}
	}
	if s := freeze(t, tm); len(s.Runs) != 0 {
		t.Fatalf("a snapshot of no timer has runs %v", s.Runs)
	}
	at := int64(rounds * 1000)
	set(1, at+1)
	set(2, at+2)
	freeze(t, tm)
	set(3, at+3)
	fire(at+1, 1) // set before the cut
	set(1, at+1)
	fire(at+1, 1) // and once more behind it
	back := cfg
	back.Dir = t.TempDir()
	back.Restore = []state.RestorePart{{Range: cfg.Range, Snapshot: freeze(t, tm)}}
	tm = openTimers(t, back)
	if tm.Len() != 2 {
		t.Fatalf("%d timers restored, expected 2", tm.Len())
	}
	fire(at+2, 1)
	fire(at+3, 1)
}
