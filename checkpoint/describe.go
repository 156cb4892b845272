package checkpoint

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
)

// OperatorInfo is what a snapshot holds for one operator, over all its tasks.
type OperatorInfo struct {
	Operator    string           `json:"operator"`
	Parallelism int              `json:"parallelism"`
	Finished    bool             `json:"finished,omitempty"`  // all its tasks had ended
	Watermark   *int64           `json:"watermark,omitempty"` // least of its tasks; nil: it has no input
	Module      string           `json:"module,omitempty"`    // digest of what it ran
	Canary      *CanaryInfo      `json:"canary,omitempty"`    // that it ran beside; nil: none
	States      []StateInfo      `json:"states,omitempty"`    // by name
	Splits      []SplitPosition  `json:"splits,omitempty"`    // of a source, by name
	Staged      int              `json:"staged,omitempty"`    // files to publish
	DataBytes   int64            `json:"data_bytes,omitempty"`
	Numbers     map[string]int64 `json:"numbers,omitempty"` // sums over tasks
}

// CanaryInfo is an operator's part of a canary.
type CanaryInfo struct {
	Module string `json:"module"` // digest
	Lo     uint32 `json:"lo"`     // slots [Lo, Hi)
	Hi     uint32 `json:"hi"`
}

// String is "none", or "817132f63f87 has slots 0-3276 (5 %)".
func (c *CanaryInfo) String() string {
	if c == nil {
		return "none"
	}
	return fmt.Sprintf("%.12s has %s", c.Module, SlotsText(c.Lo, c.Hi))
}

// StateInfo is one state of one operator, over all its tasks.
type StateInfo struct {
	Name    string   `json:"name"`
	Kind    string   `json:"kind"`    // value, map, list, timers
	Version int      `json:"version"` // of its schema
	Entries uint64   `json:"entries"` // in all runs: a key changed since an older run counts twice, deletions count
	Bytes   int64    `json:"bytes"`   // of its objects, each once
	Objects []string `json:"objects"` // digests, sorted
}

// Describe sums a snapshot up, in the order of its operators.
func Describe(m *Manifest) []OperatorInfo {
	var order []string
	byID := map[string]*OperatorInfo{}
	states := map[string]map[string]*StateInfo{}
	sizes := map[string]int64{}
	for i := range m.Tasks {
		t := &m.Tasks[i]
		for _, o := range t.Operators {
			info := byID[o.Operator]
			if info == nil {
				info = &OperatorInfo{Operator: o.Operator, Finished: true}
				byID[o.Operator], states[o.Operator] = info, map[string]*StateInfo{}
				order = append(order, o.Operator)
			}
			info.add(t, &o)
			if o.Keyed != nil {
				addStates(states[o.Operator], sizes, &o)
			}
		}
	}
	for _, mod := range m.Modules {
		if info := byID[mod.Operator]; info != nil {
			info.Module = mod.Digest
			if c, ok := m.Canary.Module(mod.Operator); ok {
				info.Canary = &CanaryInfo{c.Digest, m.Canary.Lo, m.Canary.Hi}
			}
		}
	}
	out := make([]OperatorInfo, 0, len(order))
	for _, id := range order {
		info := byID[id]
		for _, name := range slices.Sorted(maps.Keys(states[id])) {
			s := states[id][name]
			slices.Sort(s.Objects)
			s.Objects = slices.Compact(s.Objects)
			for _, d := range s.Objects {
				s.Bytes += sizes[d]
			}
			info.States = append(info.States, *s)
		}
		slices.SortFunc(info.Splits, func(a, b SplitPosition) int { return cmp.Compare(a.Split, b.Split) })
		out = append(out, *info)
	}
	return out
}

func (i *OperatorInfo) add(t *TaskSnapshot, o *OperatorSnapshot) {
	i.Parallelism = max(i.Parallelism, t.Parallelism)
	i.Finished = i.Finished && t.Finished
	if len(t.Watermarks) > 0 {
		w := int64(math.MaxInt64)
		if i.Watermark != nil {
			w = *i.Watermark
		}
		w = min(w, t.Watermark())
		i.Watermark = &w
	}
	i.Splits = append(i.Splits, o.Splits...)
	i.Staged += len(o.Staged)
	i.DataBytes += int64(len(o.Data))
	for name, n := range o.Numbers {
		if i.Numbers == nil {
			i.Numbers = map[string]int64{}
		}
		i.Numbers[name] += n
	}
}

func addStates(states map[string]*StateInfo, sizes map[string]int64, o *OperatorSnapshot) {
	for _, st := range o.Keyed.States {
		s := states[st.Name]
		if s == nil {
			s = &StateInfo{Name: st.Name, Kind: st.Kind, Objects: []string{}}
			states[st.Name] = s
		}
		s.Version = max(s.Version, st.Version)
		for _, run := range st.Runs {
			s.Entries += run.Count
			s.Objects = append(s.Objects, run.Object)
			sizes[run.Object] = run.Size
		}
	}
}
