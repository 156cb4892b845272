// Package format holds the codecs: JSON lines, CSV, Parquet and typed rows. It knows bytes and fields,
// nothing of splits, tasks or sinks.
package format

import (
	"bytes"
	"fmt"
	"strings"
)

// Kind is the kind of a JSON value that a Scanner found.
type Kind uint8

// Kinds of values. Absent and Null are two things.
const (
	Absent Kind = iota
	Null
	False
	True
	Number
	String
	Composite // an object or array
)

// Value is one extracted value. Raw aliases the line: the token, for a string what is between the
// quotes.
type Value struct {
	Kind    Kind
	Escaped bool // a string with escape sequences
	Raw     []byte
}

// SyntaxError says where a line stops being JSON.
type SyntaxError struct {
	Column int // in bytes, from 1
	Msg    string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("invalid JSON at byte %d: %s", e.Column, e.Msg)
}

// maxDepth is the nesting that encoding/json allows.
const maxDepth = 10000

// Scanner extracts some fields of JSON objects in one pass over the line. The whole line is checked,
// also what is not wanted; of a repeated field the last one counts, as with encoding/json. Names are
// compared exactly; a dot in a wanted name goes into a nested object. It allocates nothing but errors.
type Scanner struct {
	root *branch
	n    int
	err  *SyntaxError
	out  []Value
}

type branch struct {
	names [][]byte
	sure  []bool  // the name holds only bytes that stand for themselves in JSON
	next  int     // the name to expect: lines mostly repeat their order
	slots [][]int // wanted as itself
	kids  []*branch
}

// NewScanner makes a scanner for the wanted names; value i of Scan is that of names[i].
func NewScanner(names []string) *Scanner {
	s := &Scanner{root: &branch{}, n: len(names)}
	for i, name := range names {
		s.root.add(strings.Split(name, "."), i)
	}
	return s
}

func (t *branch) add(path []string, slot int) {
	at := -1
	for i, n := range t.names {
		if string(n) == path[0] {
			at = i
		}
	}
	if at < 0 {
		at = len(t.names)
		t.names = append(t.names, []byte(path[0]))
		t.sure = append(t.sure, isPlain(path[0]))
		t.slots = append(t.slots, nil)
		t.kids = append(t.kids, nil)
	}
	if len(path) == 1 {
		t.slots[at] = append(t.slots[at], slot)
		return
	}
	if t.kids[at] == nil {
		t.kids[at] = &branch{}
	}
	t.kids[at].add(path[1:], slot)
}

// clear marks everything wanted below t as absent: an earlier duplicate of the object is void.
func (t *branch) clear(out []Value) {
	for i := range t.names {
		for _, s := range t.slots[i] {
			out[s] = Value{}
		}
		if t.kids[i] != nil {
			t.kids[i].clear(out)
		}
	}
}

// Scan fills out, which has one place per wanted name. The error is a *SyntaxError; a line that is
// JSON but no object is one too.
func (s *Scanner) Scan(line []byte, out []Value) error {
	for i := range out {
		out[i] = Value{}
	}
	s.out, s.err = out, nil
	i := space(line, 0)
	if i >= len(line) {
		return &SyntaxError{i + 1, "expected an object, got an empty line"}
	}
	if line[i] != '{' {
		if j := s.skip(line, i, 0); j >= 0 && space(line, j) == len(line) {
			return &SyntaxError{i + 1, "expected an object, got another value"}
		}
		return s.failure(i)
	}
	s.root.next = 0
	if i = s.object(line, i+1, s.root, 1); i < 0 {
		return s.err
	}
	if i = space(line, i); i != len(line) {
		return &SyntaxError{i + 1, "bytes after the object"}
	}
	return nil
}

func (s *Scanner) failure(i int) error {
	if s.err != nil {
		return s.err
	}
	return &SyntaxError{i + 1, "expected an object"}
}

func (s *Scanner) fail(i int, msg string) int {
	if s.err == nil {
		s.err = &SyntaxError{i + 1, msg}
	}
	return -1
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// object reads from behind the brace at i to behind its end; -1 after fail.
func (s *Scanner) object(b []byte, i int, t *branch, depth int) int {
	if depth > maxDepth {
		return s.fail(i, "nested too deeply")
	}
	i = space(b, i)
	if i < len(b) && b[i] == '}' {
		return i + 1
	}
	for {
		if i >= len(b) || b[i] != '"' {
			return s.fail(i, "expected a field name")
		}
		at := -1
		if i, at = s.name(b, i+1, t); i < 0 {
			return -1
		}
		if i < len(b) && b[i] != ':' {
			i = space(b, i)
		}
		if i >= len(b) || b[i] != ':' {
			return s.fail(i, "expected a colon")
		}
		i++
		if i < len(b) && b[i] <= ' ' {
			i = space(b, i)
		}
		if at < 0 {
			i = s.skip(b, i, depth)
		} else {
			i = s.wanted(b, i, t, at, depth)
		}
		if i < 0 {
			return -1
		}
		if i < len(b) && b[i] <= ' ' {
			i = space(b, i)
		}
		if i >= len(b) {
			return s.fail(i, "the object is cut off")
		}
		if b[i] == '}' {
			return i + 1
		}
		if b[i] != ',' {
			return s.fail(i, "expected a comma or a closing brace")
		}
		i++
		if i < len(b) && b[i] <= ' ' {
			i = space(b, i)
		}
	}
}

// name reads a field's name from behind its quote to behind its end, and finds which of t's it is.
func (s *Scanner) name(b []byte, i int, t *branch) (end, at int) {
	if t != nil && t.next < len(t.names) && t.sure[t.next] {
		n := t.names[t.next]
		if e := i + len(n); e < len(b) && b[e] == '"' && string(b[i:e]) == string(n) {
			at = t.next
			t.next++
			return e + 1, at
		}
	}
	end, escaped := s.text(b, i)
	if end < 0 || t == nil {
		return end, -1
	}
	name := b[i : end-1]
	if escaped {
		name = AppendUnescaped(nil, name)
	}
	if at = t.find(name); at >= 0 {
		t.next = at + 1
	}
	return end, at
}

func isPlain(s string) bool {
	for i := 0; i < len(s); i++ {
		if !plain[s[i]] {
			return false
		}
	}
	return true
}

func (t *branch) find(name []byte) int {
	for i, n := range t.names {
		if len(n) == len(name) && bytes.Equal(n, name) {
			return i
		}
	}
	return -1
}

// wanted reads the value at i of t's name number at.
func (s *Scanner) wanted(b []byte, i int, t *branch, at, depth int) int {
	if kid := t.kids[at]; kid != nil {
		kid.clear(s.out)
		kid.next = 0
		if i < len(b) && b[i] == '{' {
			end := s.object(b, i+1, kid, depth+1)
			if end >= 0 {
				for _, slot := range t.slots[at] {
					s.out[slot] = Value{Kind: Composite, Raw: b[i:end]}
				}
			}
			return end
		}
	}
	v := Value{}
	end := -1
	if i < len(b) && b[i] == '"' {
		if end, v.Escaped = s.text(b, i+1); end < 0 {
			return -1
		}
		v.Kind, v.Raw = String, b[i+1:end-1]
	} else {
		if end = s.skip(b, i, depth); end < 0 {
			return -1
		}
		v.Raw = b[i:end]
		v.Kind = kindOf(b[i])
	}
	for _, slot := range t.slots[at] {
		s.out[slot] = v
	}
	return end
}

func kindOf(c byte) Kind {
	switch c {
	case 'n':
		return Null
	case 't':
		return True
	case 'f':
		return False
	case '{', '[':
		return Composite
	}
	return Number
}
