package engine

import (
	"errors"

	"github.com/millrace-io/millrace/host/hostcall"
	"github.com/millrace-io/millrace/host/instrument"
)

// Stop makes a running call end soon with FaultStopped, and every later one until Reset. Compiled code
// can't be preempted: if the garbage collector has begun to stop the world meanwhile, the caller of Stop
// stands still with it until the guest yields or its record's fuel is spent. So that limit is what bounds
// a call; Stop only makes it shorter.
func (g *Guest) Stop() {
	g.stopMu.Lock()
	defer g.stopMu.Unlock()
	g.stopped = true
	if g.stopWord != nil {
		g.stopWord.Set(instrument.StopNow)
	}
}

// armStop says which word stops the guest from now on; a Stop that came while there was none counts.
func (g *Guest) armStop(word hostcall.Word) {
	g.stopMu.Lock()
	defer g.stopMu.Unlock()
	g.stopWord = word
	if word != nil && g.stopped {
		word.Set(instrument.StopNow)
	}
}

// clearStop forgets a Stop.
func (g *Guest) clearStop() {
	g.stopMu.Lock()
	defer g.stopMu.Unlock()
	g.stopped = false
	if g.stopWord != nil {
		g.stopWord.Set(0)
	}
}

// isStopped says whether Stop was called since the last reset.
func (g *Guest) isStopped() bool {
	g.stopMu.Lock()
	defer g.stopMu.Unlock()
	return g.stopped
}

// Reset makes the instance as new. What is exact is done: memory that has grown can't shrink, and tables
// and dropped segments are not in an image.
//
//	no image yet       a new instance from the beginning, then its image is taken: instances that never
//	                   fault pay nothing for it
//	memory not grown   back to the image in place
//	memory has grown   a bare new instance filled from the image
//	module changes tables or drops segments: always a new instance from the beginning
//
// An error leaves the instance closed.
func (g *Guest) Reset() error {
	if g.closed {
		return ErrClosed
	}
	g.resets++
	g.frames = nil
	g.clearStop()
	err := g.renew()
	if err != nil {
		g.closed = true
		return errors.Join(err, g.code.release())
	}
	return nil
}

func (g *Guest) renew() error {
	if g.initial != nil && g.initial.fits(g) {
		return g.initial.restore(g)
	}
	g.armStop(nil)
	if err := g.module.close(); err != nil {
		return err
	}
	if err := g.open(); err != nil {
		return err
	}
	if g.initial != nil {
		if err := g.initial.fill(g); err != nil {
			return errors.Join(err, g.module.close())
		}
		return nil
	}
	if err := g.start(); err != nil {
		return err
	}
	if g.code.resettable() {
		g.initial = takeImage(g)
	}
	return nil
}

// Close ends the instance. A call under way on another goroutine must have returned.
func (g *Guest) Close() error {
	if g.closed {
		return nil
	}
	g.closed, g.frames = true, nil
	g.armStop(nil)
	return errors.Join(g.module.close(), g.code.release())
}
