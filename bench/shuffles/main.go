// Command shuffles holds the window operator against brute force: for each combination of window, trigger,
// accumulation and lateness it hands the same records over in many orders of arrival, none of which makes a record
// late, and compares what every window holds in the end with what an oracle says that shares nothing with
// the operator. Each order is run in another way: in one, two or four tasks, in memory or on disk, in batches
// of 1, 64 or 1,024, with up to two snapshots from which it goes on in another number of tasks. In a thousand orders
// a combination meets each of those ways at least 18 times.
//
//	go run ./bench/shuffles                       1,000 orders of each combination
//	go run ./bench/shuffles -n 20 session count   fewer, of combinations whose name has these words
//	go run ./bench/shuffles -list                 the names of the combinations
//	go run ./bench/shuffles -seed 17 -n 1 NAME    what a failure prints
//
// The exit status is 1 if any order gave something else.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"runtime/pprof"

	"github.com/millrace-io/millrace/bench/result"
)

func main() {
	n := flag.Int("n", 1000, "orders of arrival of each combination")
	seed := flag.Uint64("seed", 0, "first one")
	workers := flag.Int("workers", runtime.GOMAXPROCS(0), "`number` of orders at once")
	list := flag.Bool("list", false, "print the names of the combinations and stop")
	profile := flag.String("cpuprofile", "", "write a CPU profile to this `file`")
	flag.Parse()
	debug.SetGCPercent(400)
	cs := combos(flag.Args())
	if len(cs) == 0 || *n < 1 || *workers < 1 {
		fmt.Fprintf(os.Stderr, "shuffles: nothing to do: %d combinations have all of %q in their name, see -list\n", len(cs), flag.Args())
		os.Exit(2)
	}
	if *list {
		for _, c := range cs {
			fmt.Println(c.name)
		}
		return
	}
	if *profile != "" {
		f, err := os.Create(*profile)
		if err == nil {
			err = pprof.StartCPUProfile(f)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "shuffles:", err)
			os.Exit(2)
		}
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt) // what is under way ends, and counts
	r := &runner{n: *n, seed: *seed, workers: *workers, combos: cs, progress: os.Stderr, stop: stop}
	r.run()
	pprof.StopCPUProfile()
	r.report()
	result.Exit()
}
