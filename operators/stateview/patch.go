package stateview

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint/snapread"
	"github.com/millrace-io/millrace/state/schema"
)

// A patch is rows, as Scan gives them: each sets an entry. With "delete":true it removes it; for a map or list
// without "entry" or "index" all of the key's. A list's element without "index" is appended. "expires",
// "problem" and "slot" are passed over, so that what was read can be written back.

// maxPatchLine bounds a line of a patch, bytes.
const maxPatchLine = 16 << 20

// Problem is what is wrong with a line of a patch.
type Problem struct {
	Line int    `json:"line"`
	Text string `json:"text"`
}

// PatchError is everything that is wrong with a patch.
type PatchError struct {
	Source   string // what the lines are of
	Problems []Problem
}

// shownProblems is how many problems an error's text has.
const shownProblems = 100

// Error implements error.
func (e *PatchError) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i == shownProblems {
			fmt.Fprintf(&b, "\nand %d more", len(e.Problems)-i)
			break
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s:%d: %s", e.Source, p.Line, p.Text)
	}
	return b.String()
}

// Unwrap says that it is a bad query.
func (e *PatchError) Unwrap() error { return ErrQuery }

// patchLine is a line of a patch.
type patchLine struct {
	Operator string          `json:"operator"`
	State    string          `json:"state"`
	Key      json.RawMessage `json:"key"`
	Entry    json.RawMessage `json:"entry"`
	Index    *uint64         `json:"index"`
	Value    json.RawMessage `json:"value"`
	Timer    *struct {
		Domain string          `json:"domain"`
		Name   json.RawMessage `json:"name"`
		At     json.RawMessage `json:"at"`
	} `json:"timer"`
	Delete  bool            `json:"delete"`
	Expires json.RawMessage `json:"expires"`
	Problem json.RawMessage `json:"problem"`
	Slot    json.RawMessage `json:"slot"`
}

// change is a checked line: an entry of a run.
type change struct {
	line   int
	hash   uint64
	key    []byte // as in runs
	value  []byte // with its stamp
	remove bool
}

// Patch is a checked patch of a snapshot.
type Patch struct {
	view    *View
	changes map[*snapread.State][]change
	Set     int `json:"set"`
	Removed int `json:"removed"`
	Lines   int `json:"lines"`
}

// ReadPatch reads and checks a patch. Errors: *PatchError with all problems; damage; r's.
func (v *View) ReadPatch(ctx context.Context, source string, r io.Reader) (*Patch, error) {
	p := &patcher{ctx: ctx, v: v, patch: &Patch{view: v, changes: map[*snapread.State][]change{}}, seen: map[string]int{}, next: map[string]uint64{}, timers: map[string]int{}}
	defer p.close()
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxPatchLine)
	for lines.Scan() {
		p.line++
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		p.patch.Lines++
		if err := p.take(lines.Bytes()); err != nil {
			if !errors.Is(err, errLine) {
				return nil, err
			}
			p.problems = append(p.problems, Problem{p.line, strings.TrimPrefix(err.Error(), errLine.Error()+": ")})
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%w: %s:%d: %w", ErrQuery, source, p.line+1, err)
	}
	if p.patch.Lines == 0 && len(p.problems) == 0 {
		p.problems = append(p.problems, Problem{1, "there is no line in it"})
	}
	if len(p.problems) > 0 {
		return nil, &PatchError{source, p.problems}
	}
	return p.patch, nil
}

// errLine is wrapped by what is wrong with a line; other errors end the reading.
var errLine = errors.New("line")

func wrong(format string, args ...any) error {
	return fmt.Errorf("%w: %w", errLine, fmt.Errorf(format, args...))
}

// patcher checks lines.
type patcher struct {
	ctx      context.Context
	v        *View
	patch    *Patch
	line     int
	problems []Problem
	seen     map[string]int    // line that changes an entry
	next     map[string]uint64 // number of a list's next element
	timers   map[string]int    // a key's timers
	readers  map[*snapread.State]*snapread.Reader
}

func (p *patcher) close() {
	for _, r := range p.readers {
		_ = r.Close() // munmap of what was mapped
	}
}

// reader of a state, opened once.
func (p *patcher) reader(x *snapread.State) (*snapread.Reader, error) {
	if r := p.readers[x]; r != nil {
		return r, nil
	}
	r, err := x.Open(p.ctx, 0, ^uint64(0))
	if err != nil {
		return nil, err
	}
	if p.readers == nil {
		p.readers = map[*snapread.State]*snapread.Reader{}
	}
	p.readers[x] = r
	return r, nil
}

// find is the entry of a user key (timers: of their identity); nil: there is none.
func (p *patcher) find(x *snapread.State, key, rest []byte) (*snapread.Entry, error) {
	r, err := p.reader(x)
	if err != nil {
		return nil, err
	}
	c := r.Key(p.ctx, key)
	for c.Next() {
		if e := c.Entry(); bytes.Equal(appendRest(nil, e), rest) {
			found := *e
			return &found, nil
		}
	}
	return nil, c.Err()
}

// any says whether a key has an entry.
func (p *patcher) any(x *snapread.State, key []byte) (bool, error) {
	r, err := p.reader(x)
	if err != nil {
		return false, err
	}
	c := r.Key(p.ctx, key)
	return c.Next(), c.Err()
}

func (p *patcher) take(text []byte) error {
	var l patchLine
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return wrong("not a row: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return wrong("more than one JSON value")
	}
	x, err := p.v.snap.Find(l.Operator, l.State)
	if err != nil {
		return wrong("%w", err)
	}
	if l.Key == nil {
		return wrong("no key")
	}
	key, err := encodeKey(l.Key, len(x.KeyFields()))
	if err != nil {
		return wrong("key: %w", err)
	}
	if len(key) > abi.MaxKeyBytes {
		return wrong("a key of %d bytes, at most %d", len(key), abi.MaxKeyBytes)
	}
	if l.Delete && l.Value != nil {
		l.Value = nil // a row that was read, with delete
	}
	dec := p.v.decoder(x)
	if dec.problem != "" {
		return wrong("%s", dec.problem)
	}
	switch {
	case x.Kind == snapread.KindTimers:
		return p.timer(x, key, &l)
	case l.Timer != nil:
		return wrong("a timer for the %s state %s.%s", x.Kind, x.Operator, x.Name)
	case dec.windows != nil:
		return p.windows(x, dec, key, &l)
	case x.Kind == "value":
		return p.value(x, dec, key, &l)
	case x.Kind == "list":
		return p.element(x, dec, key, &l)
	}
	return p.entry(x, dec, key, &l)
}

// encode is the bytes of a line's value, checked against the state's limit.
func (p *patcher) encode(x *snapread.State, dec *decoder, value json.RawMessage) ([]byte, error) {
	if value == nil {
		return nil, wrong("no value; to remove the entry say \"delete\":true")
	}
	b, err := dec.value.Encode(nil, value)
	if err != nil {
		return nil, wrong("value of %s.%s: %w", x.Operator, x.Name, err)
	}
	most := abi.MaxStateValueBytes
	if x.Ref != nil && x.Ref.State.MaxBytes > 0 {
		most = x.Ref.State.MaxBytes
	}
	if len(b) > most {
		return nil, wrong("a value of %d bytes, %s.%s takes at most %d", len(b), x.Operator, x.Name, most)
	}
	return b, nil
}

func (p *patcher) value(x *snapread.State, dec *decoder, key []byte, l *patchLine) error {
	if l.Entry != nil || l.Index != nil {
		return wrong("%s.%s is a value: its keys have no entries", x.Operator, x.Name)
	}
	old, err := p.find(x, key, nil)
	if err != nil {
		return err
	}
	if l.Delete {
		if old == nil {
			return wrong("%s.%s has no key %s to delete", x.Operator, x.Name, l.Key)
		}
		return p.add(x, change{hash: p.v.snap.Hash(key), key: key, remove: true}, "")
	}
	b, err := p.encode(x, dec, l.Value)
	if err != nil {
		return err
	}
	return p.add(x, change{hash: p.v.snap.Hash(key), key: key, value: stamped(x, old, b)}, "")
}

// stamped puts a stamp before the value of a state with a TTL: that of the entry before, else none, so that it
// ages from the next watermark on.
func stamped(x *snapread.State, old *snapread.Entry, b []byte) []byte {
	if x.TTL == nil {
		return b
	}
	stamp := abi.MinWatermark
	if old != nil {
		stamp = old.Stamp
	}
	return append(binary.LittleEndian.AppendUint64(nil, uint64(stamp)), b...)
}

func (p *patcher) entry(x *snapread.State, dec *decoder, key []byte, l *patchLine) error {
	if l.Index != nil {
		return wrong("%s.%s is a map: its entries have an \"entry\"", x.Operator, x.Name)
	}
	if l.Entry == nil {
		return p.all(x, key, l)
	}
	ukey, err := dec.ukey.Encode(nil, l.Entry)
	if err != nil {
		return wrong("entry of %s.%s: %w", x.Operator, x.Name, err)
	}
	if len(ukey) > abi.MaxKeyBytes {
		return wrong("an entry's key of %d bytes, at most %d", len(ukey), abi.MaxKeyBytes)
	}
	return p.put(x, dec, key, ukey, l)
}

// put sets or removes the entry of a user key.
func (p *patcher) put(x *snapread.State, dec *decoder, key, ukey []byte, l *patchLine) error {
	old, err := p.find(x, key, ukey)
	if err != nil {
		return err
	}
	k := snapread.CompositeKey(key, ukey)
	if l.Delete {
		if old == nil {
			return wrong("%s.%s has no such entry under key %s to delete", x.Operator, x.Name, l.Key)
		}
		return p.add(x, change{hash: p.v.snap.Hash(key), key: k, remove: true}, "")
	}
	b, err := p.encode(x, dec, l.Value)
	if err != nil {
		return err
	}
	return p.add(x, change{hash: p.v.snap.Hash(key), key: k, value: stamped(x, old, b)}, "")
}

// all removes everything a key has.
func (p *patcher) all(x *snapread.State, key []byte, l *patchLine) error {
	if !l.Delete {
		return wrong("%s.%s is a %s: which entry?", x.Operator, x.Name, x.Kind)
	}
	has, err := p.any(x, key)
	if err != nil {
		return err
	}
	if !has {
		return wrong("%s.%s has no key %s to delete", x.Operator, x.Name, l.Key)
	}
	p.next[x.Operator+"\x00"+x.Name+"\x00"+string(key)] = 0
	return p.add(x, change{hash: p.v.snap.Hash(key), key: snapread.ClearedKey(key), remove: true}, "all of ")
}

func (p *patcher) element(x *snapread.State, dec *decoder, key []byte, l *patchLine) error {
	if l.Entry != nil {
		return wrong("%s.%s is a list: its elements have an \"index\"", x.Operator, x.Name)
	}
	if l.Index == nil && l.Delete {
		return p.all(x, key, l)
	}
	name := x.Operator + "\x00" + x.Name + "\x00" + string(key)
	if l.Index != nil {
		ukey := listKey(*l.Index)
		old, err := p.find(x, key, ukey)
		if err != nil {
			return err
		}
		if _, cleared := p.next[name]; old == nil || cleared {
			return wrong("%s.%s has no element %d under key %s; without an index it is appended", x.Operator, x.Name, *l.Index, l.Key)
		}
		return p.put(x, dec, key, ukey, l)
	}
	n, known := p.next[name]
	if !known {
		e, err := p.find(x, key, []byte{listNext})
		if err != nil {
			return err
		}
		if e != nil && len(e.Value) == 8 {
			n = binary.BigEndian.Uint64(e.Value)
		}
	}
	if err := p.put(x, dec, key, listKey(n), l); err != nil {
		return err
	}
	p.next[name] = n + 1
	counter := change{line: p.line, hash: p.v.snap.Hash(key), key: snapread.CompositeKey(key, []byte{listNext}),
		value: stamped(x, nil, binary.BigEndian.AppendUint64(nil, n+1))}
	cs := p.patch.changes[x]
	if i := slices.IndexFunc(cs, func(c change) bool { return bytes.Equal(c.key, counter.key) && c.hash == counter.hash }); i >= 0 {
		cs[i] = counter
		return nil
	}
	p.patch.changes[x] = append(cs, counter)
	return nil
}

func listKey(i uint64) []byte { return binary.BigEndian.AppendUint64([]byte{listItem}, i) }

// windows lets a key's windows be dropped; what they hold can't be made up.
func (p *patcher) windows(x *snapread.State, dec *decoder, key []byte, l *patchLine) error {
	if !l.Delete || dec.content || l.Entry != nil || l.Index != nil {
		return wrong("%s.%s is kept by a window operator: only all windows of a key can be deleted, in state windows", x.Operator, x.Name)
	}
	if err := p.value(x, dec, key, l); err != nil {
		return err
	}
	contents, err := p.v.snap.Find(x.Operator, "contents")
	if err != nil {
		return nil // this one keeps none
	}
	if has, err := p.any(contents, key); err != nil || !has {
		return err
	}
	return p.add(contents, change{hash: p.v.snap.Hash(key), key: snapread.ClearedKey(key), remove: true}, "contents of ")
}

func (p *patcher) timer(x *snapread.State, key []byte, l *patchLine) error {
	if l.Timer == nil || l.Value != nil || l.Entry != nil || l.Index != nil {
		return wrong(`%s has timers there: expected "timer":{"domain","name","at"}`, x.Operator)
	}
	t := snapread.Timer{}
	switch l.Timer.Domain {
	case domains[abi.DomainEvent]:
		t.Domain = abi.DomainEvent
	case domains[abi.DomainProcessing]:
		t.Domain = abi.DomainProcessing
	default:
		return wrong("timer domain %q, expected event or processing", l.Timer.Domain)
	}
	var err error
	if t.At, err = schema.ParseTime(l.Timer.At); err != nil {
		return wrong("timer: at: %w", err)
	}
	if l.Timer.Name != nil {
		if t.Name, err = (schema.Raw{}).Encode(nil, l.Timer.Name); err != nil {
			return wrong("timer: name: %w", err)
		}
	}
	if len(t.Name) > abi.MaxTimerNameBytes {
		return wrong("a timer's name of %d bytes, at most %d", len(t.Name), abi.MaxTimerNameBytes)
	}
	old, err := p.find(x, key, appendRest(nil, &snapread.Entry{Timer: &t}))
	if err != nil {
		return err
	}
	switch {
	case l.Delete && old == nil:
		return wrong("%s has no such timer under key %s to delete", x.Operator, l.Key)
	case !l.Delete && old == nil:
		if err := p.roomForTimer(x, key); err != nil {
			return err
		}
	}
	return p.add(x, change{hash: p.v.snap.Hash(key), key: snapread.TimerKey(key, t), remove: l.Delete}, "")
}

// roomForTimer keeps a key's timers within their limit; deletions of the same patch make no room.
func (p *patcher) roomForTimer(x *snapread.State, key []byte) error {
	name := x.Operator + "\x00" + string(key)
	n, known := p.timers[name]
	if !known {
		r, err := p.reader(x)
		if err != nil {
			return err
		}
		c := r.Key(p.ctx, key)
		for c.Next() {
			n++
		}
		if err := c.Err(); err != nil {
			return err
		}
	}
	if p.timers[name] = n + 1; n+1 > abi.MaxTimersPerKey {
		return wrong("timer number %d of a key of %s, at most %d", n+1, x.Operator, abi.MaxTimersPerKey)
	}
	return nil
}

// add notes a change, unless an earlier line has changed the same.
func (p *patcher) add(x *snapread.State, c change, what string) error {
	id := fmt.Sprintf("%s\x00%s\x00%d\x00%s", x.Operator, x.Name, c.hash, c.key)
	if line, ok := p.seen[id]; ok {
		return wrong("line %d changes %sthe same", line, what)
	}
	p.seen[id] = p.line
	c.line = p.line
	p.patch.changes[x] = append(p.patch.changes[x], c)
	if c.remove {
		p.patch.Removed++
	} else {
		p.patch.Set++
	}
	return nil
}
