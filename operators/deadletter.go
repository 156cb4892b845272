package operators

import (
	"bytes"
	"strconv"

	"github.com/millrace-io/millrace/abi"
)

// A dead letter travels as the original frame, byte-exact, with what is known of its failure in headers
// whose names start with DeadLetterPrefix, behind the record's own. The dead-letter sink takes them off.
const DeadLetterPrefix = "mr.dead."

// DeadLetter says where and why a record or timer failed.
type DeadLetter struct {
	Operator string
	Task     int
	Kind     string // guestop.FaultKind, or "null key", "malformed"
	Error    string
	Module   string // digest, "" if no module is involved
	Position string // for people
	Attempts int
	Timer    bool // the frame is a timer: key, name (as value) and time
}

// AppendDeadLetter adds f with d to b.
func AppendDeadLetter(b *abi.Batch, f abi.Frame, d *DeadLetter) {
	r := f.Record()
	h := func(name, v string) {
		r.Headers = append(r.Headers, abi.Header{Key: []byte(DeadLetterPrefix + name), Value: []byte(v)})
	}
	h("operator", d.Operator)
	h("task", strconv.Itoa(d.Task))
	h("kind", d.Kind)
	h("error", d.Error)
	h("module", d.Module)
	h("position", d.Position)
	h("attempts", strconv.Itoa(d.Attempts))
	if d.Timer {
		h("timer", "true")
	}
	r.Output, r.Cause = 0, 0
	b.Append(&r)
}

// SplitDeadLetter separates a dead letter's record, as it was, from what is known of its failure.
func SplitDeadLetter(f abi.Frame) (abi.Record, DeadLetter) {
	r := f.Record()
	var d DeadLetter
	own := r.Headers[:0]
	for _, h := range r.Headers {
		name, ok := bytes.CutPrefix(h.Key, []byte(DeadLetterPrefix))
		if !ok {
			own = append(own, h)
			continue
		}
		v := string(h.Value)
		switch string(name) {
		case "operator":
			d.Operator = v
		case "task":
			d.Task, _ = strconv.Atoi(v)
		case "kind":
			d.Kind = v
		case "error":
			d.Error = v
		case "module":
			d.Module = v
		case "position":
			d.Position = v
		case "attempts":
			d.Attempts, _ = strconv.Atoi(v)
		case "timer":
			d.Timer = true
		}
	}
	r.Headers = own
	return r, d
}
