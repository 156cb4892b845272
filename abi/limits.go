package abi

// Limits of one guest, each with its default. reasons: docs/rationale.md.
const (
	MaxRecordBytes      = 1 << 20   // one record in or out
	MaxKeyBytes         = 1 << 10   // a key that enters keyed state
	MaxStateValueBytes  = 1 << 20   // one value or map entry
	MaxPrefetchBytes    = 4 << 10   // a value state that declares more is not prefetched
	MaxOutputsPerRecord = 1000      // frames caused by one record or timer
	MaxOutputBytes      = 8 << 20   // bytes of them
	MaxTimersPerKey     = 1000      // live timers
	MaxTimerNameBytes   = 256       //
	MaxLogLineBytes     = 1 << 10   //
	MaxLogLinesPerSec   = 100       // per task; the rest is counted
	FuelPerRecord       = 50 << 20  // about 0.2 s
	FuelPerInit         = 500 << 20 // start + _initialize + mr_alloc
	FuelPerCall         = 5 << 20   // quantum after which next() asks the guest to yield (about 20 ms)
	MaxModuleBytes      = 8 << 20   //
	DefaultMemoryBytes  = 64 << 20  // linear memory of one instance
	MaxMemoryBytes      = 512 << 20 //
)
