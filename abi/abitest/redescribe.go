package abitest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/millrace-io/millrace/abi"
)

// Redescribe changes what a module says of itself in its custom section.
func Redescribe(wasm []byte, change func(d *abi.Descriptor)) []byte {
	out := bytes.Clone(wasm[:8])
	for rest := wasm[8:]; len(rest) > 0; {
		size, n := binary.Uvarint(rest[1:])
		body := rest[1+n:][:size]
		if text, ok := descriptorIn(rest[0], body); ok {
			var d abi.Descriptor
			if err := json.Unmarshal(text, &d); err != nil {
				panic(fmt.Sprintf("abitest: descriptor %q: %v", text, err))
			}
			change(&d)
			text, err := json.Marshal(d)
			if err != nil {
				panic(fmt.Sprintf("abitest: descriptor: %v", err))
			}
			body = append(append(binary.AppendUvarint(nil, uint64(len(abi.DescriptorSection))), abi.DescriptorSection...), text...)
		}
		out = append(out, rest[0])
		out = binary.AppendUvarint(out, uint64(len(body)))
		out = append(out, body...)
		rest = rest[1+n+int(size):]
	}
	return out
}

// descriptorIn is the text of a section that is the descriptor.
func descriptorIn(id byte, body []byte) ([]byte, bool) {
	if id != 0 {
		return nil, false
	}
	size, n := binary.Uvarint(body)
	if string(body[n:][:size]) != abi.DescriptorSection {
		return nil, false
	}
	return body[n+int(size):], true
}
