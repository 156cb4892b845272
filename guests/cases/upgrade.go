package cases

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/millrace-io/millrace/abi"
)

// Behaviours of a version of the upgrade case.
const (
	UpgradeCounts = 'c'
	UpgradeTraps  = 't' // at every record after the first number of an instance
	UpgradeFails  = 'f' // every record whose n is a multiple of number
	UpgradeStays  = 'k' // can't migrate the state of key k<number>
)

// Upgrade is a version of the upgrade case: its tag (at most 8 bytes) is in every output. All versions are
// one module but for the text in its data that says which they are.
func Upgrade(tag string, behaviour byte, number int) []byte {
	wasm := bytes.Clone(Module("upgrade"))
	const mark = "millrace-upgrade "
	i := bytes.Index(wasm, []byte(mark))
	if i < 0 || len(tag) > 8 || number < 0 || number > 99_999_999 {
		panic(fmt.Sprintf("guests/cases: no version %q %c %d of the upgrade case", tag, behaviour, number))
	}
	copy(wasm[i+len(mark):], fmt.Sprintf("%-8s %c%08d", tag, behaviour, number))
	return wasm
}

// Redescribe changes what a module says of itself in its custom section.
func Redescribe(wasm []byte, change func(d *abi.Descriptor)) []byte {
	out := bytes.Clone(wasm[:8])
	for rest := wasm[8:]; len(rest) > 0; {
		size, n := binary.Uvarint(rest[1:])
		body := rest[1+n:][:size]
		if text, ok := descriptorIn(rest[0], body); ok {
			var d abi.Descriptor
			if err := json.Unmarshal(text, &d); err != nil {
				panic(fmt.Sprintf("guests/cases: descriptor %q: %v", text, err))
			}
			change(&d)
			text, err := json.Marshal(d)
			if err != nil {
				panic(fmt.Sprintf("guests/cases: descriptor: %v", err))
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
