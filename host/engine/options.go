package engine

import (
	"fmt"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators/guestop"
)

const (
	pageBytes = 64 << 10 // a page of linear memory

	defaultInBytes  = 384 << 10 // a full batch (128 KiB) with its tables, and cells of up to 1 KiB for 256 keys
	defaultOutBytes = 256 << 10
	minOutBytes     = 4 << 10
)

// checkOptions fills in defaults and refuses what can't be honoured.
func checkOptions(o guestop.InstanceOptions) (guestop.InstanceOptions, error) {
	if o.MemoryBytes == 0 {
		o.MemoryBytes = abi.DefaultMemoryBytes
	}
	if o.FuelPerRecord == 0 {
		o.FuelPerRecord = abi.FuelPerRecord
	}
	if o.FuelPerCall == 0 {
		o.FuelPerCall = abi.FuelPerCall
	}
	if o.OutputBytes == 0 {
		o.OutputBytes = defaultOutBytes
	}
	if o.MemoryBytes < pageBytes || o.MemoryBytes > abi.MaxMemoryBytes {
		return o, fmt.Errorf("engine: memory limit of an instance %d bytes, expected %d to %d", o.MemoryBytes, pageBytes, int64(abi.MaxMemoryBytes))
	}
	const most = 1 << 50 // far below where a sum could overflow
	if o.FuelPerRecord < 0 || o.FuelPerRecord > most {
		return o, fmt.Errorf("engine: fuel per record %d, expected 1 to %d", o.FuelPerRecord, int64(most))
	}
	if o.FuelPerCall < 0 || o.FuelPerCall > most {
		return o, fmt.Errorf("engine: fuel per call %d, expected 1 to %d", o.FuelPerCall, int64(most))
	}
	if o.OutputBytes < minOutBytes || o.OutputBytes > abi.MaxOutputBytes {
		return o, fmt.Errorf("engine: output buffer of %d bytes, expected %d to %d", o.OutputBytes, minOutBytes, abi.MaxOutputBytes)
	}
	return o, nil
}

// checkMemory refuses an instance whose module starts with more memory than it may have.
func (c *code) checkMemory(limit int64) error {
	if need := int64(c.wasm.Memories[0].Min) * pageBytes; need > limit {
		return fmt.Errorf("engine: module %.12s starts with %d KiB of memory, the limit of an instance is %d KiB", c.digest, need>>10, limit>>10)
	}
	return nil
}
