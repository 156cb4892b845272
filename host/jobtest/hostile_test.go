package jobtest

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/guests/hostile"
	"github.com/millrace-io/millrace/operators/guestop"
)

// hostileText is a pipeline of a guest that does not describe itself.
const hostileText = `name: hostile
batch: 16
checkpoint: {interval: 0s}
operators:
  - {id: in, source: generator, kind: counter, records: 1}
  - id: logic
    process: {module: %q, function: f, describe: {keyed: true}}
    on_error: {policy: dead_letter, path: dead/}
  - {id: out, sink: file, path: out/, envelope: true}
`

// faultKinds are the kinds a guest's attack may end in.
var faultKinds = map[hostile.Fault][]guestop.FaultKind{
	hostile.FaultFuel:   {guestop.FaultFuel},
	hostile.FaultTrap:   {guestop.FaultTrap, guestop.FaultMemory},
	hostile.FaultStack:  {guestop.FaultTrap, guestop.FaultFuel},
	hostile.FaultNext:   {guestop.FaultProtocol, guestop.FaultTrap},
	hostile.FaultOutput: {guestop.FaultProtocol},
	hostile.FaultLimit:  {guestop.FaultLimit, guestop.FaultTrap, guestop.FaultReturned, guestop.FaultFuel},
	hostile.FaultAny:    {guestop.FaultTrap, guestop.FaultReturned, guestop.FaultProtocol},
}

// outsideRecords are the guests that lose track of the records: no record is to blame, the task fails, and
// is not tried again.
var outsideRecords = map[string]bool{"next-ahead": true, "lying-output": true}

// victim is a pipeline that runs beside attacks and notes its longest pause.
type victim struct {
	run   *Run
	world *World
	worst atomic.Int64
}

func newVictim(t *testing.T) *victim {
	v := &victim{world: New(t, effectsText)}
	f := v.world.Feed("in")
	v.world.Interpreter = false
	v.run = v.world.Start()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			f.Push(Text(fmt.Sprint("key", i%10), int64(i), "append x;out y"))
			began := time.Now()
			for v.run.Stats().Read <= int64(i) {
				select {
				case <-v.run.Done():
					return
				case <-time.After(200 * time.Microsecond):
				}
			}
			v.worst.Store(max(v.worst.Load(), int64(time.Since(began))))
			time.Sleep(time.Millisecond)
		}
	}()
	t.Cleanup(func() {
		v.run.Crash()
		<-done
	})
	return v
}

// TestHostileGuests: each attack ends by its name in bounded time, its neighbours in the batch come through,
// and a pipeline beside it goes on.
func TestHostileGuests(t *testing.T) {
	v := newVictim(t)
	time.Sleep(100 * time.Millisecond)
	alone := time.Duration(v.worst.Load())
	for _, g := range hostile.Runnable() {
		t.Run(g.Name, func(t *testing.T) {
			v.worst.Store(0)
			w := New(t, "name: none\noperators: [{id: in, source: generator, kind: counter}, {id: out, sink: blackhole}]")
			w.Pipeline(fmt.Sprintf(hostileText, w.Wasm("guest", g.Wasm)))
			w.Sources["in"] = [][]abi.Record{{Text("k", 1, "before"), Text("k", 2, hostile.Trigger), Text("k", 3, "after")}}
			began := time.Now()
			switch {
			case g.Fault == hostile.FaultStart:
				w.Fail("fuel")
			case outsideRecords[g.Name]:
				w.Fail("operator logic", "guest fault: protocol", abi.ExportProcess)
			default:
				w.RunToEnd()
				w.judge(g)
			}
			took := time.Since(began)
			stall := time.Duration(v.worst.Load())
			t.Logf("%v; the other pipeline waited at most %v (%v alone)", took, stall, alone)
			if took > 30*time.Second { // 3 s, where the machine is ours
				t.Errorf("the attack took %v", took)
			}
			limit := 2 * time.Second
			if *fullMatrix {
				limit = 250 * time.Millisecond
			}
			if stall > limit {
				t.Errorf("the other pipeline stood still for %v, expected at most %v", stall, limit)
			}
		})
	}
	for _, g := range hostile.Refused() {
		t.Run(g.Name, func(t *testing.T) {
			w := New(t, "name: none\noperators: [{id: in, source: generator, kind: counter}, {id: out, sink: blackhole}]")
			began := time.Now()
			_, err := w.Parse(fmt.Sprintf(hostileText, w.Wasm("guest", g.Wasm)))
			if err == nil {
				t.Fatal("it is not refused")
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("refused after %v", took)
			}
		})
	}
}

// judge checks what came of a guest that ran.
func (w *World) judge(g hostile.Guest) {
	w.T.Helper()
	var values []string
	for _, e := range w.Envelopes("out/") {
		values = append(values, string(*e.Value))
	}
	all := strings.Join(values, " ")
	if !strings.HasPrefix(all, "before") || !strings.HasSuffix(all, "after") {
		w.T.Errorf("outputs %q, expected before and after", all)
	}
	dead := w.letters("dead/")
	kinds := faultKinds[g.Fault]
	if g.Fault == hostile.FaultNone || len(dead) == 0 {
		if len(dead) != 0 || g.Fault != hostile.FaultNone && g.Fault != hostile.FaultAny {
			w.T.Errorf("%d dead letters, fault %q expected", len(dead), g.Fault)
		}
		return
	}
	if len(dead) != 1 || string(*dead[0].Value) != hostile.Trigger {
		w.T.Fatalf("dead letters %+v, expected the attacking record", dead)
	}
	for _, k := range kinds {
		if dead[0].Kind == string(k) {
			return
		}
	}
	w.T.Errorf("fault %q (%.200s), expected one of %q", dead[0].Kind, dead[0].Error, kinds)
}
