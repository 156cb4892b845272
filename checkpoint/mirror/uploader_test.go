package mirror

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/objectstore"
)

// gated is a store whose puts of objects wait, and whose calls fail while it is down.
type gated struct {
	objectstore.Memory
	arrived, open chan struct{}
	mu            sync.Mutex
	down          error
}

func newGated() *gated {
	return &gated{arrived: make(chan struct{}, 1), open: make(chan struct{})}
}

func (g *gated) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.down = err
}

func (g *gated) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	g.mu.Lock()
	err := g.down
	g.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return g.Memory.Get(ctx, key)
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

// hand is time that passes when the test says so.
type hand struct {
	mu      sync.Mutex
	waiting map[time.Duration][]func()
}

func (h *hand) Sleep(ctx context.Context, _ time.Duration) error { return ctx.Err() }

func (h *hand) After(d time.Duration, f func()) (stop func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting == nil {
		h.waiting = map[time.Duration][]func(){}
	}
	h.waiting[d] = append(h.waiting[d], f)
	return func() {}
}

// pass lets what waits for d come, once something does.
func (h *hand) pass(t *testing.T, d time.Duration) {
	t.Helper()
	for range 2000 {
		if h.passed(func(w time.Duration) bool { return w == d }) {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("nothing waits for %v", d)
}

// passed lets come what waits for times that are meant, and says whether anything does.
func (h *hand) passed(meant func(time.Duration) bool) bool {
	h.mu.Lock()
	var fs []func()
	for d, waiting := range h.waiting {
		if meant(d) {
			fs = append(fs, waiting...)
			delete(h.waiting, d)
		}
	}
	h.mu.Unlock()
	for _, f := range fs {
		f()
	}
	return len(fs) > 0
}

// uploading is an uploader at work.
type uploading struct {
	*Uploader
	w       *world
	reports chan Uploaded
	stop    func()
}

func (w *world) upload(m *Mirror, change func(*UploaderOptions)) *uploading {
	u := &uploading{w: w, reports: make(chan Uploaded, 100)}
	o := UploaderOptions{Mirror: m, Local: w.local, Report: func(r Uploaded) { u.reports <- r }}
	if change != nil {
		change(&o)
	}
	u.Uploader = NewUploader(o)
	run, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		u.Run(run)
	}()
	u.stop = func() {
		cancel()
		<-ended
	}
	w.t.Cleanup(u.stop)
	return u
}

// next makes a snapshot and offers it.
func (u *uploading) next(kind checkpoint.Kind) checkpoint.ID {
	u.w.t.Helper()
	id := u.w.snapshot(kind)
	if err := u.Offer(Offered{ID: id, Kind: kind}); err != nil {
		u.w.t.Fatal(err)
	}
	return id
}

func (u *uploading) report() Uploaded {
	u.w.t.Helper()
	select {
	case r := <-u.reports:
		return r
	case <-time.After(20 * time.Second):
		u.w.t.Fatalf("no report: %+v", u.Status())
		return Uploaded{}
	}
}

// TestUploaderFollowsTheJob: while one upload is slow, of the checkpoints that come only the newest is uploaded,
// and each savepoint; a lease keeps what is being uploaded though only two local checkpoints are retained.
func TestUploaderFollowsTheJob(t *testing.T) {
	w := newWorld(t, 20)
	s := newGated()
	m := w.mirror(s, nil)
	u := w.upload(m, func(o *UploaderOptions) { o.Retain, o.GCEvery = 2, 1 })
	u.next(checkpoint.KindCheckpoint)
	<-s.arrived // 1 is being uploaded
	for range 3 {
		u.next(checkpoint.KindCheckpoint)
	}
	u.next(checkpoint.KindSavepoint)
	for range 3 {
		u.next(checkpoint.KindCheckpoint)
	}
	if st := u.Status(); st.Behind != 8 || st.Uploading != 1 || st.Uploaded != 0 {
		t.Errorf("%+v", st)
	}
	close(s.open)
	passed := 0
	var got []checkpoint.ID
	for len(got) == 0 || got[len(got)-1] != 8 {
		r := u.report()
		if r.Err != nil || r.Tidy != nil {
			t.Fatal(r.ID, r.Err, r.Tidy)
		}
		got, passed = append(got, r.ID), passed+r.Passed
	}
	if !slices.Equal(got, []checkpoint.ID{1, 5, 8}) || passed != 5 {
		t.Errorf("uploaded %v, passed over %d", got, passed)
	}
	if st := u.Status(); st.Behind != 0 || st.Uploaded != 8 || st.UploadedMS != w.now || st.Uploads != 3 || st.Bytes == 0 || st.Failures != 0 {
		t.Errorf("%+v", st)
	}
	w.exactly(s, m)
	w.has(m, 1, 5, 8)
	u.stop()
	if err := u.Offer(Offered{ID: 8}); !errors.Is(err, ErrClosed) {
		t.Errorf("after its end: %v", err)
	}
	if list, err := w.disk.ReadDir("/store/leases"); err != nil || len(list) != 0 {
		t.Errorf("leases left: %v %v", list, err)
	}
}

// TestUploaderEndsInTheMiddle of an upload, and the next one makes up for it.
func TestUploaderEndsInTheMiddle(t *testing.T) {
	w := newWorld(t, 21)
	s := newGated()
	m := w.mirror(s, nil)
	u := w.upload(m, nil)
	u.next(checkpoint.KindCheckpoint)
	<-s.arrived
	u.stop()
	if r := u.report(); !errors.Is(r.Err, context.Canceled) {
		t.Errorf("%+v", r)
	}
	close(s.open)
	w.push(m, 1)
	w.now += 2 * leaseMS
	w.exactly(s, m)
	w.has(m, 1)
}

// TestUploaderTriesAgain with growing pauses while the store is down, a newer checkpoint in the place of an older
// one, and each savepoint until it is there.
func TestUploaderTriesAgain(t *testing.T) {
	w := newWorld(t, 22)
	s := newGated()
	close(s.open)
	down := errors.New("no route")
	s.fail(down)
	m := w.mirror(s, nil)
	clock := &hand{}
	u := w.upload(m, func(o *UploaderOptions) { o.First, o.Longest, o.Timing = time.Second, 3*time.Second, clock })
	u.next(checkpoint.KindCheckpoint)
	if r := u.report(); !errors.Is(r.Err, down) || !r.Again || r.ID != 1 {
		t.Fatalf("%+v", r)
	}
	u.next(checkpoint.KindSavepoint)
	u.next(checkpoint.KindCheckpoint)
	for _, pause := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second} {
		clock.pass(t, pause)
		if r := u.report(); !errors.Is(r.Err, down) || !r.Again || r.ID != 2 {
			t.Fatalf("%+v", r)
		}
	}
	if st := u.Status(); st.Failures != 4 || !strings.Contains(st.LastFailure, "no route") || st.Behind != 3 {
		t.Errorf("%+v", st)
	}
	s.fail(nil)
	clock.pass(t, 3*time.Second)
	for _, id := range []checkpoint.ID{2, 3} {
		if r := u.report(); r.Err != nil || r.ID != id {
			t.Fatalf("%+v", r)
		}
	}
	if st := u.Status(); st.Failures != 0 || st.LastFailure != "" || st.Behind != 0 {
		t.Errorf("%+v", st)
	}
	w.has(m, 2, 3)
}

// TestUploaderGivesUpWhatCannotBe: another snapshot has the id there. The next one goes on.
func TestUploaderGivesUpWhatCannotBe(t *testing.T) {
	w, other := newWorld(t, 23), newWorld(t, 24)
	var s objectstore.Memory
	m := w.mirror(&s, nil)
	other.snapshot(checkpoint.KindCheckpoint)
	if _, err := m.Push(ctx, other.local, 1); err != nil {
		t.Fatal(err)
	}
	clock := &hand{}
	u := w.upload(m, func(o *UploaderOptions) { o.Timing = clock })
	u.next(checkpoint.KindCheckpoint)
	if r := u.report(); !errors.Is(r.Err, ErrIDTaken) || r.Again {
		t.Fatalf("%+v", r)
	}
	w.last = 5 // its parent is not of the mirror's line
	id := u.next(checkpoint.KindCheckpoint)
	clock.pass(t, time.Second)
	if r := u.report(); r.Err != nil || r.ID != id {
		t.Fatalf("%+v", r)
	}
}

// TestUploaderKeepsTheInterval between checkpoints; savepoints and the end of the run do not wait.
func TestUploaderKeepsTheInterval(t *testing.T) {
	w := newWorld(t, 25)
	var s objectstore.Memory
	clock := &hand{}
	u := w.upload(w.mirror(&s, nil), func(o *UploaderOptions) { o.Interval, o.Timing = time.Minute, clock })
	uploaded := func(want checkpoint.ID) {
		t.Helper()
		if r := u.report(); r.Err != nil || r.ID != want {
			t.Fatalf("%+v, want %d", r, want)
		}
	}
	u.next(checkpoint.KindCheckpoint)
	uploaded(1)
	u.next(checkpoint.KindCheckpoint)
	u.next(checkpoint.KindSavepoint)
	uploaded(3)
	u.next(checkpoint.KindCheckpoint)
	select {
	case r := <-u.reports:
		t.Fatalf("too early: %+v", r)
	case <-time.After(20 * time.Millisecond):
	}
	clock.pass(t, time.Minute)
	uploaded(4)
	u.next(checkpoint.KindCheckpoint)
	if err := u.Finish(ctx, time.Hour); err != nil {
		t.Error(err)
	}
	uploaded(5)
}

// TestUploaderCatchesUp: savepoints that the run before did not come to upload go first of all; what the mirror
// had and has no more stays away.
func TestUploaderCatchesUp(t *testing.T) {
	w := newWorld(t, 26)
	var s objectstore.Memory
	m := w.mirror(&s, nil)
	w.push(m, w.snapshot(checkpoint.KindSavepoint))
	w.push(m, w.snapshot(checkpoint.KindCheckpoint))
	if err := m.Delete(ctx, 1); err != nil {
		t.Fatal(err)
	}
	w.snapshot(checkpoint.KindSavepoint)
	u := w.upload(m, nil)
	u.next(checkpoint.KindCheckpoint)
	if err := u.Finish(ctx, time.Hour); err != nil {
		t.Fatal(err)
	}
	w.has(m, 2, 3, 4)
}

// TestFinishIsBounded: by failures, by standing still, and by its context.
func TestFinishIsBounded(t *testing.T) {
	w := newWorld(t, 27)
	s := newGated()
	clock := &hand{}
	m := w.mirror(s, nil)
	u := w.upload(m, func(o *UploaderOptions) { o.Timing = clock })
	u.next(checkpoint.KindCheckpoint)
	<-s.arrived
	end := make(chan error, 1)
	go func() { end <- u.Finish(ctx, time.Hour) }()
	clock.pass(t, time.Hour)
	if err := <-end; !errors.Is(err, ErrBehind) || !strings.Contains(err.Error(), "nothing moved for 1h") {
		t.Errorf("standing still: %v", err)
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	if err := u.Finish(done, time.Hour); !errors.Is(err, ErrBehind) || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	s.fail(errors.New("gone"))
	close(s.open)
	go func() { end <- u.Finish(ctx, 2*time.Hour) }()
	for {
		clock.passed(func(d time.Duration) bool { return d < time.Hour })
		select {
		case err := <-end:
			if !errors.Is(err, ErrBehind) || !strings.Contains(err.Error(), "after 3 attempts") || !strings.Contains(err.Error(), "gone") {
				t.Errorf("failing: %v", err)
			}
			return
		case <-time.After(time.Millisecond):
		}
	}
}
