package hostcall

import "github.com/millrace-io/millrace/abi"

func init() {
	define(abi.ImportModule, abi.CallLog, "iii", "", log)
	define(abi.ImportModule, abi.CallMetric, "iil", "i", metric)
}

// log writes a line to the log of the operator, at most MaxLogLinesPerSec; the rest is counted.
//
//	params:   level i32  LogDebug .. LogError; anything else counts as LogInfo
//	          msg, len    UTF-8; cut at MaxLogLineBytes
//	returns:  nothing
//	traps:    msg not inside the memory
//	owns:     the host copies msg
func log(s *Scope, stack []uint64) {
	msg, ok := s.Bytes(stack[1], stack[2])
	if !ok {
		badRange(abi.CallLog, stack[1], stack[2], s)
	}
	level := i32(stack[0])
	if level < abi.LogDebug || level > abi.LogError {
		level = abi.LogInfo
	}
	s.Env.Log(s.Record(), level, cut(msg))
}

// MaxMetricNameBytes limits a counter's name.
const MaxMetricNameBytes = 128

// metric adds to a counter of the operator.
//
//	params:   name, name_len  ASCII letters, digits, '_', '.'; 1 to 128 bytes
//	          add i64
//	returns:  0
//	errors:   StatusBadPointer  name not inside the memory
//	          StatusBadArg      name is empty or has other characters
//	          StatusLimit       name too long, or too many counters
//	owns:     the host copies name
func metric(s *Scope, stack []uint64) {
	name, st := s.Limited(stack[0], stack[1], MaxMetricNameBytes)
	if st >= 0 && !metricName(name) {
		st = abi.StatusBadArg
	}
	if st >= 0 {
		st = s.Env.Metric(s.Record(), name, int64(stack[2]))
	}
	stack[0] = result(st)
}

func metricName(b []byte) bool {
	for _, c := range b {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '.') {
			return false
		}
	}
	return len(b) > 0
}
