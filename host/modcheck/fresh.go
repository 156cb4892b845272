package modcheck

import "github.com/millrace-io/millrace/operators/guestop"

// fresh is a module whose instances forget everything before each call.
type fresh struct{ guestop.Module }

// New implements guestop.Module.
func (m fresh) New(env guestop.Env, o guestop.InstanceOptions) (guestop.Guest, error) {
	g, err := m.Module.New(env, o)
	if err != nil {
		return nil, err
	}
	return &freshGuest{Guest: g}, nil
}

// freshGuest keeps blocks and outputs in memory of its own, for the guest's is made anew under them.
type freshGuest struct {
	guestop.Guest
	in, out []byte
	used    bool
}

// In implements guestop.Guest.
func (g *freshGuest) In(n int) ([]byte, error) {
	if n > len(g.in) {
		in := make([]byte, n+n/2)
		copy(in, g.in)
		g.in = in
	}
	return g.in, nil
}

// Call implements guestop.Guest.
func (g *freshGuest) Call(n int, first uint32) guestop.Outcome {
	if g.used {
		if err := g.Guest.Reset(); err != nil {
			return lost(err)
		}
	}
	g.used, g.out = true, g.out[:0]
	in, err := g.Guest.In(n)
	if err != nil {
		return lost(err)
	}
	copy(in, g.in[:n])
	o := g.Guest.Call(n, first)
	if o.Fault != nil {
		return o
	}
	g.out = append(g.out, g.Guest.Out()...)
	if in, err = g.Guest.In(n); err != nil {
		return lost(err)
	}
	copy(g.in, in[:n])
	return o
}

// lost ends the run: there is no instance.
func lost(err error) guestop.Outcome {
	return guestop.Outcome{Fault: &guestop.Fault{Kind: guestop.FaultTimeout, Record: -1, Message: err.Error()}}
}

// Out implements guestop.Guest.
func (g *freshGuest) Out() []byte { return g.out }

// Reset implements guestop.Guest.
func (g *freshGuest) Reset() error {
	g.used = false
	return g.Guest.Reset()
}
