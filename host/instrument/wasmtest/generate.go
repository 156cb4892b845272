package wasmtest

import "math/rand/v2"

// Program is a generated module and how to run it: each function of Runs takes two i32 and gives one.
// It ends after a bounded number of steps, may trap, and leaves its effects in memory, in the exported
// globals g0, g1, ... and in the table.
type Program struct {
	Module *Module
	Runs   []string
	Steps  uint32 // index of the global that counts down at each loop turn and call
}

// generator makes functions out of statements on typed locals. Loops and calls take from a step counter
// and leave when it is empty, so that every program ends.
type generator struct {
	rng    *rand.Rand
	m      *Module
	steps  uint32
	fns    []uint32 // callable functions (i32, i32) -> i32
	pair   uint32   // type (i32, i32) -> (i32, i64)
	pairFn uint32
	binary uint32 // type (i32, i32) -> i32
	logFn  uint32
}

// StepsPerRun is what the step counter begins with; set it again before each run.
const StepsPerRun = 400

const (
	genLocals = 6    // i32 locals, the parameters among them; locals 6 and 7 are i64
	genMemory = 4096 // bytes of memory used
)

// Generate makes a program from a seed: loops, nested blocks, br_if, br_table, if with and without else,
// direct and indirect calls, recursion, several results, memory access, bulk memory, memory.grow,
// table.grow, globals, dead code, and host calls of env.log.
func Generate(seed uint64) *Program {
	m := &Module{
		Memories: []Memory{{Min: 1, Max: 4}},
		Tables:   []Table{{Min: 8}},
	}
	g := &generator{rng: rand.New(rand.NewPCG(seed, 1)), m: m}
	two := []byte{I32, I32}
	g.logFn = m.Import("env", "log", []byte{I32}, nil)
	g.binary = m.Type(two, []byte{I32})
	g.pair = m.Type(two, []byte{I32, I64})
	g.steps = m.Global(I32, true, I32Const(StepsPerRun))
	for i := 0; i < 3; i++ {
		m.Global(I32, true, I32Const(int32(g.rng.Uint32())))
	}
	m.Global(I64, true, I64Const(int64(g.rng.Uint64())))
	g.pairFn = m.Func(two, []byte{I32, I64}, nil, LocalGet(0), LocalGet(1), I32Mul, LocalGet(1), Op(0xac))
	p := &Program{Module: m, Steps: g.steps}
	locals := []byte{I32, I32, I32, I32, I64, I64}
	n := 2 + g.rng.IntN(5)
	first := uint32(len(m.Imports) + len(m.Funcs))
	for i := 0; i < n; i++ {
		g.fns = append(g.fns, first+uint32(i)) // a function may call any other, itself too
	}
	for i := 0; i < n; i++ {
		name := "f" + string(rune('0'+i))
		m.ExportFunc(name, two, []byte{I32}, locals, g.tick(Code(I32Const(0), Return)), g.statements(2+int(seed%2), 0), g.expr(3))
		p.Runs = append(p.Runs, name)
	}
	m.Elems = []Elem{{Funcs: g.fns}}
	m.Export("memory", KindMemory, 0)
	for i := range m.Globals {
		m.Export("g"+string(rune('0'+i)), KindGlobal, uint32(i))
	}
	m.DataCount = true
	m.Datas = []Data{{Offset: 64, Bytes: []byte("millrace")}, {Passive: true, Bytes: []byte("passive data")}}
	return p
}

// tick counts a step and runs leave when there is none left.
func (g *generator) tick(leave []byte) []byte {
	return Code(GlobalGet(g.steps), I32Eqz, If(Void), leave, End,
		GlobalGet(g.steps), I32Const(1), I32Sub, GlobalSet(g.steps))
}

func (g *generator) statements(depth, labels int) []byte {
	var d []byte
	for n := 1 + g.rng.IntN(4); n > 0; n-- {
		d = append(d, g.statement(depth, labels)...)
	}
	return d
}

func (g *generator) local() uint32 { return uint32(g.rng.IntN(genLocals)) }

// statement leaves the stack as it was; labels is the number of void blocks around it.
func (g *generator) statement(depth, labels int) []byte {
	k := g.rng.IntN(20)
	if depth > 0 && k < 8 {
		return g.compound(k, depth, labels)
	}
	switch k {
	case 8:
		if labels > 0 {
			return Code(g.expr(2), BrIf(uint32(g.rng.IntN(labels))))
		}
	case 9:
		return Code(g.address(), g.expr(2), I32Store(uint32(g.rng.IntN(64))))
	case 10:
		return Code(g.address(), g.wide(2), I64Store(uint32(g.rng.IntN(64))))
	case 11:
		return Code(g.expr(2), GlobalSet(1+uint32(g.rng.IntN(3))))
	case 12:
		return Code(g.wide(2), LocalSet(6+uint32(g.rng.IntN(2))))
	case 13:
		return g.bulk()
	case 14:
		return Code(g.expr(1), Call(g.logFn))
	case 15:
		return Code(LocalGet(g.local()), LocalGet(g.local()), Call(g.pairFn), LocalSet(6), LocalSet(g.local()))
	case 16:
		if g.rng.IntN(4) == 0 && labels > 0 { // dead code behind a branch
			return Code(Block(Void), Br(uint32(g.rng.IntN(labels+1))), I32Add, Drop, End)
		}
	case 17:
		if g.rng.IntN(40) == 0 {
			return Code(g.expr(1), If(Void), Unreachable, End)
		}
	}
	return Code(g.expr(3), LocalSet(g.local()))
}

// compound makes statements with statements inside.
func (g *generator) compound(k, depth, labels int) []byte {
	inner := func(more int) []byte { return g.statements(depth-1, labels+more) }
	switch k {
	case 0, 1: // a loop that is left through its block or by falling out
		again := Code(g.expr(1), BrIf(0))
		if g.rng.IntN(5) == 0 {
			again = nil // a loop that nobody repeats
		}
		return Code(Block(Void), Loop(Void), g.tick(Br(2)), g.statements(depth-1, 0), again, End, End)
	case 2:
		return Code(g.expr(2), If(Void), inner(1), End)
	case 3:
		return Code(g.expr(2), If(Void), inner(1), Else, inner(1), End)
	case 4:
		return Code(Block(Void), inner(1), End)
	case 5: // switch
		n := 2 + g.rng.IntN(3)
		targets := make([]uint32, n+1)
		for i := range targets {
			targets[i] = uint32(g.rng.IntN(n))
		}
		d := Code(Times(n, Block(Void)), g.expr(2), BrTable(targets...))
		for i := 0; i < n; i++ {
			d = Code(d, End, g.statements(depth-1, labels+n-1-i))
		}
		return d
	case 6: // block with parameters and results
		return Code(LocalGet(g.local()), LocalGet(g.local()), []byte{0x02}, S64(int64(g.pair)),
			LocalSet(g.local()), LocalSet(g.local()), g.expr(2), g.wide(1), g.expr(1), BrIf(0), End,
			LocalSet(7), LocalSet(g.local()))
	default: // if with a result
		return Code(g.expr(2), If(I32), g.expr(2), Else, g.statements(depth-1, 0), g.expr(2), End, LocalSet(g.local()))
	}
}

// address is an i32 in the used part of memory, sometimes a wild one.
func (g *generator) address() []byte {
	if g.rng.IntN(60) == 0 {
		return g.expr(1)
	}
	return Code(g.expr(2), I32Const(genMemory-1), I32And)
}

func (g *generator) bulk() []byte {
	length := Code(LocalGet(g.local()), I32Const(255), I32And)
	if g.rng.IntN(2) == 0 {
		length = I32Const(int32(g.rng.IntN(2000)))
	}
	switch g.rng.IntN(6) {
	case 0:
		return Code(g.address(), g.expr(1), length, MemoryFill)
	case 1, 2:
		return Code(g.address(), g.address(), length, MemoryCopy)
	case 3:
		return Code(g.address(), I32Const(int32(g.rng.IntN(6))), I32Const(int32(g.rng.IntN(7))), Op(0xfc, 8, 1, 0))
	case 4:
		return Code(I32Const(int32(g.rng.IntN(3))), MemoryGrow, LocalSet(g.local()))
	default:
		return Code(Op(0xd0, FuncRef), I32Const(int32(g.rng.IntN(3))), TableGrow(0), LocalSet(g.local()))
	}
}

// expr leaves an i32.
func (g *generator) expr(depth int) []byte {
	if depth == 0 {
		if g.rng.IntN(2) == 0 {
			return I32Const(int32(g.rng.Uint32()) >> g.rng.IntN(32))
		}
		return LocalGet(g.local())
	}
	ops := []byte{0x46, 0x48, 0x49, 0x4f, 0x6a, 0x6b, 0x6c, 0x71, 0x72, 0x73, 0x74, 0x75, 0x76, 0x77}
	e := func() []byte { return g.expr(depth - 1) }
	switch g.rng.IntN(16) {
	case 0, 1, 2, 3, 4, 5:
		return Code(e(), e(), Op(ops[g.rng.IntN(len(ops))]))
	case 6:
		return Code(e(), e(), I32Const(1), I32Or, Op(0x6e+byte(2*g.rng.IntN(2)))) // division by an odd number
	case 7:
		return Code(g.address(), I32Load(uint32(g.rng.IntN(64))))
	case 8:
		return GlobalGet(uint32(1 + g.rng.IntN(3)))
	case 9:
		return Code(e(), e(), e(), Op(0x1b)) // select
	case 10:
		return Code(g.wide(depth-1), Op(0xa7))
	case 11:
		return Code(e(), e(), Call(g.fns[g.rng.IntN(len(g.fns))]))
	case 12:
		return Code(e(), e(), e(), I32Const(7), I32And, CallIndirect(g.binary)) // null entries trap
	case 13:
		return Code(e(), LocalTee(g.local()))
	case 14:
		return MemorySize
	default:
		return Code(Block(I32), e(), e(), BrIf(0), Drop, e(), End)
	}
}

// wide leaves an i64.
func (g *generator) wide(depth int) []byte {
	if depth == 0 {
		return I64Const(int64(g.rng.Uint64()) >> g.rng.IntN(64))
	}
	switch g.rng.IntN(5) {
	case 0:
		return Code(g.expr(depth-1), Op(0xad))
	case 1:
		return Code(g.wide(depth-1), g.wide(depth-1), Op(0x7c+byte(g.rng.IntN(3))))
	case 2:
		return GlobalGet(4)
	case 3:
		return LocalGet(6 + uint32(g.rng.IntN(2)))
	default:
		return Code(g.wide(depth-1), Op(0xb9), Op(0xfc, 6)) // to f64 and back, saturating
	}
}
