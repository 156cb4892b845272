package cases

import (
	"bytes"
	"fmt"
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
