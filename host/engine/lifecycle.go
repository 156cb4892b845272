package engine

import (
	"context"
	"errors"

	"github.com/tetratelabs/wazero/api"

	"github.com/millrace-io/millrace/host/instrument"
)

// Stop makes a running call end soon with FaultStopped, and every later one until Reset.
func (g *Guest) Stop() {
	g.stopMu.Lock()
	defer g.stopMu.Unlock()
	g.stopped = true
	if g.stopWord != nil {
		g.stopWord.Set(instrument.StopNow)
	}
}

// armStop says which word stops the guest from now on; a Stop that came while there was none counts.
func (g *Guest) armStop(word api.MutableGlobal) {
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

// Reset makes the instance as new: in place where that is exact, else by replacing it.
//
// The first reset replaces the instance and takes an image of the new one, so that instances that never
// fault pay nothing for it; the following ones go back to the image.
func (g *Guest) Reset() error {
	if g.closed {
		return ErrClosed
	}
	g.resets++
	g.frames = nil
	g.clearStop()
	if g.initial != nil && g.initial.fits(g) {
		return g.initial.restore(g)
	}
	g.initial = nil
	g.armStop(nil)
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
	if g.closed {
		return nil
	}
	g.closed, g.frames = true, nil
	g.armStop(nil)
	return errors.Join(g.module.Close(context.Background()), g.code.release())
}
