package engine

import (
	"fmt"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/host/instrument"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/state/memimage"
)

var _ guestop.Imager = (*Guest)(nil)

// captureProblems says why what d says of snapshots can't be done: a module whose instances' images would
// not hold all of them.
func captureProblems(d *abi.Descriptor, w *instrument.Module) []string {
	if d.Snapshot != "" && d.Snapshot != abi.SnapshotMemory {
		return []string{fmt.Sprintf("snapshot %q is unknown, expected none or %q", d.Snapshot, abi.SnapshotMemory)}
	}
	var problems []string
	add := func(yes bool, problem string) {
		if yes {
			problems = append(problems, "snapshot: memory: "+problem)
		}
	}
	for _, e := range []struct {
		said   bool
		what   string
		export string
	}{{d.Save, "save", abi.ExportSave}, {d.Load, "load", abi.ExportLoad}} {
		_, there := w.Export(e.export, instrument.KindFunc)
		add(e.said && !there, fmt.Sprintf("the descriptor says %s, but there is no export %s", e.what, e.export))
		add(e.said && d.Snapshot == "", fmt.Sprintf("the descriptor says %s, which is of modules with snapshot %q", e.what, abi.SnapshotMemory))
	}
	if d.Snapshot == "" {
		return problems
	}
	for i := range d.Functions {
		f := &d.Functions[i]
		add(f.Kind == abi.FunctionProcess && !f.Keyed, fmt.Sprintf("function %s is not keyed", f.Name))
	}
	add(w.ChangesTables, "its code changes tables (table.set, grow, fill, copy or init)")
	add(w.DropsSegments, "its code drops segments (data.drop or elem.drop)")
	for i, g := range w.Globals {
		add(g.Mutable && !isNumber(g.Type), fmt.Sprintf("its mutable global %d holds a reference", i))
	}
	return problems
}

func isNumber(t instrument.ValType) bool {
	return t == instrument.I32 || t == instrument.I64 || t == instrument.F32 || t == instrument.F64
}

// Capture implements guestop.Imager.
func (g *Guest) Capture(seed uint64, prev *memimage.Image, page func(n int, b []byte) error) (*memimage.Image, error) {
	img := &memimage.Image{Module: g.code.digest, In: g.in, Out: g.out, InBytes: g.inCap}
	none := memimage.ZeroHash(seed)
	memory := g.scope.Memory
	img.Pages = make([]memimage.Hash, 0, len(memory)/memimage.PageBytes)
	for n := 0; len(memory) > 0; n++ {
		b := memory[:memimage.PageBytes:memimage.PageBytes]
		memory = memory[memimage.PageBytes:]
		h := memimage.HashOf(b, seed)
		img.Pages = append(img.Pages, h)
		was := none
		if prev != nil && n < len(prev.Pages) {
			was = prev.Pages[n]
		}
		if h == was {
			continue
		}
		if err := page(n, b); err != nil {
			return nil, err
		}
	}
	for _, global := range g.code.rewritten.Globals {
		img.Globals = append(img.Globals, memimage.Global{Index: global.Index, Bits: g.module.global(global.Export).Get()})
	}
	return img, nil
}

// Adopt implements guestop.Imager.
func (g *Guest) Adopt(seed uint64, img *memimage.Image, page func(n int, b []byte) error) error {
	globals := g.code.rewritten.Globals
	switch {
	case img.Module != g.code.digest:
		return fmt.Errorf("engine: the memory image is of module %.12s, this is %.12s: another module can't read it", img.Module, g.code.digest)
	case len(img.Globals) != len(globals):
		return fmt.Errorf("engine: the memory image of module %.12s has %d globals, the module has %d", img.Module, len(img.Globals), len(globals))
	case len(img.Pages)*memimage.PageBytes%pageBytes != 0:
		return fmt.Errorf("engine: the memory image of module %.12s has %d pages of %d bytes, which is no whole memory", img.Module, len(img.Pages), memimage.PageBytes)
	}
	size := len(img.Pages) * memimage.PageBytes
	if err := g.fitMemory(size); err != nil {
		return err
	}
	none := memimage.ZeroHash(seed)
	for n, h := range img.Pages {
		if h == none {
			continue
		}
		b := g.scope.Memory[n*memimage.PageBytes : (n+1)*memimage.PageBytes : (n+1)*memimage.PageBytes]
		if err := page(n, b); err != nil {
			return err
		}
		if memimage.HashOf(b, seed) != h {
			return fmt.Errorf("engine: page %d of the memory image of module %.12s is not what was captured", n, img.Module)
		}
	}
	for i, global := range globals {
		if img.Globals[i].Index != global.Index {
			return fmt.Errorf("engine: the memory image of module %.12s has global %d where the module has %d", img.Module, img.Globals[i].Index, global.Index)
		}
		g.module.global(global.Export).Set(img.Globals[i].Bits)
	}
	g.in, g.out, g.inCap, g.frames = img.In, img.Out, img.InBytes, nil
	g.initial = nil // of another life
	return g.checkBuffers()
}

// fitMemory makes the memory all zero and of the image's size: it can only grow.
func (g *Guest) fitMemory(size int) error {
	more := size - len(g.scope.Memory)
	if more < 0 {
		return fmt.Errorf("engine: the memory image has %d KiB, a new instance of module %.12s has more, %d KiB", size>>10, g.code.digest, len(g.scope.Memory)>>10)
	}
	if more > 0 && !g.module.grow(uint32(more/pageBytes)) {
		return fmt.Errorf("engine: the memory image has %d KiB, the limit of an instance is %d KiB", size>>10, g.opts.MemoryBytes>>10)
	}
	return g.module.zero()
}

// checkBuffers holds the buffers of an image against its memory.
func (g *Guest) checkBuffers() error {
	size := uint64(len(g.scope.Memory))
	if g.in%8 != 0 || g.inCap < 0 || uint64(g.in)+uint64(g.inCap) > size || uint64(g.out)+uint64(g.opts.OutputBytes) > size {
		return fmt.Errorf("engine: the memory image of module %.12s has buffers outside its memory", g.code.digest)
	}
	return nil
}
