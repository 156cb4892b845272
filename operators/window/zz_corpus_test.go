package window

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/operatortest"
)

type ctrig struct {
	Type           string
	N, Interval    int64
	Timeout        int64
	ResetOnRecord  bool `json:"reset_on_record"`
	ClearOnTimeout bool `json:"clear_on_timeout"`
	Of             *ctrig
}
type ccase struct {
	ID       string
	Operator struct {
		Kind   string
		Keyed  bool
		Time   string
		Window struct {
			Type                     string
			Size, Slide, Offset, Gap int64
		}
		Trigger   ctrig
		L         int64 `json:"allowed_lateness"`
		Late      bool  `json:"late_output"`
		Aggregate string
		Evictor   *struct {
			Type    string
			N, Size int64
			After   bool
		}
	}
	Input []struct {
		Record *struct {
			Ts    int64
			Key   string
			Value json.RawMessage
		}
		Watermark *int64
		PT        *int64 `json:"processing_time"`
		End       bool
	}
	Expected struct {
		Main, Late []struct {
			Ts    *int64
			Key   *string
			Value map[string]any
			After int
		}
		LateDropped int64 `json:"late_dropped"`
		Rejected    bool
	}
	SnapshotAt int `json:"snapshot_at"`
}

func trig(t ctrig, w operators.WindowShape, time string) operators.WindowTrigger {
	switch t.Type {
	case "default":
		return operators.DefaultTrigger(w)
	case "event-time", "processing-time":
		return operators.WindowTrigger{AtEnd: true}
	case "count":
		return operators.WindowTrigger{Count: t.N}
	case "continuous-event-time":
		return operators.WindowTrigger{AtEnd: true, Every: t.Interval}
	case "continuous-processing-time":
		return operators.WindowTrigger{EveryClock: t.Interval}
	case "purging":
		x := trig(*t.Of, w, time)
		x.Purge = true
		return x
	case "timeout":
		x := trig(*t.Of, w, time)
		x.Timeout, x.TimeoutReset, x.TimeoutClear = t.Timeout, t.ResetOnRecord, t.ClearOnTimeout
		return x
	case "end-of-stream":
		return operators.WindowTrigger{EndOfStream: true}
	}
	panic(t.Type)
}

func TestCorpus(t *testing.T) {
	dir := os.Getenv("CORPUS")
	if dir == "" {
		t.Skip()
	}
	files, _ := filepath.Glob(dir + "/window/*.json")
	more, _ := filepath.Glob(dir + "/restore/restore-window*.json")
	for _, f := range append(files, more...) {
		t.Run(filepath.Base(f), func(t *testing.T) { corpusCase(t, f) })
	}
}

func corpusCase(t *testing.T, f string) {
	b, _ := os.ReadFile(f)
	var c ccase
	dec := json.NewDecoder(strings.NewReader(string(b)))
	dec.UseNumber()
	if err := dec.Decode(&c); err != nil {
		t.Fatal(err)
	}
	op := c.Operator
	w := &operators.WindowNode{Time: op.Time, Lateness: op.L, Late: op.Late, Accumulation: operators.Accumulating, Unkeyed: !op.Keyed,
		Input: []abi.Field{{Name: "id", Type: abi.TypeInt64}, {Name: "v", Type: abi.TypeInt64}}}
	w.Window = operators.WindowShape{Type: op.Window.Type, Size: op.Window.Size, Slide: op.Window.Slide, Offset: op.Window.Offset, Gap: op.Window.Gap}
	switch op.Window.Type {
	case "count":
		w.Window = operators.WindowShape{Type: "count", Count: op.Window.Size}
	case "count-sliding":
		w.Window = operators.WindowShape{Type: "count", Count: op.Window.Size, CountSlide: op.Window.Slide}
		w.Evictor = &operators.WindowEvictor{Count: op.Window.Size}
	case "session-dynamic":
		w.Window = operators.WindowShape{Type: "session", GapField: "v"}
	}
	w.Trigger = trig(op.Trigger, w.Window, op.Time)
	if e := op.Evictor; e != nil {
		w.Evictor = &operators.WindowEvictor{Count: e.N, Span: e.Size, After: e.After}
	}
	if op.Aggregate == "stats" {
		for _, k := range []string{"count", "sum", "min", "max"} {
			a := operators.WindowAggregate{Name: k, Kind: k}
			if k != "count" {
				a.Field = "v"
			}
			w.Aggregates = append(w.Aggregates, a)
		}
	} else {
		w.Aggregates = []operators.WindowAggregate{{Name: op.Aggregate, Kind: "collect", Field: "id"}}
	}
	ctx := operatortest.Context(t, "w", "")
	ctx.Objects = operatortest.Objects(t)
	clk := ctx.Clock.(*operatortest.Clock)
	mk := func() *Op {
		return New(Config{Node: &operators.Node{ID: "w", Window: w}, OpenKeyed: operatortest.OpenKeyed})
	}
	o := mk()
	h := operatortest.New(t, o, ctx)
	nm, nl := 0, 0
	schema := Schema(w)
	var got, want []string
	fmtrow := func(ts *int64, key *string, v map[string]any) string {
		k, s := "nil", "none"
		if key != nil {
			k = *key
		}
		if ts != nil {
			s = fmt.Sprint(*ts)
		}
		if x, ok := v["idset"]; ok {
			v["ids"] = x
			delete(v, "idset")
		}
		if op.Aggregate == "idset" {
			ids := v["ids"].([]any)
			sort.Slice(ids, func(i, j int) bool {
				a, _ := ids[i].(json.Number).Int64()
				b, _ := ids[j].(json.Number).Int64()
				return a < b
			})
		}
		j, _ := json.Marshal(v)
		return fmt.Sprintf("%s %s %s", s, k, j)
	}
	perkey := func(list []string) map[string][]string {
		m := map[string][]string{}
		for _, s := range list {
			k := strings.SplitN(s, " ", 5)
			m[k[0]+" "+k[3]] = append(m[k[0]+" "+k[3]], s)
		}
		return m
	}
	for i, st := range c.Input {
		if c.SnapshotAt > 0 && i == c.SnapshotAt {
			s := h.Barrier(1)
			h.Close()
			ctx.Restored = append(ctx.Restored[:0], s)
			o = mk()
			h = operatortest.New(t, o, ctx)
			nm, nl = 0, 0
		}
		_ = checkpoint.ID(0)
		switch {
		case st.Record != nil:
			var v struct{ ID, V *int64 }
			json.Unmarshal(st.Record.Value, &v)
			var rb abi.RowBuilder
			rb.Reset(2)
			rb.SetInt64(0, *v.ID)
			if v.V != nil {
				rb.SetInt64(1, *v.V)
			}
			r := abi.Record{Time: st.Record.Ts, Key: []byte(st.Record.Key), Value: rb.Bytes()}
			h.Push(r)
		case st.Watermark != nil:
			h.Watermark(*st.Watermark)
		case st.PT != nil:
			clk.Set(*st.PT)
			if err := o.OnProcessingTime(*st.PT, h); err != nil {
				t.Fatal(err)
			}
		case st.End:
			h.Watermark(math.MaxInt64)
		}
		main := h.Output(0).Records
		for ; nm < len(main); nm++ {
			r := main[nm]
			row, err := abi.CheckRow(r.Value, schema)
			if err != nil {
				t.Fatal(err)
			}
			m := map[string]any{}
			for j, f := range schema {
				name := f.Name
				name = strings.TrimPrefix(name, "window_")
				if row.IsNull(j) {
					m[name] = nil
				} else if f.Type == abi.TypeJSON {
					bb, _ := row.Bytes(j)
					var x any
					d := json.NewDecoder(strings.NewReader(string(bb)))
					d.UseNumber()
					d.Decode(&x)
					m[name] = x
				} else {
					x, _ := row.Int64(j)
					m[name] = json.Number(fmt.Sprint(x))
				}
			}
			var key *string
			if r.Key != nil {
				s := string(r.Key)
				key = &s
			}
			got = append(got, fmt.Sprintf("%d main %s", i, fmtrow(&r.Time, key, m)))
		}
		late := h.Output(1).Records
		for ; nl < len(late); nl++ {
			got = append(got, fmt.Sprintf("%d late %d %s", i, late[nl].Time, late[nl].Key))
		}
	}
	for _, e := range c.Expected.Main {
		want = append(want, fmt.Sprintf("%d main %s", e.After, fmtrow(e.Ts, e.Key, e.Value)))
	}
	for _, e := range c.Expected.Late {
		k := "nil"
		if e.Key != nil {
			k = *e.Key
		}
		want = append(want, fmt.Sprintf("%d late %d %s", e.After, *e.Ts, k))
	}
	g, x := perkey(got), perkey(want)
	gb, _ := json.MarshalIndent(g, "", " ")
	xb, _ := json.MarshalIndent(x, "", " ")
	if string(gb) != string(xb) {
		n := 0
		for k := range x {
			if fmt.Sprint(g[k]) != fmt.Sprint(x[k]) && n < 6 {
				t.Errorf("%s\n got %q\nwant %q", k, g[k], x[k])
				n++
			}
		}
		for k := range g {
			if x[k] == nil && n < 6 {
				t.Errorf("%s\n got %q\nwant none", k, g[k])
				n++
			}
		}
	}
	if c.Expected.LateDropped > 0 && o.Counters()["late"] != c.Expected.LateDropped {
		t.Errorf("late %d want %d", o.Counters()["late"], c.Expected.LateDropped)
	}
	h.Close()
}
