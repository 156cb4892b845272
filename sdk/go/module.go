package millrace

import (
	"errors"
	"strconv"
)

// Version of this SDK.
const Version = "0.1.0"

// Kind says what a function is for.
type Kind string

// Kinds of functions.
const (
	Map     Kind = "map"      // one record in, at most one out
	FlatMap Kind = "flat_map" // one in, any number out
	Filter  Kind = "filter"   // keeps or drops: see Keep
	Process Kind = "process"  // keyed state, timers, side outputs
	// KindAggregate folds the records of a window: see Function.Aggregate, which sets it.
	KindAggregate Kind = "aggregate"
	// KindWindow is called when a window fires: see Function.OnWindow, which sets it.
	KindWindow Kind = "window"
	// KindWatermark says the watermark of a source: see Function.Watermark, which sets it.
	KindWatermark Kind = "watermark"
)

// Type is the type of a column of a typed row.
type Type string

// Column types.
const (
	Int64     Type = "int64"
	Float64   Type = "float64"
	Bool      Type = "bool"
	String    Type = "string"
	Bytes     Type = "bytes"
	Timestamp Type = "timestamp" // ms since 1970 UTC
)

// Field is a column of a typed row.
type Field struct {
	Name string
	Type Type
}

// Domain is a clock that timers run on.
type Domain uint32

// Domains.
const (
	EventTime      Domain = Domain(domainEvent)      // fires when the watermark reaches the time
	ProcessingTime Domain = Domain(domainProcessing) // fires when the wall clock reaches the time
)

func (d Domain) String() string {
	if d == ProcessingTime {
		return "processing"
	}
	return "event"
}

// Output is a side output. Declare it in a package variable and in Function.SideOutputs.
type Output struct {
	name  string
	index uint8
}

// NewOutput makes a side output of that name.
func NewOutput(name string) *Output { return &Output{name: name} }

// Function is one function of a module. Exactly one of OnRecord, Keep, Aggregate, OnWindow and Watermark is set.
type Function struct {
	Name        string
	Kind        Kind
	Keyed       bool      // wants a keyed stream
	Input       []Field   // typed row wanted; empty: raw bytes
	Output      []Field   // typed row given on the main output; empty: raw bytes
	SideOutputs []*Output //
	States      []State   // at most 64 prefetched ones; Expiring gives one a TTL
	Timers      []Domain  // clocks it sets timers on

	OnRecord func(ctx *Ctx, rec Record) error
	Keep     func(ctx *Ctx, rec Record) (bool, error) // true: the record goes on as it is
	OnTimer  func(ctx *Ctx, t Timer) error

	Aggregate Aggregate                      // of a window; not keyed, no side outputs, states or timers
	OnWindow  func(ctx *Ctx, w Window) error // not keyed, no states or timers

	// Watermark says, if ok, that no record of rec's split with an event time of at most ms comes behind rec. It
	// must follow from rec alone. Only Input besides.
	Watermark func(ctx *Ctx, rec Record) (ms int64, ok bool, err error)
}

// Module is what a program offers.
type Module struct {
	Name      string
	Functions []Function
	// Memory says that the program's own variables are state: they are in every snapshot, byte by byte. Functions
	// are keyed then.
	Memory bool
	// Save and Load, with Memory, let another version of the program go on: Save returns what the variables mean,
	// Load takes that over in a new instance. The bytes are the program's own format; begin them with a version.
	Save func() []byte
	Load func(saved []byte) error
}

// Register declares the program's module; call it once, in a package variable. It panics, which shows
// when the module is loaded, if the declaration contradicts itself.
func Register(m Module) *Module {
	if registered != nil {
		panic("millrace: Register is called twice")
	}
	m.bind()
	registered = &m
	return registered
}

var registered *Module

func (m *Module) bind() {
	if !m.Memory && (m.Save != nil || m.Load != nil) {
		panic("millrace: Save and Load are of modules with Memory")
	}
	for i := range m.Functions {
		f := &m.Functions[i]
		f.ofWindow()
		f.ofSource()
		if f.Keep != nil && f.OnRecord == nil {
			f.OnRecord = keep(f.Keep)
		} else if f.OnRecord == nil || f.Keep != nil {
			panic("millrace: function " + f.Name + " needs exactly one of OnRecord and Keep")
		}
		if len(f.SideOutputs) > 250 {
			panic("millrace: function " + f.Name + " has more than 250 side outputs")
		}
		for j, o := range f.SideOutputs {
			o.index = uint8(j + 1)
		}
		slot := 0
		for j, s := range f.States {
			s.bind(j, slot)
			if prefetched(s.describe()) {
				slot++
			}
		}
		if slot > 64 {
			panic("millrace: function " + f.Name + " has more than 64 prefetched states")
		}
	}
}

// ofWindow makes a function of windows one with OnRecord.
func (f *Function) ofWindow() {
	agg, onWindow := f.Aggregate, f.OnWindow
	if agg == nil && onWindow == nil {
		return
	}
	if f.Keep != nil || f.OnRecord != nil || f.Keyed || len(f.States) > 0 || len(f.Timers) > 0 || agg != nil && (onWindow != nil || len(f.SideOutputs) > 0) {
		panic("millrace: function " + f.Name + " of a window has only input and output besides (OnWindow: and side outputs)")
	}
	if agg == nil {
		f.Kind = KindWindow
		f.OnRecord = func(ctx *Ctx, rec Record) error { return onWindow(ctx, Window{rec}) }
		return
	}
	f.Kind, f.States, f.OnRecord = KindAggregate, []State{agg.state()}, agg.step
}

func keep(f func(*Ctx, Record) (bool, error)) func(*Ctx, Record) error {
	return func(ctx *Ctx, rec Record) error {
		ok, err := f(ctx, rec)
		if err != nil || !ok {
			return err
		}
		return ctx.Forward(rec)
	}
}

func (m *Module) function(name string) (int, error) {
	for i := range m.Functions {
		if m.Functions[i].Name == name {
			return i, nil
		}
	}
	return 0, errors.New("module " + m.Name + " has no function " + name)
}

// Describe is the module's descriptor as JSON.
func (m *Module) Describe() []byte {
	b := append([]byte(nil), `{"abi":0,"name":`...)
	b = appendString(b, m.Name)
	b = append(b, `,"sdk":"go `+Version+`"`...)
	if m.Memory {
		b = append(b, `,"snapshot":"memory"`...)
	}
	if m.Save != nil {
		b = append(b, `,"save":true`...)
	}
	if m.Load != nil {
		b = append(b, `,"load":true`...)
	}
	b = append(b, `,"functions":[`...)
	for i := range m.Functions {
		b = m.Functions[i].describe(comma(b, i))
	}
	return append(b, "]}"...)
}

func comma(b []byte, i int) []byte {
	if i > 0 {
		return append(b, ',')
	}
	return b
}

func (f *Function) describe(b []byte) []byte {
	b = appendString(append(b, `{"name":`...), f.Name)
	b = appendString(append(b, `,"kind":`...), string(f.Kind))
	if f.Keyed {
		b = append(b, `,"keyed":true`...)
	}
	if f.Aggregate != nil && f.Aggregate.retracts() {
		b = append(b, `,"retracts":true`...)
	}
	b = describeFields(b, "input", f.Input)
	b = describeFields(b, "output", f.Output)
	for i, o := range f.SideOutputs {
		if i == 0 {
			b = append(b, `,"outputs":[`...)
		}
		b = appendString(comma(b, i), o.name)
	}
	b = closeList(b, len(f.SideOutputs))
	for i, s := range f.States {
		if i == 0 {
			b = append(b, `,"states":[`...)
		}
		name, kind, maxBytes := s.describe()
		b = appendString(append(comma(b, i), `{"name":`...), name)
		b = appendString(append(b, `,"kind":`...), kind)
		if maxBytes > 0 {
			b = strconv.AppendInt(append(b, `,"max_bytes":`...), int64(maxBytes), 10)
		}
		b = append(describeSchemas(describeTTL(b, s), s), '}')
	}
	b = closeList(b, len(f.States))
	for i, d := range f.Timers {
		if i == 0 {
			b = append(b, `,"timers":[`...)
		}
		b = appendString(comma(b, i), d.String())
	}
	return append(closeList(b, len(f.Timers)), '}')
}

func describeFields(b []byte, name string, fields []Field) []byte {
	for i, f := range fields {
		if i == 0 {
			b = append(b, `,"`+name+`":[`...)
		}
		b = appendString(append(comma(b, i), `{"name":`...), f.Name)
		b = append(appendString(append(b, `,"type":`...), string(f.Type)), '}')
	}
	return closeList(b, len(fields))
}

func closeList(b []byte, n int) []byte {
	if n > 0 {
		return append(b, ']')
	}
	return b
}
