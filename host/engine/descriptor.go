package engine

import (
	"encoding/json"
	"fmt"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/host/instrument"
)

// maxDescriptorBytes bounds what mr_describe may return.
const maxDescriptorBytes = 1 << 20

func parseDescriptor(b []byte, where string) (*abi.Descriptor, error) {
	d := &abi.Descriptor{}
	if err := json.Unmarshal(b, d); err != nil {
		return nil, &Refused{Problems: []string{fmt.Sprintf("%s is not a descriptor: %v", where, err)}}
	}
	return d, nil
}

// checkDescriptor finds everything that is wrong with d, as the description of w.
func checkDescriptor(d *abi.Descriptor, w *instrument.Module) []string {
	problems := captureProblems(d, w)
	add := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if d.ABI != abi.Version {
		add("the descriptor is of ABI v%d, this host runs v%d", d.ABI, abi.Version)
	}
	if len(d.Functions) == 0 {
		add("the descriptor lists no function")
	}
	seen := map[string]bool{}
	for i := range d.Functions {
		f := &d.Functions[i]
		if f.Name == "" || seen[f.Name] {
			add("function %d: name %q is empty or used twice", i, f.Name)
		}
		seen[f.Name] = true
		problems = append(problems, checkFunction(f)...)
	}
	return problems
}

func checkFunction(f *abi.Function) []string {
	var problems []string
	add := func(format string, args ...any) {
		problems = append(problems, fmt.Sprintf("function %s: %s", f.Name, fmt.Sprintf(format, args...)))
	}
	kinds := []string{string(abi.FunctionMap), string(abi.FunctionFlatMap), string(abi.FunctionFilter), string(abi.FunctionProcess),
		string(abi.FunctionAggregate), string(abi.FunctionWindow), string(abi.FunctionWatermark)}
	if !contains(kinds, string(f.Kind)) {
		add("kind %q is unknown, expected one of %v%s", f.Kind, kinds, nearest(string(f.Kind), kinds))
	}
	if len(f.Outputs) > 250 {
		add("%d side outputs, at most 250", len(f.Outputs))
	}
	for _, domain := range f.Timers {
		if domain != "event" && domain != "processing" {
			add("timer domain %q is unknown, expected event or processing", domain)
		}
	}
	seen := map[string]bool{}
	for i, s := range f.States {
		if s.Name == "" || seen[s.Name] {
			add("state %d: name %q is empty or used twice", i, s.Name)
		}
		seen[s.Name] = true
		if s.Kind != abi.StateValue && s.Kind != abi.StateList && s.Kind != abi.StateMap {
			add("state %s: kind %q is unknown, expected value, list or map", s.Name, s.Kind)
		}
		if s.MaxBytes < 0 || s.MaxBytes > abi.MaxStateValueBytes {
			add("state %s: max_bytes %d, expected 0 to %d", s.Name, s.MaxBytes, abi.MaxStateValueBytes)
		}
		if why := s.TTL.Check(); why != "" {
			add("state %s: %s", s.Name, why)
		}
	}
	for _, why := range checkOfWindows(f) {
		add("%s", why)
	}
	if len(f.States) > 0 && !f.Keyed && f.Kind != abi.FunctionAggregate {
		add("it has keyed state but is not keyed")
	}
	return problems
}

// checkOfWindows checks what functions of windows declare.
func checkOfWindows(f *abi.Function) (problems []string) {
	add := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	switch f.Kind {
	case abi.FunctionAggregate:
		if f.Accumulator() == nil {
			add("an aggregate has one state, its accumulator, of kind value and max_bytes 1 to %d", abi.MaxPrefetchBytes)
		}
		if len(f.Output) == 0 {
			add("an aggregate declares the columns of its result as output")
		}
		if len(f.Outputs) > 0 {
			add("an aggregate has no side outputs")
		}
	case abi.FunctionWindow:
		if len(f.States) > 0 {
			add("a window function has no state")
		}
	case abi.FunctionWatermark:
		if len(f.States) > 0 || len(f.Output) > 0 || len(f.Outputs) > 0 || f.Keyed || len(f.Timers) > 0 {
			add("a watermark function has no key, states, timers or outputs")
		}
		return problems
	default:
		if f.Retracts {
			add("retracts is of aggregates only")
		}
		return problems
	}
	if f.Keyed || len(f.Timers) > 0 {
		add("a function of kind %s is neither keyed nor sets timers: its windows are", f.Kind)
	}
	return problems
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}
