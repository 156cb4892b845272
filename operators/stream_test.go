package operators_test

import (
	"io"
	"testing"
	"time"

	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/operatortest"
)

// TestStreamIdle: a stream is idle when it is open and gives nothing, not while it is being opened, nor while
// lines wait to be taken.
func TestStreamIdle(t *testing.T) {
	n := memoryNode(0, 0)
	n.Source.Format, n.Source.Time.Field, n.Source.Time.Idle = "ndjson", "t", 500*time.Millisecond
	connect := make(chan struct{})
	in, out := io.Pipe()
	opened := false
	src := operators.NewLineStream(n, "a pipe", func() (io.ReadCloser, error) {
		if opened {
			return nil, io.EOF
		}
		opened = true
		<-connect
		return in, nil
	})
	ctx := operatortest.Context(t, "in", "")
	clk := ctx.Clock.(*operatortest.Clock)
	r := operatortest.OpenSource(t, src, ctx)
	defer src.Close()
	now := int64(0)
	pass := func(ms int64) {
		for end := now + ms; now < end; {
			now += 50
			clk.Set(now)
			r.Drain(10)
		}
	}
	pass(5000)
	if src.Intake().Idle() {
		t.Fatal("idle before it was open")
	}
	close(connect)
	ready(t, src)
	pass(400)
	if src.Intake().Idle() {
		t.Fatal("idle too early")
	}
	if at, ok := src.Intake().NextLook(); !ok || at > now+250 {
		t.Errorf("wants to be polled at %d (%v), it is %d", at, ok, now)
	}
	pass(200)
	if !src.Intake().Idle() {
		t.Fatal("not idle")
	}
	if _, err := io.WriteString(out, "{\"t\":1000}\n"); err != nil {
		t.Fatal(err)
	}
	ready(t, src)
	now += 10_000 // the line waited
	clk.Set(now)
	r.Drain(10)
	if src.Intake().Idle() || len(r.Out.Records) != 1 || src.Intake().Watermark() != 999 {
		t.Errorf("a line is there: idle %v, %d records, watermark %d", src.Intake().Idle(), len(r.Out.Records), src.Intake().Watermark())
	}
	out.Close()
	ready(t, src)
	for r.Drain(10).Status != operators.PollEnd {
		ready(t, src)
	}
	if src.Intake().Idle() {
		t.Error("ended, and it says idle")
	}
}

func ready(t *testing.T, src operators.Source) {
	t.Helper()
	select {
	case <-src.Ready():
	case <-time.After(time.Minute):
		t.Fatal("nothing is ready")
	}
}
