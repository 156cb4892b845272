package worker

import (
	"context"
	"errors"
	"io"

	"github.com/millrace-io/millrace/host/engine"
	"github.com/millrace-io/millrace/host/modcheck"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/connect"
	"github.com/millrace-io/millrace/operators/guestop"
)

// Check tries the functions of a pipeline that were not tried before on kept and on fresh instances, before they are let
// in; see modcheck. An error for a function that keeps something between calls is a *modcheck.Error. cacheDir as in
// Deploy.
func Check(ctx context.Context, g *operators.Graph, cacheDir string) ([]modcheck.Checked, error) {
	eng, err := engine.New(ctx, engine.Options{CacheDir: cacheDir})
	if err != nil {
		return nil, err
	}
	checked, release, err := check(ctx, eng, g, cacheDir)
	return checked, errors.Join(err, release(), eng.Close(ctx))
}

// check is Check on an engine. The modules stay compiled until release is called.
func check(ctx context.Context, eng *engine.Engine, g *operators.Graph, cacheDir string) (checked []modcheck.Checked, release func() error, err error) {
	open := map[string]guestop.Module{}
	p := modcheck.Pipeline{Graph: g, Cache: modcheck.CacheIn(cacheDir), Connect: connect.Env{},
		Module: func(n *operators.Node) (guestop.Module, error) {
			if m := open[n.ID]; m != nil {
				return m, nil
			}
			m, err := compile(ctx, eng, g, n)
			if err == nil {
				open[n.ID] = m
			}
			return m, err
		}}
	checked, err = p.Check(ctx, modcheck.Options{})
	return checked, func() (err error) {
		for _, m := range open {
			if c, ok := m.(io.Closer); ok {
				err = errors.Join(err, c.Close())
			}
		}
		return err
	}, err
}

// isLeaky says that a function did not pass the check.
func isLeaky(err error) bool {
	var e *modcheck.Error
	return errors.As(err, &e)
}

// tellUnchecked logs which functions could not be tried.
func (l *Local) tellUnchecked(checked []modcheck.Checked) {
	if l.opts.Log == nil {
		return
	}
	for i := range checked {
		if c := &checked[i]; c.NotChecked != "" {
			l.opts.Log.Debug("function not checked", "operator", c.Operator, "function", c.Name, "why", c.NotChecked)
		}
	}
}
