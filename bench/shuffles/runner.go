package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/millrace-io/millrace/bench/result"
	"github.com/millrace-io/millrace/operators/window/windowtest"
)

const mostShown = 20 // failures

// runner runs the orders of all combinations.
type runner struct {
	n        int
	seed     uint64
	workers  int
	combos   []*combo
	pairwise bool      // of each window and trigger one combination per seed
	progress io.Writer // nil: none
	stop     <-chan os.Signal

	mu                sync.Mutex
	totals            totals
	failed            int
	failures          []string
	met               map[string]int // how many orders a combination met
	started, reported time.Time
}

type totals struct{ orders, records, results, restores, spilled int64 }

// job is all orders of one stream for one shape.
type job struct {
	shape  *shape
	stream uint64
	seeds  []uint64
}

func (r *runner) run() {
	r.met, r.started, r.reported = map[string]int{}, time.Now(), time.Now()
	var jobs []job // all shapes of one stream, then those of the next
	for from := 0; from < r.n; {
		j := job{stream: (r.seed + uint64(from)) / perStream}
		for ; from < r.n && (r.seed+uint64(from))/perStream == j.stream; from++ {
			j.seeds = append(j.seeds, r.seed+uint64(from))
		}
		for i := range shapes {
			j.shape = &shapes[i]
			jobs = append(jobs, j)
		}
	}
	next := make(chan job)
	var wg sync.WaitGroup
	for range r.workers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			m, err := newMachine()
			if err == nil {
				for j := range next {
					r.job(m, j)
				}
				err = m.close()
			}
			if err != nil {
				r.fail(err.Error())
			}
			for range next { // what is left, if there is no machine for it
			}
		}()
	}
	for _, j := range jobs {
		select {
		case next <- j:
			continue
		case <-r.stop:
		}
		break
	}
	close(next)
	wg.Wait()
}

func (r *runner) job(m *machine, j job) {
	rs := stream(j.stream)
	want := windowtest.Finals(j.shape.window, rs)
	m.load(rs)
	var es []event
	var t totals
	for _, c := range r.combos {
		if c.shape != j.shape {
			continue
		}
		n := 0
		for _, seed := range j.seeds {
			if r.pairwise && !c.sampled(seed) {
				continue
			}
			n++
			w := c.nodeFor(seed)
			ahead := int64(0)
			if seed%4 >= 2 {
				ahead = w.Lateness
			}
			es = arrivals(seed, rs, ahead, c.clocks, es[:0])
			v := variantOf(kindFor(c, seed), seed, len(es))
			err := m.run(w, v, es)
			var wrong []string
			if err != nil {
				wrong = []string{err.Error()}
			} else {
				wrong = judge(w, m.results, want)
			}
			t.results += int64(len(m.results))
			if len(wrong) > 0 {
				r.fail(fmt.Sprintf("go run ./bench/shuffles -seed %d -n 1 %s\n   %s; revisions %t, kept records %t, watermark %d ms ahead\n   %s",
					seed, c.name, v, w.Revision, len(w.Aggregates) > 4, ahead, first(wrong)))
			}
		}
		t.orders += int64(n)
		r.count(c, n)
	}
	t.records = t.orders * records
	t.restores, t.spilled, m.restores, m.spilled = m.restores, m.spilled, 0, 0
	r.mu.Lock()
	defer r.mu.Unlock()
	r.totals.add(t)
	if now := time.Now(); r.progress != nil && now.Sub(r.reported) > 20*time.Second {
		r.reported = now
		fmt.Fprintf(r.progress, "%d of %d orders, %d failed, %.0f s\n", r.totals.orders, r.n*len(r.combos), r.failed, now.Sub(r.started).Seconds())
	}
}

func (t *totals) add(o totals) {
	t.orders += o.orders
	t.records += o.records
	t.results += o.results
	t.restores += o.restores
	t.spilled += o.spilled
}

func first(wrong []string) (s string) {
	for i, w := range wrong {
		if i == 5 {
			return s + fmt.Sprintf("\n   and %d more", len(wrong)-i)
		}
		if i > 0 {
			s += "\n   "
		}
		s += w
	}
	return s
}

func (r *runner) count(c *combo, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.met[c.name] += n
}

func (r *runner) fail(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed++; len(r.failures) < mostShown {
		r.failures = append(r.failures, text)
	}
}

// sampled says whether a combination is run with a seed where only one of each window and trigger is.
func (c *combo) sampled(seed uint64) bool {
	return (uint64(c.number)+seed)%uint64(len(accumulations)*len(latenesses)) == 0
}

// report prints failures and figures.
func (r *runner) report() {
	for _, f := range r.failures {
		fmt.Fprintln(os.Stderr, f)
	}
	least := -1
	for _, c := range r.combos {
		if n := r.met[c.name]; least < 0 || n < least {
			least = n
		}
	}
	t := r.totals
	result.Note("shuffles.combinations", float64(len(r.combos)), "window/trigger/accumulation/lateness")
	result.AtLeast("shuffles.orders_of_each", float64(least), "orders", float64(r.n))
	result.Note("shuffles.orders", float64(t.orders), "orders")
	result.Note("shuffles.records", float64(t.records), "records")
	result.Note("shuffles.results", float64(t.results), "results")
	result.Note("shuffles.restores", float64(t.restores), "restores")
	result.Note("shuffles.spilled", float64(t.spilled), "evictions")
	result.AtMost("shuffles.wrong", float64(r.failed), "orders", 0)
}
