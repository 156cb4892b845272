// Package connect makes the native operators, sources and sinks of a graph's nodes.
package connect

import (
	"fmt"
	"io"
	"net"
	"os"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/file"
	"github.com/millrace-io/millrace/operators/generator"
	"github.com/millrace-io/millrace/operators/stdio"
	"github.com/millrace-io/millrace/operators/tcp"
)

// Env is what connectors take from the process. Zero fields mean the process's own.
type Env struct {
	Stdin  io.Reader
	Stdout io.Writer // shared by tasks: one Write per batch, whole lines
	Dialer tcp.Dialer
}

// Source makes the source of a node, one per task.
func Source(n *operators.Node, env Env) (operators.Source, error) {
	switch n.Source.Connector {
	case "file":
		return file.NewSource(n), nil
	case "generator":
		return generator.NewSource(n), nil
	case "stdin":
		if env.Stdin == nil {
			env.Stdin = os.Stdin
		}
		return stdio.NewSource(n, env.Stdin), nil
	case "tcp":
		if env.Dialer == nil {
			env.Dialer = &net.Dialer{}
		}
		return tcp.NewSource(n, env.Dialer), nil
	}
	return nil, fmt.Errorf("source %q: unknown connector %q", n.ID, n.Source.Connector)
}

// Operator makes the operator of a key_by, union or sink node, one per task.
func Operator(n *operators.Node, env Env) (operators.Operator, error) {
	switch n.Kind {
	case operators.NodeKeyBy:
		return operators.NewKeyBy(n), nil
	case operators.NodeUnion:
		return operators.Union{}, nil
	case operators.NodeSink:
		switch n.Sink.Connector {
		case "file":
			return file.NewSink(n), nil
		case "stdout":
			if env.Stdout == nil {
				env.Stdout = os.Stdout
			}
			return stdio.NewSink(n, env.Stdout), nil
		case "blackhole":
			return &stdio.Blackhole{}, nil
		}
		return nil, fmt.Errorf("sink %q: unknown connector %q", n.ID, n.Sink.Connector)
	}
	return nil, fmt.Errorf("operator %q: a %s is not a native operator", n.ID, n.Kind)
}

// Promise is what a source or sink node promises, and why where that helps.
func Promise(n *operators.Node) operators.Promise {
	switch {
	case n.Source != nil && (n.Source.Connector == "stdin" || n.Source.Connector == "tcp"):
		return operators.PromiseLossy
	case n.Sink != nil && n.Sink.Connector == "stdout":
		return operators.PromiseAtLeastOnce
	}
	return operators.PromiseExactlyOnce
}

// Published is the path of what a sink node has published already; "": nothing, or the node keeps nothing.
func Published(n *operators.Node) (path string, err error) {
	if n.Kind != operators.NodeSink || n.Sink.Connector != "file" {
		return "", nil
	}
	return file.Published(n)
}

// Later lists what a sink node has published after a snapshot with these parts of it.
func Later(n *operators.Node, snaps []checkpoint.OperatorSnapshot) ([]string, error) {
	if n.Kind != operators.NodeSink || n.Sink.Connector != "file" {
		return nil, nil
	}
	return file.Later(n, snaps)
}

// Splits is how many splits a source will have at a first start; 0: as many as it has tasks, or unknown.
func Splits(n *operators.Node) int {
	switch n.Source.Connector {
	case "stdin", "tcp":
		return 1
	case "file":
		return file.Splits(n)
	case "generator":
		return n.Source.Generator.Splits
	}
	return 0
}
