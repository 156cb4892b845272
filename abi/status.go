package abi

// Status is what a host call or mr_process returns. Negative values of host calls are errors.
type Status int32

// What mr_process returns.
const (
	StatusDone  Status = 0 // every record of the block is done
	StatusYield Status = 1 // go on at `consumed` after draining the outputs
)

// What host calls return where they return a status; 0 or more is success.
const (
	StatusOK         Status = 0
	StatusAbsent     Status = -1 // no such entry
	StatusTooSmall   Status = -2 // the buffer is too small; nothing was written
	StatusBadArg     Status = -3 // unknown state, output, iterator or domain
	StatusBadPointer Status = -4 // a byte range outside the guest's memory
	StatusLimit      Status = -5 // a limit of limits.go
	StatusNoKey      Status = -6 // there is no current key
	StatusForbidden  Status = -7 // not allowed in this callback
)

// Timer domains.
const (
	DomainEvent      = 0
	DomainProcessing = 1
)

// Log levels.
const (
	LogDebug = 0
	LogInfo  = 1
	LogWarn  = 2
	LogError = 3
)
