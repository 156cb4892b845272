// Package abitest reads the byte vectors of abi/vectors, which pin the encodings for every language, and
// lists inputs that decoders must refuse.
package abitest

import (
	"encoding/hex"
	"fmt"
	"os"
	"strings"
)

// Vector is one case of a vector file.
type Vector struct {
	Name   string
	Bad    bool        // its bytes must be refused
	Fields [][2]string // name and text, in order
	Bytes  map[string][]byte
}

// byteFields are the names of fields whose text is hex and may go on on indented lines.
var byteFields = map[string]bool{"hex": true, "block": true, "out": true, "after": true}

// Read reads a vector file.
func Read(path string) ([]Vector, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var list []Vector
	last := "" // byte field that indented lines go on with
	for i, line := range strings.Split(string(b), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		name, text, _ := strings.Cut(line, " ")
		switch {
		case name == "name" || name == "bad":
			list = append(list, Vector{Name: text, Bad: name == "bad", Bytes: map[string][]byte{}})
			last = ""
			continue
		case len(list) == 0:
			return nil, fmt.Errorf("%s:%d: a field before the first name", path, i+1)
		case name == "":
			name = last
		case byteFields[name]:
			last = name
		}
		v := &list[len(list)-1]
		if !byteFields[name] {
			v.Fields = append(v.Fields, [2]string{name, text})
			continue
		}
		raw, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, i+1, err)
		}
		v.Bytes[name] = append(v.Bytes[name], raw...)
	}
	return list, nil
}
