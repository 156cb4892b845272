// Package oracle decides whether a run that was killed many times gave the output of a run that was not.
// It knows nothing of the engine: it recomputes the answer from the input and reads committed files.
//
// Input records are (key, n) with n = 1, 2, 3 ... per key and a time. The pipeline keeps, per key, the
// count of records and the exclusive or of their n, and puts out for each record
//
//	{"key":"k1","count":3,"n":3,"xor":0,"wm":1234}
//
// where wm is the watermark that the record saw: for the records of a key it never falls.
// It also sets one timer per key and second of event time that has records, which puts out how many:
//
//	{"key":"k1","timer":2000,"records":3}
package oracle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
)

// Input is what went in: it is the truth that outputs are held against.
type Input struct {
	Totals map[string]uint64  // records per key, so that n runs from 1 to the total
	Timers map[string][]Timer // those of the key that must fire, rising
	Bad    map[string]string  // lines that must become dead letters, as file:line (byte offset), and the operator that fails
}

// Timer is one that must fire.
type Timer struct {
	At      int64  // ms of event time
	Records uint64 // of the key in the second before
}

// Records is the number of input records.
func (in *Input) Records() (n uint64) {
	for _, t := range in.Totals {
		n += t
	}
	return n
}

// Verdict counts what is wrong with an output. A run is right if Anomalies is 0.
type Verdict struct {
	Records     uint64 // output records of the count, all of them
	Timers      uint64 // output records of timers
	Lost        uint64 // input records without an output
	Duplicated  uint64 // outputs beyond the first of an input record
	Reordered   uint64 // outputs, firsts only, behind one of the same key with a greater n
	WrongState  uint64 // outputs whose count or xor is not that of the records up to n, or of a timer's second
	Alien       uint64 // outputs of a key or n that was never put in
	Malformed   uint64 // lines that are not an output record
	TimersLost  uint64 // timers that never fired
	WentBack    uint64 // records that saw an earlier watermark than one of the same key before them
	TimersTwice uint64 // firings beyond the first, or never set, or out of order

	Letters      uint64 // dead letters, all of them
	LettersLost  uint64 // bad lines without one
	LettersTwice uint64 // beyond the first of a bad line
	LettersAlien uint64 // of lines that are not bad, or from another operator

	Examples []string // the first few, with file and line
}

// Anomalies is the sum of everything that is wrong.
func (v *Verdict) Anomalies() uint64 {
	return v.Lost + v.Duplicated + v.Reordered + v.WrongState + v.Alien + v.Malformed + v.TimersLost + v.TimersTwice + v.WentBack +
		v.LettersLost + v.LettersTwice + v.LettersAlien
}

// Add sums verdicts of several runs.
func (v *Verdict) Add(o *Verdict) {
	v.Records += o.Records
	v.Timers += o.Timers
	v.Lost += o.Lost
	v.Duplicated += o.Duplicated
	v.Reordered += o.Reordered
	v.WrongState += o.WrongState
	v.Alien += o.Alien
	v.Malformed += o.Malformed
	v.TimersLost += o.TimersLost
	v.TimersTwice += o.TimersTwice
	v.WentBack += o.WentBack
	v.Letters += o.Letters
	v.LettersLost += o.LettersLost
	v.LettersTwice += o.LettersTwice
	v.LettersAlien += o.LettersAlien
	v.Examples = append(v.Examples, o.Examples...)
}

const maxExamples = 8

func (v *Verdict) example(format string, args ...any) {
	if len(v.Examples) < maxExamples {
		v.Examples = append(v.Examples, fmt.Sprintf(format, args...))
	}
}

// line is one output record of either form.
type line struct {
	Key     *string `json:"key"`
	Count   *uint64 `json:"count"`
	N       *uint64 `json:"n"`
	Xor     *uint64 `json:"xor"`
	WM      *int64  `json:"wm"`
	Timer   *int64  `json:"timer"`
	Records *uint64 `json:"records"`
}

// keyLog is what came out of one key, in order.
type keyLog struct {
	seen   map[uint64]uint64 // occurrences of each n
	top    uint64            // greatest n so far
	fired  map[int64]uint64
	latest int64
	wm     int64 // greatest that a record saw
}

// Checker holds outputs against an input. Feed it files in the order in which they were committed, then
// call Verdict once.
type Checker struct {
	in   *Input
	keys map[string]*keyLog
	v    Verdict
}

// New makes a checker.
func New(in *Input) *Checker { return &Checker{in: in, keys: map[string]*keyLog{}} }

// File takes the content of one committed file; name is for messages. A last line without its newline
// is malformed: a committed file is whole.
func (c *Checker) File(name string, data []byte) {
	for no := 1; len(data) > 0; no++ {
		l, rest, whole := bytes.Cut(data, []byte("\n"))
		data = rest
		where := fmt.Sprintf("%s:%d", name, no)
		if !whole {
			c.v.Malformed++
			c.v.example("%s: last line is cut off: %q", where, clip(l))
			continue
		}
		if err := c.line(where, l); err != nil {
			c.v.Malformed++
			c.v.example("%s: %v: %q", where, err, clip(l))
		}
	}
}

func clip(b []byte) []byte { return b[:min(len(b), 80)] }

func (c *Checker) line(where string, b []byte) error {
	var l line
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return err
	}
	if d.More() {
		return errors.New("more than one value in a line")
	}
	switch {
	case l.Key == nil:
		return errors.New("no key")
	case l.Timer != nil && l.Records != nil:
		c.timer(where, *l.Key, *l.Timer, *l.Records)
	case l.Count == nil || l.N == nil || l.Xor == nil || l.WM == nil:
		return errors.New("neither count, n, xor and wm nor timer and records")
	default:
		c.record(where, *l.Key, *l.Count, *l.N, *l.Xor)
		c.watermark(where, *l.Key, *l.WM)
	}
	return nil
}

func (c *Checker) log(key string) *keyLog {
	k := c.keys[key]
	if k == nil {
		k = &keyLog{seen: map[uint64]uint64{}, fired: map[int64]uint64{}, latest: -1 << 63, wm: -1 << 63}
		c.keys[key] = k
	}
	return k
}

func (c *Checker) record(where, key string, count, n, xor uint64) {
	c.v.Records++
	if n == 0 || n > c.in.Totals[key] {
		c.v.Alien++
		c.v.example("%s: key %s has no record %d", where, key, n)
		return
	}
	k := c.log(key)
	k.seen[n]++
	switch {
	case k.seen[n] > 1:
		c.v.Duplicated++
		c.v.example("%s: key %s: record %d came out again", where, key, n)
	case n < k.top:
		c.v.Reordered++
		c.v.example("%s: key %s: record %d after %d", where, key, n, k.top)
	}
	k.top = max(k.top, n)
	if count != n || xor != XorUpTo(n) {
		c.v.WrongState++
		c.v.example("%s: key %s record %d: count %d xor %d, expected %d and %d", where, key, n, count, xor, n, XorUpTo(n))
	}
}

func (c *Checker) watermark(where, key string, wm int64) {
	k := c.log(key)
	if wm < k.wm {
		c.v.WentBack++
		c.v.example("%s: key %s: a record saw the watermark %d after one that saw %d", where, key, wm, k.wm)
	}
	k.wm = max(k.wm, wm)
}

func (c *Checker) timer(where, key string, at int64, records uint64) {
	c.v.Timers++
	k := c.log(key)
	k.fired[at]++
	set := c.in.Timers[key]
	i := sort.Search(len(set), func(i int) bool { return set[i].At >= at })
	known := i < len(set) && set[i].At == at
	if !known || k.fired[at] > 1 || at < k.latest {
		c.v.TimersTwice++
		c.v.example("%s: key %s: timer %d: known %v, firing %d, latest before it %d", where, key, at, known, k.fired[at], k.latest)
	} else if records != set[i].Records {
		c.v.WrongState++
		c.v.example("%s: key %s: timer %d tells %d records, expected %d", where, key, at, records, set[i].Records)
	}
	k.latest = max(k.latest, at)
}

// Verdict looks for what never came out and gives the result.
func (c *Checker) Verdict() *Verdict {
	for _, key := range keysOf(c.in.Totals) {
		k := c.log(key)
		if lost := c.in.Totals[key] - uint64(len(k.seen)); lost > 0 {
			c.v.Lost += lost
			c.v.example("key %s: %d of %d records never came out, the first is %d", key, lost, c.in.Totals[key], k.firstMissing())
		}
	}
	for _, key := range keysOf(c.in.Timers) {
		k := c.log(key)
		for _, t := range c.in.Timers[key] {
			if k.fired[t.At] == 0 {
				c.v.TimersLost++
				c.v.example("key %s: timer %d never fired", key, t.At)
			}
		}
	}
	return &c.v
}

func (k *keyLog) firstMissing() uint64 {
	n := uint64(1)
	for k.seen[n] > 0 {
		n++
	}
	return n
}

func keysOf[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// XorUpTo is 1 ^ 2 ^ ... ^ n.
func XorUpTo(n uint64) uint64 {
	switch n % 4 {
	case 0:
		return n
	case 1:
		return 1
	case 2:
		return n + 1
	}
	return 0
}
