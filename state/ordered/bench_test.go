package ordered

import (
	"encoding/binary"
	"fmt"
	"math/rand"
	"testing"

	"github.com/millrace-io/millrace/state"
)

// numbered writes a 12-byte key for a number into b.
func numbered(b []byte, i int) []byte {
	b = append(b[:0], "key-"...)
	return binary.BigEndian.AppendUint64(b, uint64(i))
}

func BenchmarkStore(b *testing.B) {
	for _, n := range []int{10_000, 1_000_000} {
		s := openStore(b, config(b, false, 0), nil)
		r := rand.New(rand.NewSource(1))
		var kb, ub [16]byte
		v := make([]byte, 16)
		entry := func(i int) (state.Key, []byte) {
			return key(s.h.cfg.Hasher, numbered(kb[:], i/10)), numbered(ub[:], i%10)
		}
		for i := range n {
			k, u := entry(i)
			if err := s.Put(k, u, v); err != nil {
				b.Fatal(err)
			}
		}
		freeze(b, s)
		b.Logf("%d entries: %d bytes each", n, s.l.tree.bytes()/int64(n))
		b.Run(fmt.Sprintf("put/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			end := measure(b)
			for range b.N {
				k, u := entry(r.Intn(n))
				if err := s.Put(k, u, v); err != nil {
					b.Fatal(err)
				}
			}
			end()
		})
		b.Run(fmt.Sprintf("get/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			defer measure(b)()
			for range b.N {
				k, u := entry(r.Intn(n))
				if _, ok, err := s.Get(k, u); !ok || err != nil {
					b.Fatal(ok, err)
				}
			}
		})
		b.Run(fmt.Sprintf("scan-of-10/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			defer measure(b)()
			for range b.N {
				k, _ := entry(r.Intn(n))
				it, err := s.Scan(k, nil)
				if err != nil {
					b.Fatal(err)
				}
				for it.Next() {
				}
				if err := it.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkTenTimesBudget updates map entries uniformly at random in a state of ten times its limit over
// Pebble: a get and a put each.
func BenchmarkTenTimesBudget(b *testing.B) {
	const n = 1_000_000
	s := openStore(b, config(b, true, 10<<20), coldEnvFor(b))
	r := rand.New(rand.NewSource(1))
	var kb, ub [16]byte
	v := make([]byte, 40)
	entry := func(i int) (state.Key, []byte) {
		return key(s.h.cfg.Hasher, numbered(kb[:], i/10)), numbered(ub[:], i%10)
	}
	start := cpuNow()
	for i := range n {
		k, u := entry(i)
		if err := s.Put(k, u, v); err != nil {
			b.Fatal(err)
		}
	}
	st := s.Stats()
	b.Logf("filled: %d CPU ns per put; %d bytes in memory, %d cold", (cpuNow().all-start.all)/n, st.MemBytes, st.ColdBytes)
	b.ReportAllocs()
	end := measure(b)
	for range b.N {
		k, u := entry(r.Intn(n))
		old, ok, err := s.Get(k, u)
		if !ok || err != nil {
			b.Fatal(ok, err)
		}
		copy(v, old)
		v[0]++
		if err := s.Put(k, u, v); err != nil {
			b.Fatal(err)
		}
	}
	end()
}

func BenchmarkTimers(b *testing.B) {
	const span = 60_000
	for _, n := range []int{10_000, 1_000_000} {
		b.Run(fmt.Sprintf("set/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			t := openTimers(b, config(b, false, 0))
			r := rand.New(rand.NewSource(1))
			var kb [16]byte
			end := measure(b)
			for i := range b.N {
				if i%n == 0 {
					now := int64(i / n * 2 * span)
					for due := true; due; {
						into, _ := t.Due(0, now, 1<<20, nil)
						due = len(into) > 0
					}
				}
				k := key(t.h.cfg.Hasher, numbered(kb[:], r.Intn(n)))
				if err := t.Set(0, k, nil, int64(i/n*2*span)+1+int64(r.Intn(span))); err != nil {
					b.Fatal(err)
				}
			}
			end()
		})
		b.Run(fmt.Sprintf("fire+set/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			t := openTimers(b, config(b, false, 0))
			r := rand.New(rand.NewSource(1))
			var kb [16]byte
			set := func(at int64) {
				k := key(t.h.cfg.Hasher, numbered(kb[:], r.Intn(n)))
				if err := t.Set(0, k, nil, at); err != nil {
					b.Fatal(err)
				}
			}
			for range n {
				set(1 + int64(r.Intn(span)))
			}
			into := make([]state.Timer, 0, 256)
			now := int64(0)
			end := measure(b)
			for fired := 0; fired < b.N; {
				now += 15
				for {
					var err error
					if into, err = t.Due(0, now, 256, into); err != nil {
						b.Fatal(err)
					}
					if len(into) == 0 {
						break
					}
					for range into {
						set(now + 1 + int64(r.Intn(span)))
					}
					fired += len(into)
				}
			}
			end()
			b.Logf("%d bytes per timer", (t.bytes()-t.log.bytes)/int64(t.Len()))
		})
	}
}
