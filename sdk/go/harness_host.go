//go:build !wasip1

package millrace

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

type entryKey struct {
	state     int
	key, ukey string // list: ukey is the element's number, 8 bytes big endian
}

type timerKey struct {
	domain    Domain
	time      int64
	key, name string
}

type emitted struct {
	record uint32
	at     int
	frame  []byte
}

type failure struct {
	record  uint32
	message string
}

// testHost is the in-memory host behind a harness.
type testHost struct {
	fn       *Function
	entries  map[entryKey][]byte
	timers   map[timerKey]bool
	counters map[string]int64
	logs     []string
	emitted  []emitted
	failures []failure
	keys     []string
	iters    [][]entryKey

	undo   []func() // of the current record, in order
	cursor int64    // -1: none
	first  uint32
	draws  uint64
}

func (h *testHost) resume(first uint32) { h.first, h.cursor = first, -1 }

func (h *testHost) takeDue(d Domain, until int64) []timerKey {
	earliest := map[string]timerKey{}
	for t := range h.timers {
		if t.domain != d || t.time > until {
			continue
		}
		if e, ok := earliest[t.key]; !ok || compareTimers(t, e) < 0 {
			earliest[t.key] = t
		}
	}
	var due []timerKey
	for _, t := range earliest {
		due = append(due, t)
		delete(h.timers, t)
	}
	slices.SortFunc(due, compareTimers)
	return due
}

func compareTimers(a, b timerKey) int {
	return cmp.Or(cmp.Compare(a.time, b.time), strings.Compare(a.key, b.key), strings.Compare(a.name, b.name))
}

func (h *testHost) key() (string, bool) {
	if h.keys == nil || h.cursor < 0 || h.cursor >= int64(len(h.keys)) {
		return "", false
	}
	return h.keys[h.cursor], true
}

// reach finds the current key for a state that host calls may reach.
func (h *testHost) reach(state uint32, kinds string) (key string, status int32) {
	if int(state) >= len(h.fn.States) {
		return "", statusBadArg
	}
	if _, kind, _ := h.fn.States[state].describe(); prefetched(h.fn.States[state].describe()) || !strings.Contains(kinds, kind) {
		return "", statusBadArg
	}
	key, ok := h.key()
	if !ok {
		return "", statusNoKey
	}
	return key, statusOK
}

func (h *testHost) change(at entryKey, v []byte) {
	old, had := h.entries[at]
	h.undo = append(h.undo, func() {
		delete(h.entries, at)
		if had {
			h.entries[at] = old
		}
	})
	delete(h.entries, at)
	if v != nil {
		h.entries[at] = v
	}
}

func (h *testHost) of(state uint32, key string) []entryKey {
	var list []entryKey
	for e := range h.entries {
		if e.state == int(state) && e.key == key {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b entryKey) int { return strings.Compare(a.ukey, b.ukey) })
	return list
}

func (h *testHost) next(i uint32) uint32 {
	if want := max(int64(h.first), h.cursor+1); int64(i) != want {
		panic(fmt.Sprintf("millrace: next(%d) was called, expected %d", i, want))
	}
	h.cursor = int64(i)
	h.undo, h.iters, h.draws = h.undo[:0], nil, 0
	return 0
}

func (h *testHost) fail(msg string) {
	for i := len(h.undo) - 1; i >= 0; i-- {
		h.undo[i]()
	}
	h.undo = h.undo[:0]
	h.emitted = slices.DeleteFunc(h.emitted, func(e emitted) bool { return e.record == uint32(h.cursor) })
	h.failures = append(h.failures, failure{uint32(h.cursor), msg})
}

func (h *testHost) get(state uint32, ukey, buf []byte) int64 {
	key, s := h.reach(state, "value map")
	if s < 0 {
		return int64(s)
	}
	v, ok := h.entries[entryKey{int(state), key, string(ukey)}]
	if !ok {
		return int64(statusAbsent)
	}
	if len(v) <= len(buf) {
		copy(buf, v)
	}
	return int64(len(v))
}

func (h *testHost) put(state uint32, ukey, val []byte) int32 {
	key, s := h.reach(state, "value map")
	if s >= 0 && len(val) > maxStateValueBytes {
		s = statusLimit
	}
	if s >= 0 {
		h.change(entryKey{int(state), key, string(ukey)}, append([]byte{}, val...))
	}
	return s
}

func (h *testHost) remove(state uint32, ukey []byte) int32 {
	key, s := h.reach(state, "value map")
	if s >= 0 {
		h.change(entryKey{int(state), key, string(ukey)}, nil)
	}
	return s
}

func (h *testHost) clear(state uint32) int32 {
	key, s := h.reach(state, "value list map")
	if s >= 0 {
		for _, e := range h.of(state, key) {
			h.change(e, nil)
		}
	}
	return s
}

func (h *testHost) append(state uint32, val []byte) int32 {
	key, s := h.reach(state, "list")
	if s >= 0 {
		n := binary.BigEndian.AppendUint64(nil, uint64(len(h.of(state, key))))
		h.change(entryKey{int(state), key, string(n)}, append([]byte{}, val...))
	}
	return s
}

func (h *testHost) scan(state uint32, from []byte) int32 {
	key, s := h.reach(state, "list map")
	if s < 0 {
		return s
	}
	list := slices.DeleteFunc(h.of(state, key), func(e entryKey) bool { return e.ukey < string(from) })
	h.iters = append(h.iters, append([]entryKey{}, list...))
	return int32(len(h.iters) - 1)
}

func (h *testHost) scanNext(iter uint32, buf []byte) int32 {
	if int(iter) >= len(h.iters) || h.iters[iter] == nil {
		return statusBadArg
	}
	at := 0
	for len(h.iters[iter]) > 0 {
		e := h.iters[iter][0]
		v := h.entries[e]
		n := scanEntryHeader + len(e.ukey) + len(v)
		if at+n > len(buf) {
			if at > 0 {
				break
			}
			le.PutUint32(buf, uint32(n))
			return statusTooSmall
		}
		le.PutUint32(buf[at:], uint32(len(e.ukey)))
		le.PutUint32(buf[at+4:], uint32(len(v)))
		copy(buf[at+scanEntryHeader:], e.ukey)
		copy(buf[at+scanEntryHeader+len(e.ukey):], v)
		at += n
		h.iters[iter] = h.iters[iter][1:]
	}
	return int32(at)
}

func (h *testHost) scanClose(iter uint32) int32 {
	if int(iter) >= len(h.iters) || h.iters[iter] == nil {
		return statusBadArg
	}
	h.iters[iter] = nil
	return statusOK
}

func (h *testHost) timer(domain uint32, name string, time int64, set bool) int32 {
	key, ok := h.key()
	switch {
	case !slices.Contains(h.fn.Timers, Domain(domain)):
		return statusBadArg
	case len(name) > maxTimerNameBytes:
		return statusLimit
	case !ok:
		return statusNoKey
	}
	t := timerKey{Domain(domain), time, key, name}
	was := h.timers[t]
	h.undo = append(h.undo, func() {
		delete(h.timers, t)
		if was {
			h.timers[t] = true
		}
	})
	delete(h.timers, t)
	if set {
		h.timers[t] = true
	}
	return statusOK
}

func (h *testHost) emit(frame []byte, at int) int32 {
	if len(frame) > maxRecordBytes {
		return statusLimit
	}
	h.emitted = append(h.emitted, emitted{uint32(h.cursor), at, append([]byte(nil), frame...)})
	return statusOK
}

func (h *testHost) log(_ uint32, line string) {
	n := len(h.logs)
	h.logs = append(h.logs, line)
	h.undo = append(h.undo, func() { h.logs = h.logs[:n] })
}

func (h *testHost) metric(name string, add int64) int32 {
	h.counters[name] += add
	h.undo = append(h.undo, func() { h.counters[name] -= add })
	return statusOK
}

// random is a fixed sequence per record (splitmix64), so that tests repeat.
func (h *testHost) random(b []byte) int32 {
	for i := range b {
		h.draws++
		z := uint64(h.cursor)*0x2545f4914f6cdd1d ^ h.draws
		z *= 0x9e3779b97f4a7c15
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		b[i] = byte(z ^ z>>31)
	}
	return statusOK
}
