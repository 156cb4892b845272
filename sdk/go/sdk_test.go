package millrace

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
)

type every struct {
	A uint8
	B int16
	C bool
	D float64
	E [3]byte
	F uint64
}

var (
	all      = NewValue("all", Struct[every]())
	last     = NewValue("last", Bounded(4))
	elements = NewList("list", Struct[every]())
	table    = NewMap("map", Int64Key, Uint64Value)
	long     = NewValue("long", TextValue)
	one      = NewOutput("one")
	two      = NewOutput("two")
)

var module = Register(Module{Name: "sdk", Functions: []Function{
	{Name: "states", Kind: Process, Keyed: true, States: []State{all, last, elements, table, long}, OnRecord: useStates},
	{Name: "json", Kind: Map, OnRecord: writeJSON},
	{Name: "rows", Kind: Map, OnRecord: writeRow,
		Input:  []Field{{"n", Int64}, {"s", String}},
		Output: []Field{{"s", String}, {"n", Int64}, {"f", Float64}, {"b", Bool}, {"x", Bytes}}},
	{Name: "odd", Kind: Filter, Keep: odd},
	{Name: "unkeyed", Kind: Process, OnRecord: unkeyed},
	{Name: "timed", Kind: Process, Keyed: true, SideOutputs: []*Output{one, two}, Timers: []Domain{ProcessingTime}, OnRecord: timed, OnTimer: onTimer},
}})

func useStates(ctx *Ctx, rec Record) error {
	text, err := rec.Text()
	if err != nil {
		return err
	}
	if text == "too long" {
		return last.Set(ctx, []byte(text))
	}
	a, _, err := all.Get(ctx)
	a = every{1, -2, true, 0.5, [3]byte([]byte("xyz")), a.F + 1}
	err = errors.Join(err, all.Set(ctx, a), elements.Append(ctx, a), table.Put(ctx, -int64(a.F), a.F), long.Set(ctx, strings.Repeat(text, 1000)))
	if err != nil {
		return err
	}
	if text == "fail" {
		return fmt.Errorf("failed at %d", a.F)
	}
	var keys []string
	err = table.Scan(ctx, func(k int64, v uint64) (bool, error) {
		keys = append(keys, fmt.Sprint(k, v))
		return len(keys) < 2, nil
	})
	n := 0
	err = errors.Join(err, elements.Each(ctx, func(e every) error {
		n++
		if e.E != a.E {
			return errors.New("not what was appended")
		}
		return nil
	}))
	s, _, longErr := long.Get(ctx)
	if err = errors.Join(err, longErr); err != nil {
		return err
	}
	return ctx.Emit().Text(fmt.Sprint(a.F, keys, n, len(s)))
}

func TestStatesOfAFailedRecordAreAsBefore(t *testing.T) {
	h := NewHarness(module, "states")
	h.Send(In("k", "a", 0), In("k", "b", 0), In("k", "fail", 0), In("k", "c", 0), In("k", "too long", 0))
	want := []string{"1 [-1 1] 1 1000", "2 [-2 2 -1 1] 2 1000", "3 [-3 3 -2 2] 3 1000"}
	if got := h.Texts(); !slices.Equal(got, want) {
		t.Errorf("outputs %q", got)
	}
	f := h.Failures()
	if len(f) != 2 || f[0].Message != "failed at 3" || f[1].Message != "value of 8 bytes, at most 4 are declared" {
		t.Errorf("failures %v", f)
	}
}

func TestBatchesDoNotChangeWhatComesOut(t *testing.T) {
	whole, single := NewHarness(module, "states"), NewHarness(module, "states")
	var records []Input
	for i := range 50 {
		v := "x"
		if i%7 == 3 {
			v = "fail"
		}
		records = append(records, In(strconv.Itoa(i%3), v, 0))
		single.Send(records[i])
	}
	whole.Send(records...)
	a, b := whole.Texts(), single.Texts()
	if len(a) != 43 || !slices.Equal(a, b) {
		t.Errorf("%d outputs whole, %d in single records", len(a), len(b))
	}
}

func TestStructCodecIsPackedLittleEndian(t *testing.T) {
	c := Struct[every]()
	v := every{1, -2, true, 0.5, [3]byte([]byte("xyz")), 7}
	b, err := c.Append(nil, v)
	want := append([]byte{1, 0xfe, 0xff, 1}, le.AppendUint64(nil, math.Float64bits(0.5))...)
	want = le.AppendUint64(append(want, "xyz"...), 7)
	if err != nil || string(b) != string(want) || c.MaxBytes() != len(want) {
		t.Errorf("%x, %v, expected %x", b, err, want)
	}
	if got, err := c.Decode(b); err != nil || got != v {
		t.Errorf("decoded %+v, %v", got, err)
	}
	if _, err := c.Decode(b[1:]); err == nil {
		t.Error("a short one is decoded")
	}
	b[3] = 2
	if _, err := c.Decode(b); err == nil {
		t.Error("a bool of 2 is decoded")
	}
}

func writeJSON(ctx *Ctx, rec Record) error {
	w := ctx.Emit().JSON().Bytes("v", rec.Value()).Int("min", math.MinInt64).Uint("max", math.MaxUint64).Bool("t", true).Null("z").Raw("a", "[1]").
		Fixed("f0", 1250, 3).Fixed("f1", -5, 3).Fixed("f2", 0, 2).Fixed("f3", math.MinInt64, 1).Fixed("f4", 7, 0)
	for _, f := range []float64{0, 1, -0.1, 1e-6, 9.5e-7, 1e20, 1e21, -1.5e300, math.NaN(), math.Inf(1)} {
		w.Float("x", f)
	}
	return w.Send()
}

// The Rust SDK's test has the same text.
func TestJSONIsWrittenAsInRust(t *testing.T) {
	h := NewHarness(module, "json")
	h.Send(In("", "a\"\\\n\r\t\x01\x1f\x7f/\xc3\xa9\xff\xe2\x82\xe2\x82\xac", 0))
	want := `{"v":"a\"\\\n\r\t\u0001\u001f` + "\x7f/é\ufffd\ufffd\ufffd€" +
		`","min":-9223372036854775808,"max":18446744073709551615,"t":true,"z":null,"a":[1],` +
		`"f0":1.250,"f1":-0.005,"f2":0.00,"f3":-922337203685477580.8,"f4":7,` +
		`"x":0,"x":1,"x":-0.1,"x":0.000001,"x":9.5e-7,"x":100000000000000000000,"x":1e+21,"x":-1.5e+300,"x":null,"x":null}`
	if got := h.Texts()[0]; got != want {
		t.Errorf("wrote\n%s, expected\n%s", got, want)
	}
}

func writeRow(ctx *Ctx, rec Record) error {
	row, err := rec.Row(2)
	if err != nil {
		return err
	}
	w := ctx.Emit().Row(5)
	if n, ok := row.Int(0); ok {
		w.Int(1, n+1).Float(2, float64(n)/2).Bool(3, n > 0)
	}
	if s, ok := row.Str(1); ok {
		w.Str(0, s).Bytes(4, []byte(s))
	}
	return w.Send()
}

func TestRowsInAndOut(t *testing.T) {
	h := NewHarness(module, "rows")
	h.OutputSpace = 5 << 10
	text := strings.Repeat("y", 9000) // more than the buffer
	h.Send(InRow("", 0, 3, "é"), InRow("", 0, nil, text), InRow("", 0, -1, nil), In("", "short", 0))
	var got []string
	for _, o := range h.Outputs() {
		r, err := NewRow(o.Value, 5)
		if err != nil {
			t.Fatal(err)
		}
		s, _ := r.Str(0)
		x, _ := r.Bytes(4)
		n, _ := r.Int(1)
		f, _ := r.Float(2)
		b, ok := r.Bool(3)
		got = append(got, fmt.Sprint(len(s), len(x), n, f, b, ok, r.IsNull(0)))
	}
	if want := []string{"2 2 4 1.5 true true false", "9000 9000 0 0 false false false", "0 0 0 -0.5 false true true"}; !slices.Equal(got, want) {
		t.Errorf("rows %q", got)
	}
	if f := h.Failures(); len(f) != 1 || f[0].Message != "row of 5 bytes, 24 expected before the variable part of 2 columns" {
		t.Errorf("failures %v", f)
	}
}

func odd(_ *Ctx, rec Record) (bool, error) {
	n, err := strconv.Atoi(string(rec.Value()))
	return n%2 == 1, err
}

func TestFiltersAndForeignErrors(t *testing.T) {
	h := NewHarness(module, "odd")
	h.Send(In("", "1", 0), In("", "2", 0), In("", "x", 0), In("", "3", 0))
	if got := h.Texts(); !slices.Equal(got, []string{"1", "3"}) || len(h.Failures()) != 1 {
		t.Errorf("kept %q", got)
	}
}

func unkeyed(ctx *Ctx, rec Record) error {
	switch string(rec.Value()) {
	case "state":
		_, _, err := all.Get(ctx)
		return err
	case "timer":
		return ctx.SetTimer("t", 1)
	}
	return table.Put(ctx, 1, 1)
}

func TestMisuseIsAnErrorOfTheRecord(t *testing.T) {
	h := NewHarness(module, "unkeyed")
	h.Send(In("", "state", 0), In("", "timer", 0), In("", "map", 0))
	f := h.Failures()
	if len(f) != 3 || f[0].Message != errNoKey.Error() || !strings.HasPrefix(f[1].Message, "timer_set: unknown state") || !strings.HasPrefix(f[2].Message, "put: unknown state") {
		t.Errorf("failures %v", f)
	}
}

func timed(ctx *Ctx, rec Record) error {
	name, err := rec.Text()
	if err != nil {
		return err
	}
	at := ctx.ProcessingTime() + 10
	ctx.Log(Warn, fmt.Sprint("set ", at))
	ctx.Count("set", 2)
	return errors.Join(ctx.SetTimerIn(ProcessingTime, name, at), ctx.Emit().To(two).Text("side"))
}

func onTimer(ctx *Ctx, t Timer) error {
	return ctx.Emit().To(one).Key([]byte("other")).Time(t.Time()).Op(UpdateAfter).Text(t.Name())
}

func TestProcessingTimersAndSideOutputs(t *testing.T) {
	h := NewHarness(module, "timed")
	h.ProcessingTime(5)
	h.Send(In("k", "a", 1))
	h.ProcessingTime(14)
	if got := h.Texts(); !slices.Equal(got, []string{"two: side"}) {
		t.Errorf("outputs %q", got)
	}
	h.ProcessingTime(15)
	out := h.Outputs()
	if len(out) != 1 || out[0].Output != 1 || out[0].Time != 15 || out[0].Op != UpdateAfter || string(out[0].Key) != "other" {
		t.Errorf("outputs %+v", out)
	}
	if h.Logs()[0] != "set 15" || h.Counter("set") != 2 {
		t.Errorf("counter %d", h.Counter("set"))
	}
}

func TestDescriptor(t *testing.T) {
	m := Module{Name: "a\"b", Functions: []Function{{Name: "f", Kind: Process, Keyed: true, Input: []Field{{"x", Int64}}, Output: []Field{{"y", String}},
		SideOutputs: []*Output{NewOutput("late")}, States: []State{NewValue("v", Uint64Value), NewMap("m", TextKey, TextValue)},
		Timers: []Domain{EventTime, ProcessingTime}, OnRecord: func(*Ctx, Record) error { return nil }}}}
	want := `{"abi":0,"name":"a\"b","sdk":"go 0.1.0","functions":[{"name":"f","kind":"process","keyed":true,"input":[{"name":"x","type":"int64"}],` +
		`"output":[{"name":"y","type":"string"}],"outputs":["late"],"states":[{"name":"v","kind":"value","max_bytes":8,"schema":{"type":"u64"}},` +
		`{"name":"m","kind":"map","schema":{"type":"utf8"},"key_schema":{"type":"utf8"}}],` +
		`"timers":["event","processing"]}]}`
	if got := string(m.Describe()); got != want {
		t.Errorf("descriptor\n%s, expected\n%s", got, want)
	}
	type inner struct{ X [2]int16 }
	nested := schemaOf(Struct[struct {
		N    uint8
		In   inner
		Raw  [3]byte
		Flag bool
	}]())
	if want := `{"type":"struct","fields":[{"name":"N","type":"u8"},{"name":"In","type":"struct","fields":[{"name":"X","size":2,"type":"array","items":{"type":"i16"}}]},` +
		`{"name":"Raw","size":3,"type":"bytes"},{"name":"Flag","type":"bool"}]}`; nested != want {
		t.Errorf("schema %s, expected %s", nested, want)
	}
}

// The loop itself, a value state and an output cost no garbage.
func TestNothingIsAllocatedPerRecord(t *testing.T) {
	v := NewValue("v", Struct[every]())
	m := &Module{Functions: []Function{{Name: "f", Kind: Process, Keyed: true, States: []State{v}, OnRecord: func(ctx *Ctx, rec Record) error {
		a, _, err := v.Get(ctx)
		if err != nil {
			return err
		}
		a.F++
		if err := v.Set(ctx, a); err != nil {
			return err
		}
		return ctx.Emit().JSON().Bytes("key", rec.Key()).Uint("n", a.F).Float("f", 0.5).Send()
	}}}}
	m.bind()
	h := NewHarness(m, "f")
	records := make([]Input, 200)
	for i := range records {
		records[i] = In(strconv.Itoa(i%10), "v", 0)
	}
	b := newBlock(kindRecords, h, records)
	out := make([]byte, 256<<10)
	host = &h.host
	defer func() { host = nil }()
	run := func() {
		h.host.resume(0)
		h.ctx.process(m, b.bytes, out, 0)
	}
	run()
	if n := testing.AllocsPerRun(20, run); n != 0 {
		t.Errorf("%v allocations for %d records", n, len(records))
	}
}
