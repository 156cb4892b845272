package engine

import (
	"context"

	"github.com/millrace-io/millrace/host/hostcall"
)

// program is compiled code from which bare instances are made: wazero's, or with the build tag wasmtime that
// engine's.
type program interface {
	// instantiate makes an instance in which no code has run. Its memory is seen as g.scope.Memory, and is
	// limited to what g's options say.
	instantiate(g *Guest) (instance, error)
	close() error
}

// instance is what the host uses of a module's instance. Names are those of exports.
type instance interface {
	function(name string) function    // nil: there is none
	global(name string) hostcall.Word // nil: there is none, or it can't be set
	grow(pages uint32) bool
	zero() error // all of the memory
	close() error
}

// function is an exported function: parameters in stack, the result in stack[0]. The context is the Scope.
type function interface {
	CallWithStack(ctx context.Context, stack []uint64) error
}
