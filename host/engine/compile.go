package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/host/instrument"
)

// compile takes wasm through all stages. On an error nothing is left behind.
func (c *code) compile(ctx context.Context, o Options, wasm []byte) (err error) {
	if c.wasm, err = instrument.Validate(wasm, o.Limits); err != nil {
		return refusedBy(err)
	}
	if problems := checkContract(c.wasm); len(problems) > 0 {
		return &Refused{Problems: problems}
	}
	if err = c.rewrite(wasm); err != nil {
		return err
	}
	if c.program, err = build(ctx, c, o); err != nil {
		return err
	}
	if c.descriptor, err = c.describe(o); err != nil {
		return errors.Join(err, c.free())
	}
	return nil
}

func build(ctx context.Context, c *code, o Options) (program, error) {
	if o.Wasmtime {
		return buildWasmtime(ctx, c, o)
	}
	return buildWazero(ctx, c, o)
}

// rewrite makes what is compiled. The data segments are left out where the module's code can't tell, and
// copied by each instance: the engine takes 2 to 4 ms for those of a Go guest, a copy 0.3.
func (c *code) rewrite(wasm []byte) (err error) {
	o := instrument.DefaultOptions()
	if !c.wasm.PassiveSegments && !c.wasm.DropsSegments {
		o.DropData = true
		if c.data, err = activeData(wasm, int64(c.wasm.Memories[0].Min)*pageBytes); err != nil {
			return &Refused{Problems: []string{err.Error()}}
		}
	}
	if c.rewritten, err = instrument.Rewrite(wasm, c.wasm, o); err != nil {
		return refusedBy(err)
	}
	return nil
}

// refusedBy turns what the validator or rewriter says into a Refused.
func refusedBy(err error) error {
	var v *instrument.ValidationError
	if !errors.As(err, &v) {
		return &Refused{Problems: []string{err.Error()}}
	}
	r := &Refused{}
	for _, p := range v.Problems {
		r.Problems = append(r.Problems, p.String())
	}
	return r
}

// describe finds out what the module says of itself; nil if it says nothing.
func (c *code) describe(o Options) (*abi.Descriptor, error) {
	if b, ok := c.wasm.Customs[abi.DescriptorSection]; ok {
		return parseDescriptor(b, fmt.Sprintf("the custom section %q", abi.DescriptorSection))
	}
	if _, ok := c.wasm.Export(abi.ExportDescribe, instrument.KindFunc); !ok {
		return nil, nil
	}
	b, err := c.callDescribe(o)
	if err != nil {
		return nil, err
	}
	return parseDescriptor(b, "the answer of "+abi.ExportDescribe)
}
