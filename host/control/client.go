package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// Why there is no one to talk to.
var (
	// ErrNotRunning: no process serves the state folder.
	ErrNotRunning = errors.New("the pipeline is not running")
	// ErrStale: the socket is there, its process is not. The next run replaces it. It is an ErrNotRunning.
	ErrStale = fmt.Errorf("%w: its control socket is left from a process that died", ErrNotRunning)
	// ErrNotPermitted: the pipeline is another user's.
	ErrNotPermitted = errors.New("the pipeline belongs to another user")
)

// Client talks to a running pipeline. Its methods may be called by several goroutines.
type Client struct {
	dir  string
	http *http.Client
}

// Dial finds the pipeline that has a state folder. Errors: ErrNotRunning, ErrStale, ErrNotPermitted.
func Dial(stateDir string) (*Client, error) {
	c := &Client{dir: stateDir}
	c.http = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return connect(ctx, stateDir) }}}
	conn, err := connect(context.Background(), stateDir)
	if err != nil {
		return nil, err
	}
	return c, conn.Close()
}

// Close drops idle connections.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// call sends one request of a pattern as route has it.
func call[In, Out any](ctx context.Context, c *Client, pattern string, in In) (Out, error) {
	var out Out
	method, path, _ := strings.Cut(pattern, " ")
	body, err := json.Marshal(in)
	if err != nil {
		return out, err
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://pipeline"+path, bytes.NewReader(body))
	if err != nil {
		return out, err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(r)
	if err != nil {
		return out, gone(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return out, gone(err)
	}
	if resp.StatusCode != http.StatusOK {
		return out, problemIn(resp, data)
	}
	return out, json.Unmarshal(data, &out)
}

// gone explains a connection that broke.
func gone(err error) error {
	for _, known := range []error{ErrNotRunning, ErrNotPermitted, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return err
		}
	}
	return fmt.Errorf("the pipeline ended before it answered: %w", err)
}

// problemIn is the error that an answer holds.
func problemIn(resp *http.Response, data []byte) error {
	var p problem
	if resp.Header.Get("Content-Type") != problemType || json.Unmarshal(data, &p) != nil {
		return fmt.Errorf("the pipeline answered %s: %.200s", resp.Status, data)
	}
	e := &Error{Kind: p.Kind, Message: p.Detail, Data: p.Data}
	if p.Kind == KindNotPermitted {
		return fmt.Errorf("%w: %w", ErrNotPermitted, e)
	}
	return e
}
