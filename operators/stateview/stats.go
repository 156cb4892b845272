package stateview

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"slices"
	"sort"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint/snapread"
	"github.com/millrace-io/millrace/state"
)

// Stats sum up one state.
type Stats struct {
	Info
	Live       int64     `json:"entries"`
	Keys       int64     `json:"keys"`
	LiveBytes  int64     `json:"bytes"` // of keys and values
	KeySizes   Sizes     `json:"key_bytes"`
	ValueSizes Sizes     `json:"value_bytes"`
	Largest    []KeySize `json:"largest_keys"`
	Slots      Slots     `json:"slots"`
	TTL        *TTL      `json:"ttl,omitempty"`
}

// Sizes are quantiles of sizes in bytes, exact up to 1 KiB, above at most 1 % too high.
type Sizes struct {
	Median int `json:"p50"`
	P90    int `json:"p90"`
	P99    int `json:"p99"`
	Most   int `json:"max"`
}

// KeySize is a key and what all its entries take.
type KeySize struct {
	Key     json.RawMessage `json:"key"`
	Entries int64           `json:"entries"`
	Bytes   int64           `json:"bytes"`
}

// Slots say how entries spread over the 65,536 slots.
type Slots struct {
	Used int   `json:"used"`
	Slot int   `json:"fullest"` // its number
	Most int64 `json:"most"`    // entries of the fullest
	// Skew is the fullest slot's entries over the mean of those that have any; 1: all are alike.
	Skew float64 `json:"skew"`
}

// TTL says how much of a state has expired.
type TTL struct {
	Millis  int64  `json:"ms"`
	Domain  string `json:"domain"`
	AsOf    int64  `json:"as_of_ms"`        // the watermark of the operator, or when the snapshot was made
	Expired int64  `json:"expired_entries"` // hidden from functions, not removed yet
	Waiting int64  `json:"unstamped"`       // age from a watermark that had not come
}

// Stats reads the states of a query through and sums them up. Limit and After do not count.
func (v *View) Stats(ctx context.Context, q Query, largest int) ([]Stats, error) {
	q.Limit, q.After = 0, ""
	states, err := v.match(q)
	if err != nil {
		return nil, err
	}
	infos := v.States()
	var out []Stats
	for _, x := range states {
		i := slices.IndexFunc(infos, func(i Info) bool { return i.Operator == x.Operator && i.State == x.Name })
		s := sums{v: v, x: x, most: largest, out: Stats{Info: infos[i], Largest: []KeySize{}}}
		s.ttl()
		w := walk{v: v, q: q}
		if _, err := w.state(ctx, x, nil, s.add); err != nil {
			return nil, err
		}
		out = append(out, s.done())
	}
	return out, nil
}

// sums are the running sums of one state.
type sums struct {
	v            *View
	x            *snapread.State
	out          Stats
	most         int
	keys, values histogram
	key          []byte
	one          KeySize
	hasKey       bool
	slot         state.Slot
	inSlot       int64
	now          int64
}

func (s *sums) ttl() {
	t := s.x.TTL
	if t == nil {
		return
	}
	s.now = s.v.snap.Manifest().CreatedMS
	if t.Domain == abi.DomainEvent {
		s.now = abi.MinWatermark
		if w, ok := s.x.Watermark(); ok {
			s.now = w
		}
	}
	s.out.TTL = &TTL{Millis: t.MS, Domain: domains[t.Domain], AsOf: s.now}
}

func (s *sums) add(d *decoder, e *snapread.Entry) error {
	if !s.hasKey || !bytes.Equal(s.key, e.Key) {
		s.endKey(d)
		s.key = append(s.key[:0], e.Key...)
		s.hasKey = true
		s.keys.add(len(e.Key))
	}
	if s.out.Live == 0 || e.Slot() != s.slot {
		s.endSlot()
		s.slot = e.Slot()
	}
	s.inSlot++
	size := int64(len(e.Key) + len(e.UserKey) + len(e.Value))
	if e.Timer != nil {
		size += int64(len(e.Timer.Name)) + 9
	}
	s.out.Live++
	s.out.LiveBytes += size
	s.one.Entries++
	s.one.Bytes += size
	s.values.add(len(e.Value))
	if t := s.out.TTL; t != nil {
		at, ok := d.expiry(e)
		switch {
		case !ok:
			t.Waiting++
		case at <= s.now:
			t.Expired++
		}
	}
	return nil
}

func (s *sums) endKey(d *decoder) {
	if !s.hasKey {
		return
	}
	s.out.Keys++
	l := s.out.Largest
	if len(l) == s.most && (s.most == 0 || l[len(l)-1].Bytes >= s.one.Bytes) {
		s.one = KeySize{}
		return
	}
	s.one.Key = d.appendKey(nil, s.key)
	at := sort.Search(len(l), func(i int) bool { return l[i].Bytes < s.one.Bytes })
	l = slices.Insert(l, at, s.one)
	s.out.Largest = l[:min(len(l), s.most)]
	s.one = KeySize{}
}

func (s *sums) endSlot() {
	if s.inSlot == 0 {
		return
	}
	s.out.Slots.Used++
	if s.inSlot > s.out.Slots.Most {
		s.out.Slots.Most, s.out.Slots.Slot = s.inSlot, int(s.slot)
	}
	s.inSlot = 0
}

func (s *sums) done() Stats {
	s.endKey(s.v.decoder(s.x))
	s.endSlot()
	s.out.KeySizes, s.out.ValueSizes = s.keys.sizes(), s.values.sizes()
	if n := s.out.Slots.Used; n > 0 {
		s.out.Slots.Skew = float64(s.out.Slots.Most) * float64(n) / float64(s.out.Live)
	}
	return s.out
}

// histogram counts sizes: each below 1 KiB by itself, above in steps of less than 1 %.
type histogram struct {
	counts map[int]int64
	n      int64
	most   int
}

const exactSizes = 1 << 10

func (h *histogram) add(size int) {
	if h.counts == nil {
		h.counts = map[int]int64{}
	}
	h.n++
	h.most = max(h.most, size)
	h.counts[roundSize(size)]++
}

// roundSize keeps the first 7 bits behind the leading one, rounded up.
func roundSize(size int) int {
	if size < exactSizes {
		return size
	}
	step := 1
	for size>>8 >= step {
		step *= 2
	}
	return (size + step - 1) / step * step
}

func (h *histogram) sizes() Sizes {
	var all []int
	for s := range h.counts {
		all = append(all, s)
	}
	slices.Sort(all)
	at := func(q float64) int {
		rank, seen := int64(math.Ceil(q*float64(h.n))), int64(0)
		for _, s := range all {
			if seen += h.counts[s]; seen >= rank {
				return min(s, h.most)
			}
		}
		return 0
	}
	return Sizes{at(0.5), at(0.9), at(0.99), h.most}
}
