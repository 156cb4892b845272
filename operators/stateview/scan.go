package stateview

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/millrace-io/millrace/checkpoint/snapread"
)

// Query says which rows are wanted. It is serialisable.
type Query struct {
	Operator string `json:"operator,omitempty"` // empty: all
	State    string `json:"state,omitempty"`    // empty: all of the operator, timers too
	// Key as rows show it; nil: all keys. KeyPrefix: keys that begin with these bytes.
	Key       *string `json:"key,omitempty"`
	KeyPrefix string  `json:"key_prefix,omitempty"`
	Entry     *string `json:"entry,omitempty"` // of a map, as rows show it
	Limit     int     `json:"limit,omitempty"` // rows; 0: all
	After     string  `json:"after,omitempty"` // Next of an earlier page
	Raw       bool    `json:"raw,omitempty"`
}

// Scan gives the rows of a query to f, in the order of the manifest's states and then in hash order: no state is
// loaded, memory does not grow. next is where to go on if the limit ended it, else empty. What f gets is good
// for the call.
//
// Errors: ErrQuery; snapread.ErrNoState; damage, with object and place; f's.
func (v *View) Scan(ctx context.Context, q Query, f func(row []byte) error) (next string, err error) {
	return v.scan(ctx, q, f)
}

// scan is Scan; where f ended it, next is behind the row that it got.
func (v *View) scan(ctx context.Context, q Query, f func(row []byte) error) (next string, err error) {
	states, err := v.match(q)
	if err != nil {
		return "", err
	}
	from, err := parseToken(q.After)
	if err != nil {
		return "", err
	}
	if from != nil {
		for len(states) > 0 && (states[0].Operator != from.operator || states[0].Name != from.state) {
			states = states[1:]
		}
		if len(states) == 0 {
			return "", fmt.Errorf("%w: after: the page is of another query", ErrQuery)
		}
	}
	w := walk{v: v, q: q, left: q.Limit}
	for i, x := range states {
		if i > 0 {
			from = nil
		}
		if next, err := w.state(ctx, x, from, func(d *decoder, e *snapread.Entry) error {
			w.row = d.appendRow(w.row[:0], e, q.Raw)
			return f(w.row)
		}); next != "" || err != nil {
			return next, err
		}
	}
	return "", nil
}

// match finds the states of a query.
func (v *View) match(q Query) ([]*snapread.State, error) {
	if q.Key != nil && q.KeyPrefix != "" {
		return nil, fmt.Errorf("%w: a key and a prefix of keys", ErrQuery)
	}
	var out []*snapread.State
	for _, x := range v.snap.States() {
		if (q.Operator == "" || x.Operator == q.Operator) && (q.State == "" || x.Name == q.State) {
			out = append(out, x)
		}
	}
	if len(out) == 0 && (q.Operator != "" || q.State != "") {
		_, err := v.snap.Find(q.Operator, q.State)
		return nil, err
	}
	return out, nil
}

// walk goes over the entries of a query.
type walk struct {
	v    *View
	q    Query
	left int // rows; with Limit 0 it does not count
	row  []byte
	last token
}

// state walks one state; next is where to go on if the limit ended it.
func (w *walk) state(ctx context.Context, x *snapread.State, from *token, f func(*decoder, *snapread.Entry) error) (next string, err error) {
	d := w.v.decoder(x)
	lo, hi := uint64(0), uint64(math.MaxUint64)
	var key, ukey []byte
	if w.q.Key != nil {
		if key, err = w.v.ParseKey(x, *w.q.Key); err != nil {
			return "", err
		}
		lo = w.v.snap.Hash(key)
		hi = lo
	}
	if w.q.Entry != nil {
		if x.Kind != "map" {
			return "", fmt.Errorf("%w: %s.%s is a %s, only a map's keys have entries", ErrQuery, x.Operator, x.Name, x.Kind)
		}
		if ukey, err = w.v.ParseUserKey(x, *w.q.Entry); err != nil {
			return "", err
		}
	}
	if from != nil {
		lo = max(lo, from.hash)
	}
	r, err := x.Open(ctx, lo, hi)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	c := r.Scan(ctx, lo, hi)
	if key != nil {
		c = r.Key(ctx, key)
	}
	for c.Next() {
		e := c.Entry()
		if !d.shown(e) || from != nil && !from.before(e) || !bytes.HasPrefix(e.Key, []byte(w.q.KeyPrefix)) || w.q.Entry != nil && !bytes.Equal(e.UserKey, ukey) {
			continue
		}
		if w.q.Limit > 0 && w.left == 0 {
			return w.last.String(), nil
		}
		if err := f(d, e); err != nil {
			w.last.set(x, e)
			return w.last.String(), err
		}
		if w.q.Limit > 0 {
			if w.left--; w.left == 0 {
				w.last.set(x, e)
			}
		}
	}
	return "", c.Err()
}

// token is the place behind an entry.
type token struct {
	operator, state string
	hash            uint64
	key, rest       []byte // rest: user key, or a timer's identity
}

func (t *token) set(x *snapread.State, e *snapread.Entry) {
	t.operator, t.state, t.hash = x.Operator, x.Name, e.Hash
	t.key = append(t.key[:0], e.Key...)
	t.rest = appendRest(t.rest[:0], e)
}

// appendRest appends what orders the entries of a key.
func appendRest(dst []byte, e *snapread.Entry) []byte {
	if t := e.Timer; t != nil {
		dst = append(dst, byte(t.Domain))
		dst = binary.BigEndian.AppendUint64(dst, uint64(t.At)^1<<63)
		return append(dst, t.Name...)
	}
	return append(dst, e.UserKey...)
}

// before says whether the place is before an entry.
func (t *token) before(e *snapread.Entry) bool {
	if e.Hash != t.hash {
		return e.Hash > t.hash
	}
	if c := bytes.Compare(e.Key, t.key); c != 0 {
		return c > 0
	}
	return bytes.Compare(appendRest(nil, e), t.rest) > 0
}

// tokenText is a token as it travels.
type tokenText struct {
	Operator string `json:"o"`
	State    string `json:"s"`
	Hash     uint64 `json:"h,string"`
	Key      []byte `json:"k"`
	Rest     []byte `json:"r,omitempty"`
}

func (t *token) String() string {
	b, err := json.Marshal(tokenText{t.operator, t.state, t.hash, t.key, t.rest})
	if err != nil {
		panic(err) // text and bytes always marshal
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func parseToken(s string) (*token, error) {
	if s == "" {
		return nil, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	var t tokenText
	if err == nil {
		err = json.Unmarshal(b, &t)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: after: %.40q is not the next of a page", ErrQuery, s)
	}
	return &token{t.Operator, t.State, t.Hash, t.Key, t.Rest}, nil
}
