// Package ttl gives keyed state a time to live. It wraps state.Keyed: a state whose descriptor has a TTL
// keeps a stamp before each entry, which only this package sees, and hides what has expired. What is
// hidden is removed later, by a calendar and without being read. States without a TTL are handed through.
//
// A stamp is the time of the record that last wrote the entry (or read it, where reading renews), but not
// less than the watermark at it. In processing time it is the clock's at the call. At now an entry has
// expired when now >= stamp + TTL. An entry written before there was any watermark by a record without time has no
// stamp yet: it ages from the first watermark on.
package ttl

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/state"
)

// StampBytes is what a stamp adds to an entry.
const StampBytes = 8

// Untouched stands in the stamps of Keyed.Batch for a key that nothing happened to: StoreCells does not renew
// its value.
const Untouched = math.MaxInt64

// noStamp is the stamp of what ages from the first watermark on.
const noStamp = abi.MinWatermark

// coarse is into how many steps a TTL is divided: an entry is removed at most one of them after it expired.
const coarse = 8

// policy is the TTL of one state.
type policy struct {
	state.TTL
	name []byte // of the state, and so of its timers
	step int64  // ms
}

func newPolicy(d state.Descriptor) (policy, error) {
	if len(d.Name) > abi.MaxTimerNameBytes {
		return policy{}, fmt.Errorf("state %.40q...: a state with a TTL has a name of at most %d bytes, this one has %d", d.Name, abi.MaxTimerNameBytes, len(d.Name))
	}
	return policy{TTL: d.TTL, name: []byte(d.Name), step: max(1, d.TTL.MS/coarse)}, nil
}

// expiry is when an entry with a stamp expires; the end of time if it would be beyond.
func (p *policy) expiry(stamp int64) int64 {
	if stamp > math.MaxInt64-p.MS {
		return math.MaxInt64
	}
	return stamp + p.MS
}

// alarm is when to look at an entry that expires then: the next full step, so that the entries of a key and
// those written and cleared again and again have few alarms.
func (p *policy) alarm(expiry int64) int64 {
	r := expiry % p.step
	if r < 0 {
		r += p.step
	}
	if r == 0 || expiry > math.MaxInt64-p.step {
		return expiry
	}
	return expiry - r + p.step
}

func appendStamped(dst []byte, stamp int64, v []byte) []byte {
	return append(binary.LittleEndian.AppendUint64(dst, uint64(stamp)), v...)
}

// split takes an entry apart.
func split(raw []byte) (stamp int64, v []byte, err error) {
	if len(raw) < StampBytes {
		return 0, nil, fmt.Errorf("%w: an entry of %d bytes in a state with a TTL, whose stamp has %d", state.ErrCorrupt, len(raw), StampBytes)
	}
	return int64(binary.LittleEndian.Uint64(raw)), raw[StampBytes:], nil
}
