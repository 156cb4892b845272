package abi

// Version is the ABI this host speaks. v0 may change until every kind of function exists.
const Version = 0

// Names of what a guest exports.
const (
	ExportVersion    = "mr_abi_v0"   // () -> (): marker of the version
	ExportAlloc      = "mr_alloc"    // (size i32) -> i32: a buffer that lives as long as the instance
	ExportProcess    = "mr_process"  // (in, in_len, out, out_cap, first: i32) -> status i32
	ExportDescribe   = "mr_describe" // () -> i64: ptr<<32 | len of the descriptor; optional
	ExportSave       = "mr_save"     // (buf, cap i32) -> i32: the next part of what its variables mean, 0 at the end; optional
	ExportLoad       = "mr_load"     // (buf, len i32) -> i32: takes such a part, length 0 at the end; 0 is good; optional
	ExportInitialize = "_initialize" // () -> (): optional, run once per instance
	ExportMemory     = "memory"
)

// ImportModule is the name of the module of all host calls.
const ImportModule = "mr"

// Names of the host calls; signatures in abi.yaml.
const (
	CallNext        = "next"         // (i i32) -> i32: 1 = yield
	CallFail        = "fail"         // (msg, len) -> (): the current record failed, undo its effects
	CallGet         = "get"          // (state, ukey, ukey_len, buf, cap i32) -> i64: length, or status < 0
	CallPut         = "put"          // (state, ukey, ukey_len, val, val_len i32) -> i32
	CallDelete      = "delete"       // (state, ukey, ukey_len i32) -> i32
	CallClear       = "clear"        // (state i32) -> i32
	CallAppend      = "append"       // (state, val, val_len i32) -> i32: list state
	CallScan        = "scan"         // (state, from, from_len i32) -> i32: iterator
	CallScanNext    = "scan_next"    // (iter, buf, cap i32) -> i32: bytes written, 0 at the end; scan.go
	CallScanClose   = "scan_close"   // (iter i32) -> i32
	CallTimerSet    = "timer_set"    // (domain, name, name_len i32, time i64) -> i32
	CallTimerDelete = "timer_delete" // (domain, name, name_len i32, time i64) -> i32
	CallEmit        = "emit"         // (frame, len, at i32) -> i32: an output larger than the buffer
	CallLog         = "log"          // (level, msg, len i32) -> ()
	CallMetric      = "metric"       // (name, name_len i32, add i64) -> i32
	CallRandom      = "random"       // (buf, len i32) -> i32
)

// ReservedPrefix is what no guest may use in an export: the rewriter's names start with it.
const ReservedPrefix = "__mr_"
