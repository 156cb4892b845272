package main

import (
	"encoding/binary"
	"fmt"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/bench/result"
	"github.com/millrace-io/millrace/state/backend"
)

// Timers of a guest in Rust, through the guest operator with the real engine and the real state: each record
// sets one event-time timer of its key 10 s ahead, and each timer that fires gives a record. Records come one
// per ms over 100,000 keys, up to 50 ms out of order, with a watermark each 100 ms: a call is cut at each of
// them, and at each about a hundred timers fire.

// timersRate is the bound, records set and fired per second and core.
const timersRate = 0.6e6

func init() { Register("timers.register_fire", measureTimers) }

func measureTimers() error {
	const name = "timers.register_fire"
	u, err := openOp(opSettings{module: "alarm", function: "alarm", kind: backend.Memory, budget: 256 << 20})
	if err != nil {
		return err
	}
	defer u.close()
	in := outOfOrder(4096, 100_000)
	var failed error
	pass := u.pass(in, &failed)
	rate := result.Rate(func() int {
		n := pass()
		later(in)
		return n
	})
	if failed != nil {
		return failed
	}
	stats, st := u.Stats()
	twice := stats.In - stats.Timers - st.Timers // two records of a key may have one time, and so one timer
	if twice < 0 || twice > stats.In/10_000 || stats.Timers != int64(u.out.records) {
		return fmt.Errorf("%s: %d records, %d timers fired, %d wait, %d records came of them", name, stats.In, stats.Timers, st.Timers, u.out.records)
	}
	result.Note(name+".timers_waiting", float64(st.Timers), "timers")
	judge(nativeCount100k(), name, rate, timersRate)
	return u.close()
}

// later moves batches in time to behind their own end, so that time goes on in the next pass.
func later(batches []*abi.Batch) {
	by := int64(countRecords(batches)) // of 1 ms each
	for _, b := range batches {
		for i := range b.Off {
			f := b.Frame(i)
			binary.LittleEndian.PutUint64(f[abi.FrameTime:], uint64(f.Time()+by))
		}
		for i := range b.Marks {
			b.Marks[i].Watermark += by
		}
	}
}
