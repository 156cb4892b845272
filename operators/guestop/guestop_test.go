package guestop

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/operatortest"
)

// stream builds a batch from words: "k=v" is a record of key k, "@5" a watermark.
func stream(words ...string) *abi.Batch {
	b := &abi.Batch{}
	for i, w := range words {
		if strings.HasPrefix(w, "@") {
			var ms int64
			fmt.Sscan(w[1:], &ms)
			b.Mark(ms)
			continue
		}
		k, v, _ := strings.Cut(w, "=")
		b.Append(&abi.Record{Time: int64(i), Key: []byte(k), Value: []byte(v), Pos: abi.Position{Offset: uint64(i)}})
	}
	return b
}

// seen writes what an output collected the same way: values, and marks where they came.
func seen(c *operatortest.Collected) string {
	var out []string
	marks := c.Marks
	for i := 0; i <= len(c.Records); i++ {
		for len(marks) > 0 && marks[0].Records == i {
			out = append(out, fmt.Sprintf("@%d", marks[0].Watermark))
			marks = marks[1:]
		}
		if i < len(c.Records) {
			out = append(out, string(c.Records[i].Value))
		}
	}
	return strings.Join(out, " ")
}

func keyedCount() *fakeModule {
	return &fakeModule{fn: abi.Function{Name: "f", Kind: abi.FunctionProcess, Keyed: true, Outputs: []string{"side"},
		States: []abi.StateDescriptor{{Name: "n", Kind: abi.StateValue, MaxBytes: 8}, {Name: "m", Kind: abi.StateMap}},
		Timers: []string{"event"}}}
}

func TestMarksStandBetweenTheOutputsOfTheirRecords(t *testing.T) {
	m := keyedCount()
	m.user = func(c *fakeCall) *Fault {
		v := string(c.frame.Value())
		if v != "drop" {
			c.emit(0, fmt.Sprintf("%s%d", v, c.count(0)))
		}
		if v == "side" {
			c.emit(1, "s")
		}
		return nil
	}
	h, _ := open(t, m, operators.PolicyStop)
	if err := h.Op.Batch(0, stream("@1", "a=x", "a=drop", "@2", "b=y", "@3", "a=side", "@4"), h); err != nil {
		t.Fatal(err)
	}
	if got, want := seen(h.Output(0)), "@1 x1 @2 y1 @3 side2 @4"; got != want {
		t.Errorf("main %q, want %q", got, want)
	}
	if got, want := seen(h.Output(1)), "@1 @2 @3 s @4"; got != want {
		t.Errorf("side %q, want %q", got, want)
	}
	if n := len(m.guests[0].calls); n != 1 {
		t.Errorf("%d calls, no mark had a timer", n)
	}
}

// A fault undoes the call, what came before it runs again, the record goes to the policy, the rest goes on.
func TestFaultIsARecordsOwn(t *testing.T) {
	for _, policy := range []string{operators.PolicySkip, operators.PolicyDeadLetter} {
		m := keyedCount()
		m.user = func(c *fakeCall) *Fault {
			n := c.count(0)
			c.g.env.Put(c.i, 1, []byte("seen"), c.frame.Value())
			c.emit(0, fmt.Sprint(n))
			if string(c.frame.Value()) == "boom" {
				return &Fault{Kind: FaultTrap, Message: "unreachable"}
			}
			return nil
		}
		h, op := open(t, m, policy)
		if err := h.Op.Batch(0, stream("k=a", "k=boom", "k=b", "k=boom", "k=boom", "k=c"), h); err != nil {
			t.Fatal(err)
		}
		if got := seen(h.Output(0)); got != "1 2 3" {
			t.Errorf("%s: outputs %q", policy, got)
		}
		if n := m.guests[0].resets; n != 3 {
			t.Errorf("%s: %d resets for 3 faults", policy, n)
		}
		b := stream("k=x")
		v, ok, err := op.states[1].ordered.Get(state0(op, b), []byte("seen"))
		if err != nil || !ok || string(v) != "c" {
			t.Errorf("%s: map state %q %v %v, want that of the last good record", policy, v, ok, err)
		}
		dead := h.Output(operators.OutputDeadLetter).Records
		if want := map[string]int{operators.PolicySkip: 0, operators.PolicyDeadLetter: 3}[policy]; len(dead) != want {
			t.Errorf("%s: %d dead letters", policy, len(dead))
		}
	}
}

func TestPolicyStopNamesTheRecordAndKeepsNothingOfIt(t *testing.T) {
	m := keyedCount()
	m.user = func(c *fakeCall) *Fault {
		c.emit(0, "out")
		if string(c.frame.Value()) == "boom" {
			return &Fault{Kind: FaultTrap, Message: "unreachable"}
		}
		return nil
	}
	h, _ := open(t, m, operators.PolicyStop)
	err := h.Op.Batch(0, stream("k=a", "k=boom"), h)
	var re *RecordError
	if !errors.As(err, &re) || !IsGuestFault(err) || !strings.Contains(err.Error(), "a test record") {
		t.Fatalf("error %v", err)
	}
}

// A guest that can say why it traps logs it; the record's debug lines and other records' lines stay out.
func TestFaultHasTheLastWordsOfItsRecordOnly(t *testing.T) {
	m := keyedCount()
	m.user = func(c *fakeCall) *Fault {
		v := string(c.frame.Value())
		c.g.env.Log(c.i, abi.LogDebug, []byte("debug "+v))
		for range abi.MaxLogLinesPerSec / 2 {
			c.g.env.Log(c.i, abi.LogInfo, []byte("info "+v))
		}
		c.g.env.Log(c.i, abi.LogError, []byte("error "+v))
		if v == "boom" {
			return &Fault{Kind: FaultTrap, Message: "unreachable", Stderr: "printed"}
		}
		return nil
	}
	h, _ := open(t, m, operators.PolicyStop)
	var f *Fault
	if err := h.Op.Batch(0, stream("k=a", "k=b", "k=boom"), h); !errors.As(err, &f) || f.Stderr != "printed\nerror boom" {
		t.Fatalf("error %v, stderr %q", err, f.Stderr)
	}
}

// What the host does wrong inside a host call is laid to no record.
func TestHostFailureFailsTheTask(t *testing.T) {
	m := keyedCount()
	m.user = func(*fakeCall) *Fault { return &Fault{Kind: FaultTimeout, Message: "a host call panicked"} }
	h, _ := open(t, m, operators.PolicySkip)
	if err := h.Op.Batch(0, stream("k=a"), h); err == nil || IsGuestFault(err) {
		t.Fatalf("error %v, guest fault %v", err, IsGuestFault(err))
	}
}

// A timer that a record sets for a mark inside the same block fires at that mark, not after the block; the
// record after the mark sees what the timer did.
func TestTimerFiresAtTheMarkInsideTheBlock(t *testing.T) {
	for _, cut := range []int{1, 2, 100} {
		m := keyedCount()
		m.user = func(c *fakeCall) *Fault {
			if c.kind == abi.KindEventTimers {
				c.emit(0, fmt.Sprintf("timer%d(%d)", c.frame.Time(), c.count(0)))
				if c.frame.Time() == 10 {
					c.g.env.TimerSet(c.i, abi.DomainEvent, []byte("t"), 15)
				}
				return nil
			}
			c.emit(0, fmt.Sprintf("%s(%d)", c.frame.Value(), c.count(0)))
			if string(c.frame.Value()) == "set" {
				c.g.env.TimerSet(c.i, abi.DomainEvent, []byte("t"), 10)
				c.g.env.TimerSet(c.i, abi.DomainEvent, []byte("t"), 20)
			}
			return nil
		}
		h, _ := open(t, m, operators.PolicyStop)
		words := []string{"k=set", "k=before", "@9", "k=x", "@30", "k=after", "@31", "k=last"}
		for part := range slices.Chunk(words, cut) {
			if err := h.Op.Batch(0, stream(part...), h); err != nil {
				t.Fatal(err)
			}
		}
		want := "set(1) before(2) @9 x(3) timer10(4) timer15(5) timer20(6) @30 after(7) @31 last(8)"
		if got := seen(h.Output(0)); got != want {
			t.Errorf("batches of %d: %q, want %q", cut, got, want)
		}
	}
}

// A record that fails by its own word leaves no trace in state, timers or outputs; later records of the
// same call don't see what it wrote.
func TestReturnedErrorUndoesTheRecordAtOnce(t *testing.T) {
	m := keyedCount()
	var reads []string
	m.user = func(c *fakeCall) *Fault {
		old, _ := c.g.env.Get(c.i, 1, []byte("e"))
		reads = append(reads, string(old))
		c.g.env.Put(c.i, 1, []byte("e"), c.frame.Value())
		c.g.env.TimerSet(c.i, abi.DomainEvent, c.frame.Value(), 5)
		if string(c.frame.Value()) == "bad" {
			c.g.env.Fail(c.i, []byte("no good"))
			return nil
		}
		c.emit(0, string(c.frame.Value()))
		return nil
	}
	h, op := open(t, m, operators.PolicyDeadLetter)
	if err := h.Op.Batch(0, stream("k=a", "k=bad", "k=b"), h); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(reads, ","); got != ",a,a" {
		t.Errorf("reads %q", got)
	}
	if got := seen(h.Output(0)); got != "a b" || op.timers.Len() != 2 || m.guests[0].resets != 0 {
		t.Errorf("outputs %q, %d timers, %d resets", got, op.timers.Len(), m.guests[0].resets)
	}
	r, d := operators.SplitDeadLetter(frameOf(&h.Output(operators.OutputDeadLetter).Records[0]))
	if string(r.Value) != "bad" || d.Kind != string(FaultReturned) || !strings.Contains(d.Error, "no good") {
		t.Errorf("dead letter %q %+v", r.Value, d)
	}
}

func TestOutputsThatBreakTheABIAreFaults(t *testing.T) {
	for what, frame := range map[string]abi.Record{
		"undeclared output":          {Output: 7},
		"cause of a record not done": {Cause: 9},
	} {
		m := keyedCount()
		m.user = func(c *fakeCall) *Fault {
			if string(c.frame.Value()) == "bad" {
				c.pending = abi.AppendRecord(nil, &frame)
			}
			return nil
		}
		h, op := open(t, m, operators.PolicySkip)
		if err := h.Op.Batch(0, stream("k=bad", "k=ok"), h); err != nil {
			t.Fatal(err)
		}
		if st, _ := op.Stats(); st.Skipped != 1 || len(h.Output(0).Records) != 0 {
			t.Errorf("%s: %+v", what, st)
		}
	}
}
