package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/bench/result"
	"github.com/millrace-io/millrace/state/backend"
)

// The keyed running count in Rust, each update out, through the guest operator with the real engine and
// the real state: what a task does between two exchanges.

// Bounds of the keyed count, records/s/core.
const (
	count1k       = 4e6
	countTenTimes = 0.2e6
)

func init() {
	Register("count.rust_1k", func() error { return measureCount("count.rust_1k", 1000, 1024, nativeCount1k, count1k) })
	Register("count.rust_100k", func() error { return measureCount("count.rust_100k", 100_000, 2048, nil, 0) })
	Register("count.rust_ten_times_budget", measureTenTimes)
	Register("count.map_ten_times_budget", measureMapTenTimes)
}

// measureCount compares with the Go map version in the same run. Without a baseline the bound is that
// version itself, else an absolute rate, scaled.
func measureCount(name string, keys, batches int, scale func() result.Baseline, bound float64) error {
	u, err := openOp(opSettings{module: "count", function: "count", kind: backend.Memory, budget: 256 << 20})
	if err != nil {
		return err
	}
	defer u.close()
	in := hashed(makeBatches(batches, abi.DefaultBatchRecords, keys))
	var failed error
	guest, native, ratio := result.Pair(u.pass(in, &failed), keyedCount(in))
	if failed != nil {
		return failed
	}
	result.Note(name+".native", native, "records/s/core")
	if scale == nil {
		result.AtLeast(name+".ratio", ratio, "of_native", 1)
		result.Note(name+".rate", guest, "records/s/core")
	} else {
		result.Note(name+".ratio", ratio, "of_native")
		judge(scale(), name, guest, bound)
	}
	return u.close()
}

// tenTimesKeys are 10 M entries of 24 + 16 bytes; in memory they take about ten times tenTimesBudget.
const (
	tenTimesKeys   = 10_000_000
	tenTimesBudget = 107 << 20
)

// measureTenTimes counts uniform keys over a state of which a tenth fits into memory.
func measureTenTimes() error {
	const name = "count.rust_ten_times_budget"
	u, err := openOp(opSettings{module: "count", function: "count", kind: backend.Disk, budget: tenTimesBudget})
	if err != nil {
		return err
	}
	defer u.close()
	if err := eachKey(tenTimesKeys, u.one); err != nil {
		return err
	}
	_, st := u.Stats()
	result.Note(name+".in_files", float64(st.ColdBytes)/1e6, "MB")
	result.Note(name+".in_memory", float64(st.MemBytes)/1e6, "MB")
	rng := rand.New(rand.NewPCG(benchSeed, 10))
	var failed error
	var b abi.Batch
	rate := result.Rate(func() int {
		const n = 2048
		for range n {
			b.Reset()
			for range abi.DefaultBatchRecords {
				appendWide(&b, rng.IntN(tenTimesKeys))
			}
			if err := u.one(&b); err != nil {
				failed = err
			}
		}
		return n * abi.DefaultBatchRecords
	})
	if failed != nil {
		return failed
	}
	judge(nativeCount100k(), name, rate, countTenTimes)
	return u.close()
}

// eachKey hands every key to f once, in batches, in an order that is not the hashes'.
func eachKey(n int, f func(*abi.Batch) error) error {
	var b abi.Batch
	for i := 0; i < n; i++ {
		appendWide(&b, i)
		if b.Len() == abi.DefaultBatchRecords || i == n-1 {
			if err := f(&b); err != nil {
				return err
			}
			b.Reset()
		}
	}
	return nil
}

// appendWide appends a record with a key of 24 bytes, and its hash.
func appendWide(b *abi.Batch, key int) {
	var k [24]byte
	for i, x := len(k)-1, key; i > 0; i, x = i-1, x/10 {
		k[i] = byte('0' + x%10)
	}
	k[0] = 'k'
	var v [8]byte
	binary.LittleEndian.PutUint64(v[:], uint64(key))
	b.Append(&abi.Record{Time: int64(key), Key: k[:], Value: v[:]})
	b.Hash = append(b.Hash, hasher.Hash(k[:]))
}

// measureMapTenTimes puts and gets entries of map state through host calls: 40k keys with 8 user keys
// each, over a tree of which a tenth fits into memory and Pebble below it.
func measureMapTenTimes() error {
	const (
		name   = "count.map_ten_times_budget"
		keys   = 40_000
		ukeys  = 8
		budget = 2 << 20
	)
	u, err := openOp(opSettings{module: "effects", function: "effects", kind: backend.Disk, budget: budget})
	if err != nil {
		return err
	}
	defer u.close()
	put := func(b *abi.Batch, key, ukey, v int) {
		k := fmt.Appendf(nil, "k%011d", key)
		b.Append(&abi.Record{Key: k, Value: fmt.Appendf(nil, "put user-key-%02d %028d", ukey, v)})
		b.Hash = append(b.Hash, hasher.Hash(k))
	}
	var b abi.Batch
	flush := func() error {
		err := u.one(&b)
		b.Reset()
		return err
	}
	for i := range keys * ukeys {
		put(&b, i%keys, i/keys, i)
		if b.Len() == abi.DefaultBatchRecords {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	_, st := u.Stats()
	result.Note(name+".in_files", float64(st.ColdBytes)/1e6, "MB")
	result.Note(name+".in_memory", float64(st.MemBytes)/1e6, "MB")
	rng := rand.New(rand.NewPCG(benchSeed, 11))
	var failed error
	result.Note(name+".rate", result.Rate(func() int {
		const n = 64
		for range n {
			for range abi.DefaultBatchRecords {
				put(&b, rng.IntN(keys), rng.IntN(ukeys), 1)
			}
			if err := flush(); err != nil {
				failed = err
			}
		}
		return n * abi.DefaultBatchRecords
	}), "records/s/core")
	if failed != nil {
		return failed
	}
	return u.close()
}
