package instrument

func (r *rewriter) reader(s section) reader { return reader{buf: r.wasm, pos: s.start, end: s.end} }

func (r *rewriter) functionSection(section) []byte {
	defined := r.mod.Funcs[r.mod.ImportedFuncs:]
	n := len(defined)
	if len(r.redirect) > 0 {
		n++
	}
	d := appendU32(nil, uint32(n))
	for _, t := range defined {
		d = appendU32(d, t)
	}
	if len(r.redirect) > 0 {
		d = appendU32(d, r.nextType)
	}
	return d
}

// tableSection gives every table a maximum within the limit, so that table.grow beyond it returns -1.
func (r *rewriter) tableSection(section) []byte {
	d := appendU32(nil, uint32(len(r.mod.Tables))) // none is imported
	for _, t := range r.mod.Tables {
		limit := max(uint32(r.opt.TableEntries), t.Min)
		if t.HasMax {
			limit = min(limit, t.Max)
		}
		d = append(d, byte(t.Elem), 1)
		d = appendU32(appendU32(d, t.Min), limit)
	}
	return d
}

// globalSection adds the host's globals. Before a host has set them a guest can't run at all.
func (r *rewriter) globalSection(s section) []byte {
	added := []struct {
		t    ValType
		init int64
	}{{I64, 0}, {I64, 0}, {I64, 0}, {I64, -1}, {I64, 0}, {I32, -1}, {I32, 0}} // the order of nameGlobals
	d := appendU32(nil, uint32(len(r.mod.Globals)+len(added)))
	if s.end > s.start {
		in := r.reader(s)
		for n := in.u32(); n > 0; n-- {
			d = append(d, in.bytes(2, "type")...)
			d = r.constExpr(d, &in)
		}
	}
	for _, g := range added {
		op := byte(opI64Const)
		if g.t == I32 {
			op = opI32Const
		}
		d = append(d, byte(g.t), 1, op)
		d = append(appendSigned(d, g.init), opEnd)
	}
	return d
}

// constExpr copies a constant expression.
func (r *rewriter) constExpr(d []byte, in *reader) []byte {
	var i instr
	for {
		in.decode(&i)
		to, ok := r.redirect[i.imm]
		if i.op == opRefFunc && ok {
			d = appendU32(append(d, opRefFunc), to)
		} else {
			d = append(d, r.wasm[i.pos:i.end]...)
		}
		if i.op == opEnd {
			return d
		}
	}
}

func (r *rewriter) target(fn uint32) uint32 {
	if to, ok := r.redirect[fn]; ok {
		return to
	}
	return fn
}

func (r *rewriter) exportSection() []byte {
	d := appendU32(nil, uint32(len(r.mod.Exports)+len(r.exports)))
	for _, list := range [][]Export{r.mod.Exports, r.exports} {
		for _, e := range list {
			index := e.Index
			if e.Kind == KindFunc {
				index = r.target(index)
			}
			d = appendU32(append(appendName(d, e.Name), byte(e.Kind)), index)
		}
	}
	return d
}

func (r *rewriter) elementSection(s section) []byte {
	if len(r.redirect) == 0 {
		return r.wasm[s.start:s.end]
	}
	in := r.reader(s)
	n := in.u32()
	d := appendU32(nil, n)
	for ; n > 0; n-- {
		flags := in.u32()
		d = appendU32(d, flags)
		if flags&1 == 0 {
			if flags&2 != 0 {
				d = appendU32(d, in.u32())
			}
			d = r.constExpr(d, &in)
		}
		if flags&3 != 0 {
			d = append(d, in.byte())
		}
		items := in.u32()
		d = appendU32(d, items)
		for ; items > 0; items-- {
			if flags&4 != 0 {
				d = r.constExpr(d, &in)
			} else {
				d = appendU32(d, r.target(in.u32()))
			}
		}
	}
	return d
}

func (r *rewriter) codeSection() []byte {
	n := len(r.mod.bodies)
	if len(r.redirect) > 0 {
		n++
	}
	d := make([]byte, 0, len(r.wasm))
	d = appendU32(d, uint32(n))
	r.meter = meter{fuel: r.opt.Fuel, exact: r.opt.exact, inline: r.opt.InlineNext,
		imports: uint32(r.mod.ImportedFuncs), redirect: r.redirect}
	var c code
	for i, b := range r.mod.bodies {
		c = r.body(c[:0], uint32(r.mod.ImportedFuncs+i), b)
		d = append(appendU32(d, uint32(len(c))), c...)
		r.out.CodeBefore += b.end - b.start
		r.out.CodeAfter += len(c)
		r.out.NextCalls += r.meter.sites
	}
	if len(r.redirect) > 0 {
		c = append(c[:0], 0) // no locals
		r.next(&c, 0)
		c.op(opEnd)
		d = append(appendU32(d, uint32(len(c))), c...)
	}
	return d
}

// body writes one function with its changes.
func (r *rewriter) body(c code, fn uint32, b span) code {
	m := &r.meter
	m.reader = reader{buf: r.wasm, pos: b.start, end: b.end}
	groups := m.u32()
	first := m.pos
	locals := uint32(len(r.mod.FuncType(fn).Params))
	for i := uint32(0); i < groups; i++ {
		locals += m.u32()
		m.pos++
	}
	start := m.pos
	m.plan()
	if m.temps {
		c = appendU32(c, groups+1)
		c = append(c, r.wasm[first:start]...)
		c = append(c, 2, byte(I32))
	} else {
		c = append(c, r.wasm[b.start:start]...)
	}
	at := start
	for _, e := range m.edits {
		if e.kind == editCharge && m.stretches[e.arg].weight == 0 && !m.stretches[e.arg].check {
			continue
		}
		c = append(c, r.wasm[at:e.pos]...)
		at = e.pos + e.cut
		switch e.kind {
		case editCharge:
			s := &m.stretches[e.arg]
			if s.weight > 0 {
				r.charge(&c, s.weight)
			}
			if s.check {
				r.test(&c)
			}
		case editIndex:
			c = appendU32(c, e.arg)
		case editBulk:
			c.u32(opLocalTee, locals)
			r.chargeLocal(&c, locals, e.arg, opI64ShrU)
		case editGrow:
			r.grow(&c, shortest(r.wasm[e.pos:e.pos+e.cut]), locals, e.arg)
		case editNextCode:
			c.u32(opLocalSet, locals)
			r.next(&c, locals)
		}
	}
	return append(c, r.wasm[at:b.end]...)
}

// shortest encodes the opcode of an instruction without padding.
func shortest(instruction []byte) []byte {
	if instruction[0] != opPrefixFC || instruction[1] < 0x80 {
		return instruction
	}
	in := reader{buf: instruction, pos: 1, end: len(instruction)}
	d := appendU32([]byte{opPrefixFC}, in.u32())
	return append(d, instruction[in.pos:]...)
}
