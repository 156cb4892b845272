package main

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/bench/result"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/state/backend"
)

// What a barrier costs a guest whose memory is state, when one page in a hundred has changed: CPU time of the
// task's thread, during which nothing moves, and bytes that go to the snapshot store.

const (
	memoryKeys      = 200_000
	memoryTouched   = 170 // records between two cuts: with the block and the outputs, 1 % of the pages
	memoryCuts      = 130 // more than a pack is kept, so that a cut that writes all anew is among them
	memoryPauseMost = 0.35
	memoryShareMost = 3
)

func init() { Register("memimage", measureMemoryImages) }

func measureMemoryImages() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	u, err := openOp(opSettings{module: "ledger", function: "ledger", kind: backend.Memory, budget: 64 << 20})
	if err != nil {
		return err
	}
	defer u.close()
	var b abi.Batch
	put := func(k, n int) {
		key := fmt.Appendf(nil, "key-%08d", k)
		b.Append(&abi.Record{Key: key, Value: fmt.Appendf(nil, "n %d", n)})
	}
	for k := 0; k < memoryKeys; {
		b.Reset()
		for ; b.Len() < abi.DefaultBatchRecords && k < memoryKeys; k++ {
			put(k, k)
		}
		hashed([]*abi.Batch{&b})
		if err := u.one(&b); err != nil {
			return err
		}
	}
	m := memoryMeter{u: u, known: map[string]bool{}}
	if err := m.cut(); err != nil { // the first one has all
		return err
	}
	first := m.pauses[0]
	m.pauses, m.written, m.dirty = nil, 0, nil
	rng := rand.New(rand.NewPCG(benchSeed, 21))
	for i := range memoryCuts {
		b.Reset()
		for range memoryTouched {
			put(rng.IntN(memoryKeys), i)
		}
		hashed([]*abi.Batch{&b})
		if err := u.one(&b); err != nil {
			return err
		}
		if err := m.cut(); err != nil {
			return err
		}
	}
	mb := float64(m.pages) * 4 / 1024
	result.Note("memimage.memory", mb, "MB")
	result.Note("memimage.dirty", 100*result.Median(m.dirty)/float64(m.pages), "%")
	result.AtMost("memimage.pause", result.Median(m.pauses)/mb, "ms/MB", memoryPauseMost)
	result.Note("memimage.pause_first", first/mb, "ms/MB")
	result.Note("memimage.pause_worst", slices.Max(m.pauses)/mb, "ms/MB")
	result.AtMost("memimage.upload", 100*float64(m.written)/float64(memoryCuts)/(mb*1024*1024), "%", memoryShareMost)
	return u.close()
}

// memoryMeter makes cuts and says what they cost.
type memoryMeter struct {
	u       *opUnderTest
	id      checkpoint.ID
	known   map[string]bool // objects that earlier cuts have written
	pages   int             // of the memory
	pauses  []float64       // ms
	dirty   []float64       // pages in a cut's own pack
	written int64           // bytes of objects that no earlier cut had
}

func (m *memoryMeter) cut() error {
	m.id++
	start := result.ThreadCPU()
	p, err := m.u.Barrier(checkpoint.Barrier{ID: m.id})
	if err != nil {
		return err
	}
	m.pauses = append(m.pauses, ms(result.ThreadCPU()-start))
	<-p.Done()
	s, err := p.Result()
	if err != nil {
		return err
	}
	if s.Memory == nil {
		return fmt.Errorf("cut %d has no memory", m.id)
	}
	const bytesOfPage, headOfTable = 24, 136
	m.pages = int(s.Memory.Table.Size-headOfTable) / bytesOfPage // but for a few globals
	fresh := float64(0)
	for _, f := range append(slices.Clone(s.Memory.Packs), s.Memory.Table) {
		if m.known[f.Object] {
			continue
		}
		m.known[f.Object] = true
		m.written += f.Size
		if f != s.Memory.Table {
			fresh += float64(f.Size / 4096)
		}
	}
	m.dirty = append(m.dirty, fresh)
	return m.u.Complete(m.id)
}
