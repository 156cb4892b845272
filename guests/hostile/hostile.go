// Package hostile makes guests that attack their host, as modules that tests upload and run. Each that
// can be run has the exports of the ABI and behaves, echoing every record, until it meets one whose
// value is Trigger; so a test sees that this record's fault stays this record's.
package hostile

// Trigger is the value of the record on which a guest attacks.
const Trigger = "boom"

// Fault is how an attack must end.
type Fault string

// Faults.
const (
	FaultRefused Fault = "refused"     // never compiled: the validator says Guest.Code
	FaultFuel    Fault = "fuel"        // out of fuel in the attacking record
	FaultTrap    Fault = "trap"        // the guest's own trap
	FaultStack   Fault = "stack"       // the engine's stack limit, or fuel before it
	FaultNext    Fault = "next"        // next traps it
	FaultStart   Fault = "start"       // out of fuel before the first record
	FaultOutput  Fault = "output"      // what it left in its output buffer is refused
	FaultLimit   Fault = "limit"       // a host call refuses, the record fails or the call traps
	FaultNone    Fault = "no fault"    // the attack comes to nothing: the record is echoed
	FaultAny     Fault = "bad pointer" // the host call says so or traps; see WildPointers
)

// Guest is one attack.
type Guest struct {
	Name  string
	Doc   string // what it does
	Fault Fault
	Code  string // of the validator's problem, if it is refused
	Wasm  []byte
}

// All returns every guest.
func All() []Guest { return append(append(runnable(), faulty()...), Refused()...) }

// Runnable returns the guests that pass the validator.
func Runnable() []Guest { return append(runnable(), faulty()...) }

// ByName returns a guest; it panics if there is none.
func ByName(name string) Guest {
	for _, g := range All() {
		if g.Name == name {
			return g
		}
	}
	panic("hostile: no guest " + name)
}
