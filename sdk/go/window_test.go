package millrace

import (
	"errors"
	"slices"
	"testing"
)

type mean struct {
	N   uint64
	Sum float64
}

type meanLogic struct{}

func (meanLogic) Create() mean { return mean{} }

func (meanLogic) Add(_ *Ctx, acc *mean, rec Record) error {
	row, err := rec.Row(1)
	if err != nil {
		return err
	}
	if v, ok := row.Int(0); ok {
		acc.N++
		acc.Sum += float64(v)
	}
	return nil
}

func (meanLogic) Retract(_ *Ctx, acc *mean, rec Record) error {
	row, err := rec.Row(1)
	if err != nil {
		return err
	}
	if v, ok := row.Int(0); ok {
		acc.N--
		acc.Sum -= float64(v)
	}
	return nil
}

func (meanLogic) Merge(_ *Ctx, acc, other *mean) error {
	acc.N += other.N
	acc.Sum += other.Sum
	return nil
}

func (meanLogic) Result(ctx *Ctx, acc *mean, w Window) error {
	if w.End() == 0 {
		return errors.New("a window that ends at 0")
	}
	return ctx.Emit().Row(1).Float(0, acc.Sum/float64(acc.N)).Send()
}

type joinLogic struct{}

func (joinLogic) Create() []byte { return nil }

func (joinLogic) Add(_ *Ctx, acc *[]byte, rec Record) error {
	*acc = append(*acc, rec.Value()...)
	return nil
}

func (joinLogic) Merge(_ *Ctx, acc, other *[]byte) error {
	*acc = append(*acc, *other...)
	return nil
}

func (joinLogic) Result(ctx *Ctx, acc *[]byte, _ Window) error {
	return ctx.Emit().Row(1).Bytes(0, *acc).Send()
}

func windowModule() *Module {
	odd := NewOutput("odd")
	m := &Module{Name: "windows", Functions: []Function{
		{Name: "mean", Input: []Field{{"amount", Int64}}, Output: []Field{{"mean", Float64}}, Aggregate: NewAggregate(Struct[mean](), meanLogic{})},
		{Name: "joined", Output: []Field{{"text", String}}, Aggregate: NewAggregate(Bounded(12), joinLogic{})},
		{Name: "longest", SideOutputs: []*Output{odd}, OnWindow: func(ctx *Ctx, w Window) error {
			best := ""
			err := w.Elements(func(r Record) error {
				s, err := r.Text()
				if len(s) > len(best) {
					best = s
				}
				return err
			})
			if err != nil {
				return err
			}
			if w.Len()%2 == 1 {
				if err := ctx.Emit().To(odd).Value([]byte("odd")); err != nil {
					return err
				}
			}
			return ctx.Emit().Value([]byte(best))
		}},
	}}
	m.bind()
	return m
}

func TestAggregates(t *testing.T) {
	h := NewHarness(windowModule(), "mean")
	var records []Input
	for v := range 10 {
		records = append(records, InRow("k", 5, v*v))
	}
	var all, a, b, merged Accumulator
	h.Add(&all, records...)
	h.Add(&a, records[:3]...)
	h.Add(&b, records[3:]...)
	h.Merge(&merged, nil, a, b)
	if !slices.Equal(merged, all) || len(all) != 16 {
		t.Errorf("parts merge to %x, all give %x", merged, all)
	}
	h.Retract(&merged, records[3:]...)
	if !slices.Equal(merged, a) {
		t.Errorf("without the second part: %x, expected %x", merged, a)
	}
	h.Result(all, TestWindow{End: 10, Key: []byte("k")})
	out := h.Outputs()
	if len(out) != 1 || !out[0].Equal(InRow("k", 9, 28.5)) {
		t.Errorf("result %+v", out)
	}
	h.Result(all, TestWindow{Start: -5})
	if f := h.Failures(); len(f) != 1 || f[0].Message != "a window that ends at 0" {
		t.Errorf("failures %+v", f)
	}

	h = NewHarness(windowModule(), "joined")
	var j Accumulator
	h.Add(&j, In("", "first", 0), In("", "much too long", 0), In("", "second", 0))
	if string(j) != "firstsecond" {
		t.Errorf("joined %q", j)
	}
	h.Retract(&j, In("", "first", 0))
	if f := h.Failures(); len(f) != 2 || f[1].Message != errNoRetract.Error() {
		t.Errorf("failures %+v", f)
	}
}

func TestWindowFunction(t *testing.T) {
	h := NewHarness(windowModule(), "longest")
	h.FireWindow(TestWindow{Start: 0, End: 60, Key: []byte("k")}, In("", "a", 1), In("", "long", 2), In("", "bc", 3))
	if got := h.Texts(); !slices.Equal(got, []string{"odd: odd", "long"}) {
		t.Errorf("outputs %q", got)
	}
	h.FireWindow(TestWindow{End: 60}, Input{})
	if f := h.Failures(); len(f) != 1 {
		t.Errorf("failures %+v", f)
	}
}

func TestDescriptionOfWindowFunctions(t *testing.T) {
	const want = `{"abi":0,"name":"windows","sdk":"go 0.1.0","functions":[` +
		`{"name":"mean","kind":"aggregate","retracts":true,"input":[{"name":"amount","type":"int64"}],"output":[{"name":"mean","type":"float64"}],"states":[{"name":"accumulator","kind":"value","max_bytes":16}]},` +
		`{"name":"joined","kind":"aggregate","output":[{"name":"text","type":"string"}],"states":[{"name":"accumulator","kind":"value","max_bytes":12}]},` +
		`{"name":"longest","kind":"window","outputs":["odd"]}]}`
	if got := string(windowModule().Describe()); got != want {
		t.Errorf("%s\nexpected\n%s", got, want)
	}
}
