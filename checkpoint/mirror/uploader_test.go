package mirror

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/objectstore"
)

// gated is a store whose puts of objects wait.
type gated struct {
	objectstore.Memory
	arrived, open chan struct{}
}

func (g *gated) Put(ctx context.Context, key string, body io.ReaderAt, size int64, onlyNew bool) error {
	if !onlyNew {
		select {
		case g.arrived <- struct{}{}:
		default:
		}
		select {
		case <-g.open:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return g.Memory.Put(ctx, key, body, size, onlyNew)
}

// TestUploaderFollowsTheJob: while one upload is slow, of the checkpoints that come only the newest is uploaded,
// and each savepoint; leases keep them though one local checkpoint is retained.
func TestUploaderFollowsTheJob(t *testing.T) {
	w := newWorld(t, 20)
	s := &gated{arrived: make(chan struct{}, 1), open: make(chan struct{})}
	m := w.mirror(s, nil)
	reports := make(chan Uploaded, 10)
	u := NewUploader(UploaderOptions{Mirror: m, Local: w.local, Retain: 2, GCEvery: 1, Report: func(r Uploaded) { reports <- r }})
	run, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		u.Run(run)
	}()
	offer := func(kind checkpoint.Kind) {
		t.Helper()
		if err := u.Offer(w.snapshot(kind), kind); err != nil {
			t.Fatal(err)
		}
	}
	offer(checkpoint.KindCheckpoint)
	<-s.arrived // 1 is being uploaded
	for range 3 {
		offer(checkpoint.KindCheckpoint)
	}
	offer(checkpoint.KindSavepoint)
	for range 3 {
		offer(checkpoint.KindCheckpoint)
	}
	close(s.open)
	total := 0
	var got []checkpoint.ID
	for len(got) == 0 || got[len(got)-1] != 8 {
		r := <-reports
		if r.Err != nil {
			t.Fatal(r.ID, r.Err)
		}
		got, total = append(got, r.ID), total+r.Behind
	}
	if len(got)+total != 8 || got[0] != 1 || total < 4 {
		t.Errorf("uploaded %v, passed over %d", got, total)
	}
	c, err := m.Catalog(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := c.Find(5); !ok {
		t.Error("the savepoint is not there")
	}
	if _, ok := c.Find(8); !ok {
		t.Error("the newest checkpoint is not there")
	}
	w.exactly(s, m)
	cancel()
	<-ended
	if err := u.Offer(8, checkpoint.KindCheckpoint); !errors.Is(err, ErrClosed) {
		t.Errorf("after its end: %v", err)
	}
	if list, err := w.disk.ReadDir("/store/leases"); err != nil || len(list) != 0 {
		t.Errorf("leases left: %v %v", list, err)
	}
}

// TestUploaderEndsInTheMiddle of an upload, and the next one makes up for it.
func TestUploaderEndsInTheMiddle(t *testing.T) {
	w := newWorld(t, 21)
	s := &gated{arrived: make(chan struct{}, 1), open: make(chan struct{})}
	m := w.mirror(s, nil)
	reports := make(chan Uploaded, 1)
	u := NewUploader(UploaderOptions{Mirror: m, Local: w.local, Report: func(r Uploaded) { reports <- r }})
	run, cancel := context.WithCancel(ctx)
	go u.Run(run)
	if err := u.Offer(w.snapshot(checkpoint.KindCheckpoint), checkpoint.KindCheckpoint); err != nil {
		t.Fatal(err)
	}
	<-s.arrived
	cancel()
	if r := <-reports; !errors.Is(r.Err, context.Canceled) {
		t.Errorf("%+v", r)
	}
	close(s.open)
	w.push(m, 1)
	w.now += 2 * leaseMS
	w.exactly(s, m)
	w.has(m, 1)
}
