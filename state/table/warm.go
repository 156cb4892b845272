package table

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The first touch of a huge page zeroes 2 MiB, which may take the owner longer than everything else in a
// batch. So a grid to grow to starts with small pages, of which each step touches few, and a warmer puts
// huge pages into it: while the owner fills it from its start, from its end downwards; and when it is
// filled, over the small pages the owner touched. The warmer never reads or writes the memory, it only
// asks the kernel, which keeps the contents.

// warmMargin is how far the warmer stays from the owner: more than the owner fills while one huge page is
// zeroed, or the owner would touch that page first and zero it itself.
const warmMargin = 16 << 20

type warmer struct {
	first, last int // of mem: whole huge pages
	from        int // from here on there are huge pages
	filled      atomic.Int64
	stop        atomic.Bool
	done        chan struct{} // closed: the goroutine is gone
}

// mapGrowing maps memory that is filled from its start on, with its warmer; nil if it is too small for one.
func mapGrowing(n int) ([]byte, *warmer, error) {
	if n < hugeFrom {
		b, err := mapMemory(n)
		return b, nil, err
	}
	b, err := mapPlain(n)
	if err != nil {
		return nil, nil, err
	}
	_ = unix.Madvise(b, unix.MADV_NOHUGEPAGE) // a hint
	skew := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) % hugePage)
	w := &warmer{first: skew, last: skew + (n-skew)/hugePage*hugePage, done: make(chan struct{})}
	w.from = w.last
	go func(done chan struct{}) {
		defer close(done)
		w.ahead(b)
	}(w.done)
	return b, w, nil
}

// ahead fills in huge pages from the end down to where the owner is.
func (w *warmer) ahead(b []byte) {
	for w.from > w.first && !w.stop.Load() {
		at := w.from - hugePage
		if int64(at) < w.filled.Load()+warmMargin {
			return
		}
		p := b[at:w.from]
		_ = unix.Madvise(p, unix.MADV_HUGEPAGE)
		if unix.Madvise(p, unix.MADV_POPULATE_WRITE) != nil {
			return // an old kernel, or no memory: the owner touches it when it comes there
		}
		w.from = at
	}
}

// finish puts huge pages where the owner was first. The grid is filled.
func (w *warmer) finish(b []byte) {
	w.filled.Store(int64(len(b))) // ends ahead
	before, done := w.done, make(chan struct{})
	w.done = done
	go func() {
		defer close(done)
		<-before
		_ = unix.Madvise(b[w.first:w.last], unix.MADV_HUGEPAGE)
		for at := w.first; at < w.from && !w.stop.Load(); at += hugePage {
			_ = unix.Madvise(b[at:at+hugePage], unix.MADV_COLLAPSE) // if not, the kernel may do so in time
		}
	}()
}

// wait ends the warmer's work: it takes as long as one huge page does.
func (w *warmer) wait() {
	if w != nil {
		w.stop.Store(true)
		<-w.done
	}
}
