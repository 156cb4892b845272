// Package tcp holds the source that reads lines of a socket it connects to.
package tcp

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/millrace-io/millrace/operators"
)

// Connecting is tried this often, with this pause between, which doubles up to maxPause: about 20 s.
const (
	attempts   = 10
	firstPause = 100 * time.Millisecond
	maxPause   = 4 * time.Second
)

// Dialer connects; net.Dialer does.
type Dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// Source is a line stream whose dialling ends with it.
type Source struct {
	*operators.LineStream
	cancel context.CancelFunc
	log    *slog.Logger
}

// NewSource connects to the address of node n and reads lines until the peer closes, which ends the
// input. Only connecting is tried again: after a broken connection nothing says what was lost.
func NewSource(n *operators.Node, d Dialer) *Source {
	ctx, cancel := context.WithCancel(context.Background())
	addr := n.Source.TCP.Address
	connected := false
	s := &Source{cancel: cancel}
	open := func() (io.ReadCloser, error) {
		if connected {
			return nil, io.EOF
		}
		c, err := s.dial(ctx, d, addr, n.ID)
		if err != nil {
			return nil, fmt.Errorf("source %q: %w", n.ID, err)
		}
		connected = true
		return c, nil
	}
	s.LineStream = operators.NewLineStream(n, "tcp "+addr, open)
	return s
}

// Open implements operators.Source.
func (s *Source) Open(ctx *operators.Context) error {
	s.log = ctx.Log
	return s.LineStream.Open(ctx)
}

func (s *Source) dial(ctx context.Context, d Dialer, addr, source string) (net.Conn, error) {
	pause := firstPause
	for i := 1; ; i++ {
		c, err := d.DialContext(ctx, "tcp", addr)
		if err == nil {
			return c, nil
		}
		if i == attempts || ctx.Err() != nil {
			return nil, fmt.Errorf("connecting to %s failed %d times (the source connects; `nc -lk` listens): %w", addr, i, err)
		}
		if i == 1 {
			s.log.Warn("connecting failed, trying again", "source", source, "address", addr, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, maxPause)
	}
}

// Close implements operators.Source.
func (s *Source) Close() error {
	s.cancel()
	return s.LineStream.Close()
}
