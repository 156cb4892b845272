package engine

import (
	"bytes"

	"github.com/millrace-io/millrace/operators/guestop"
)

const imagePage = 4 << 10

// image is an instance just after initialisation: the pages of its memory that aren't zero, its mutable
// globals, and where its buffers are.
type image struct {
	size    int
	pages   []uint32 // page numbers, rising
	data    []byte   // their contents
	globals []uint64
	in, out uint32
	inCap   int
}

// resettable says that memory and globals are all that a module's code can change.
func (c *code) resettable() bool { return !c.wasm.ChangesTables && !c.wasm.DropsSegments }

func takeImage(g *Guest) *image {
	m := &image{size: len(g.scope.Memory), in: g.in, out: g.out, inCap: g.inCap}
	var zero [imagePage]byte
	for at := 0; at < m.size; at += imagePage {
		if p := g.scope.Memory[at : at+imagePage]; !bytes.Equal(p, zero[:]) {
			m.pages = append(m.pages, uint32(at/imagePage))
			m.data = append(m.data, p...)
		}
	}
	for _, name := range g.code.rewritten.Globals {
		m.globals = append(m.globals, g.module.global(name.Export).Get())
	}
	return m
}

// fits says that g can go back to m: a memory that has grown can't shrink, and the guest would see it.
func (m *image) fits(g *Guest) bool { return len(g.scope.Memory) == m.size }

// restore goes back to m in place.
func (m *image) restore(g *Guest) error {
	if err := g.module.zero(); err != nil {
		return err
	}
	m.write(g)
	return nil
}

// fill makes a bare instance what m was.
func (m *image) fill(g *Guest) error {
	if more := m.size - len(g.scope.Memory); more > 0 {
		if !g.module.grow(uint32(more / pageBytes)) {
			return g.newFault(guestop.FaultMemory, "", "%s", g.memory.refusal())
		}
	}
	if g.code.data == nil { // the engine has copied the segments
		return m.restore(g)
	}
	m.write(g)
	return nil
}

func (m *image) write(g *Guest) {
	for i, p := range m.pages {
		copy(g.scope.Memory[int(p)*imagePage:], m.data[i*imagePage:(i+1)*imagePage])
	}
	for i, name := range g.code.rewritten.Globals {
		g.module.global(name.Export).Set(m.globals[i])
	}
	g.in, g.out, g.inCap = m.in, m.out, m.inCap
	g.scope.Stdio.Reset()
}
