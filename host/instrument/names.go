package instrument

import (
	"fmt"
	"unicode/utf8"
)

func sprint(format string, args ...any) string { return fmt.Sprintf(format, args...) }

// functionNames reads the function names of a name section. A name section is for people only, so one
// that is malformed just ends the list.
func functionNames(body []byte) map[uint32]string {
	names := map[uint32]string{}
	r := &reader{buf: body, end: len(body)}
	defer func() {
		if x := recover(); x != nil {
			if _, ok := x.(failure); !ok {
				panic(x)
			}
		}
	}()
	for r.left() > 0 {
		id, size := r.byte(), r.u32()
		sub := r.bytes(size, "subsection")
		if id != 1 {
			continue
		}
		s := &reader{buf: sub, end: len(sub)}
		for n := s.count("names", 2); n > 0; n-- {
			index := s.u32()
			name := s.bytes(s.u32(), "name")
			if len(name) > 0 && utf8.Valid(name) {
				names[index] = string(name)
			}
		}
	}
	return names
}
