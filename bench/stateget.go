package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/bench/result"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapread"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/operators/stateview"
	"github.com/millrace-io/millrace/state"
)

const (
	stateGetBound = 50 // ms, at 1 GB
	stateGetMB    = 64
	stateGetValue = 512 // bytes
	stateGetKeys  = 50  // looked up
)

func init() { Register("state.get", measureStateGet) }

// measureStateGet looks up keys of a snapshot of STATE_GET_MB megabytes (64; 1024 for the figure that is
// published), each as a command would: the store opened, the snapshot leased, its files opened.
func measureStateGet() (err error) {
	mb := stateGetMB
	if n, err := strconv.Atoi(os.Getenv("STATE_GET_MB")); err == nil && n > 0 {
		mb = n
	}
	dir, err := os.MkdirTemp("", "millrace-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	n := mb << 20 / (stateGetValue + 24)
	if err := makeSnapshot(dir, n); err != nil {
		return err
	}
	var ms []float64
	for i := range stateGetKeys {
		key := strconv.Itoa(i * (n / stateGetKeys))
		start := time.Now()
		rows, err := getOnce(dir, key)
		if err != nil {
			return err
		}
		ms = append(ms, float64(time.Since(start).Microseconds())/1000)
		if rows != 1 {
			return fmt.Errorf("key %s has %d rows", key, rows)
		}
	}
	result.Note("state.get_snapshot", float64(mb), "MB")
	result.AtMost("state.get", result.Median(ms), "ms", stateGetBound)
	return nil
}

func getOnce(dir, key string) (rows int, err error) {
	store, err := snapstore.Open(filepath.Join(dir, "snapshots"), snapstore.Options{ReadOnly: true})
	if err != nil {
		return 0, err
	}
	defer store.Close()
	lease, err := store.Lease("bench", 1)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, lease.Release()) }()
	m, err := store.Load(1)
	if err != nil {
		return 0, err
	}
	_, err = stateview.Open(m, store).Scan(context.Background(), stateview.Query{Key: &key}, func([]byte) error {
		rows++
		return nil
	})
	return rows, err
}

// makeSnapshot makes snapshot 1 of one task: keys 0 to n-1 in one run.
func makeSnapshot(dir string, n int) (err error) {
	store, err := snapstore.Open(filepath.Join(dir, "snapshots"), snapstore.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	type entry struct {
		hash uint64
		key  int
	}
	all := make([]entry, n)
	for i := range all {
		all[i] = entry{hasher.Hash([]byte(strconv.Itoa(i))), i}
	}
	slices.SortFunc(all, func(a, b entry) int {
		return snapread.CompareKeys(a.hash, []byte(strconv.Itoa(a.key)), b.hash, []byte(strconv.Itoa(b.key)))
	})
	w, err := snapread.NewRunWriter(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	value := make([]byte, stateGetValue)
	for _, e := range all {
		binary.LittleEndian.PutUint64(value, uint64(e.key))
		if err := w.Add(e.hash, []byte(strconv.Itoa(e.key)), value, false); err != nil {
			return err
		}
	}
	ctx := context.Background()
	run, err := w.Finish(ctx, store)
	if err != nil {
		return err
	}
	pipeline, _, err := store.Put(ctx, []byte("name: bench\n"))
	if err != nil {
		return err
	}
	m := &checkpoint.Manifest{Format: checkpoint.FormatVersion, ID: 1, Job: "bench", Seed: hasher.Seed, Slots: state.Slots, Pipeline: pipeline}
	m.States = []checkpoint.StateRef{{Operator: "op", State: abi.StateDescriptor{Name: "s", Kind: abi.StateValue}}}
	m.Tasks = []checkpoint.TaskSnapshot{{Vertex: "op", Parallelism: 1, Operators: []checkpoint.OperatorSnapshot{{Operator: "op", Keyed: &state.Snapshot{
		Range: state.TaskRange(0, 1), States: []state.StateSnapshot{{Name: "s", Kind: "value", Runs: []state.Run{run}}}}}}}}
	return store.WriteManifest(ctx, m)
}
