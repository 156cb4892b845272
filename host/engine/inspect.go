package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sort"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/host/instrument"
	"github.com/millrace-io/millrace/operators/guestop"
)

// Report is what can be said of a module, for `millrace inspect`.
type Report struct {
	Digest     string          `json:"digest"`
	Bytes      int             `json:"bytes"`
	ABI        int             `json:"abi"` // -1: none
	Descriptor *abi.Descriptor `json:"descriptor,omitempty"`
	Imports    []string        `json:"imports"` // "mr.get (i32, ...) -> (i64)"
	Exports    []string        `json:"exports"`
	Memory     MemoryReport    `json:"memory"`
	Problems   []string        `json:"problems,omitempty"` // why it can't be used; empty: it can

	Functions      int      `json:"functions"` // that have code
	LargestBody    int      `json:"largest_body_bytes"`
	CodeBytes      int      `json:"code_bytes"`
	RewrittenBytes int      `json:"rewritten_bytes,omitempty"`
	RewrittenCode  int      `json:"rewritten_code_bytes,omitempty"`
	NextCalls      int      `json:"next_calls"` // direct calls of mr.next
	Globals        int      `json:"mutable_globals"`
	Customs        []string `json:"custom_sections,omitempty"`
	ResetsInPlace  bool     `json:"resets_in_place"` // a fault costs microseconds, not a new instance
}

// MemoryReport is the linear memory that a module declares.
type MemoryReport struct {
	MinBytes int64 `json:"min_bytes"`
	MaxBytes int64 `json:"max_bytes,omitempty"` // 0: none declared
}

// Inspect looks into a module. A module that can't be used gives a report with problems; the error is
// about the host.
func Inspect(wasm []byte) (Report, error) {
	sum := sha256.Sum256(wasm)
	r := Report{Digest: hex.EncodeToString(sum[:]), Bytes: len(wasm), ABI: -1}
	e, err := New(context.Background(), Options{})
	if err != nil {
		return r, err
	}
	if m, err := instrument.Validate(wasm, e.opts.Limits); err == nil {
		r.contents(m)
	}
	c, err := e.code(context.Background(), wasm)
	if err != nil {
		return r, r.refuse(err)
	}
	rw := c.rewritten
	r.RewrittenBytes, r.CodeBytes, r.RewrittenCode = len(rw.Wasm), rw.CodeBefore, rw.CodeAfter
	r.NextCalls, r.Globals = rw.NextCalls, len(rw.Globals)
	r.ResetsInPlace = c.resettable()
	if r.Descriptor = c.descriptor; r.Descriptor != nil {
		r.Problems = checkDescriptor(r.Descriptor, c.wasm)
	}
	return r, c.release()
}

// refuse notes what is wrong with the module; any other error is handed back.
func (r *Report) refuse(err error) error {
	var refused *Refused
	var fault *guestop.Fault
	switch {
	case errors.As(err, &refused):
		r.Problems = refused.Problems
	case errors.As(err, &fault):
		r.Problems = []string{fault.Error()}
	default:
		return err
	}
	return nil
}

func (r *Report) contents(m *instrument.Module) {
	for _, imp := range m.Imports {
		r.Imports = append(r.Imports, fmt.Sprintf("%s.%s %s", imp.Module, imp.Name, imp.Type))
	}
	for _, e := range m.Exports {
		s := fmt.Sprintf("%s %s", e.Kind, e.Name)
		if e.Kind == instrument.KindFunc {
			s = fmt.Sprintf("%s %s", e.Name, e.Type)
		}
		r.Exports = append(r.Exports, s)
	}
	if _, ok := m.Export(abi.ExportVersion, instrument.KindFunc); ok {
		r.ABI = abi.Version
	}
	if len(m.Memories) > 0 {
		r.Memory.MinBytes = int64(m.Memories[0].Min) * pageBytes
		if m.Memories[0].HasMax {
			r.Memory.MaxBytes = int64(m.Memories[0].Max) * pageBytes
		}
	}
	r.Functions = len(m.Funcs) - m.ImportedFuncs
	r.LargestBody = m.LargestBody
	for name := range m.Customs {
		r.Customs = append(r.Customs, name)
	}
	sort.Strings(r.Customs)
}
