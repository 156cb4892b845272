package engine

import (
	"context"
	"errors"

	"github.com/millrace-io/millrace/host/instrument"
)

// Stop makes a running call end soon with FaultStopped, and every later one until Reset.
func (g *Guest) Stop() {
	g.stopMu.Lock()
	defer g.stopMu.Unlock()
	if g.stopped || g.closed {
		return
	}
	g.stopped = true
	g.meter.stop.Set(instrument.StopNow)
}

// isStopped says whether Stop was called since the last reset.
func (g *Guest) isStopped() bool {
	g.stopMu.Lock()
	defer g.stopMu.Unlock()
	return g.stopped
}

// Reset makes the instance as new: in place where that is exact, else by replacing it.
//
// The first reset replaces the instance and takes an image of the new one, so that instances that never
// fault pay nothing for it; the following ones go back to the image.
func (g *Guest) Reset() error {
	g.stopMu.Lock()
	defer g.stopMu.Unlock()
	if g.closed {
		return ErrClosed
	}
	g.resets++
	g.stopped, g.frames = false, nil
	if g.initial != nil && g.initial.fits(g) {
		return g.initial.restore(g)
	}
	g.initial = nil
	err := g.module.Close(context.Background())
	if err == nil {
		err = g.open()
	}
	if err != nil {
		g.closed = true
		return errors.Join(err, g.code.release())
	}
	if g.code.resettable() {
		g.initial = takeImage(g)
	}
	return nil
}

// Close ends the instance. A call under way on another goroutine must have returned.
func (g *Guest) Close() error {
	g.stopMu.Lock()
	defer g.stopMu.Unlock()
	if g.closed {
		return nil
	}
	g.closed, g.frames = true, nil
	return errors.Join(g.module.Close(context.Background()), g.code.release())
}
