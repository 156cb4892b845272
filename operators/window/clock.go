package window

import "github.com/millrace-io/millrace/operators"

// UsesClock implements operators.ClockUser: windows or triggers go by the clock, or a function takes it for
// its time. Also before Open.
func (o *Op) UsesClock() bool {
	w := o.w
	if w.Time == operators.TimeProcessing || w.Trigger.EveryClock > 0 || w.Trigger.Timeout > 0 {
		return true
	}
	for _, n := range w.GuestNodes(o.cfg.Node.ID) {
		if n.Guest.Clock == operators.TimeProcessing {
			return true
		}
	}
	return false
}
