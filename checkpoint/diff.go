package checkpoint

import (
	"reflect"
	"slices"
)

// Diff is what changed from snapshot A to snapshot B.
type Diff struct {
	A         ID             `json:"a"`
	B         ID             `json:"b"`
	ElapsedMS int64          `json:"elapsed_ms"` // from the making of A to that of B
	Pipeline  bool           `json:"pipeline"`   // the pipeline file is another
	Operators []OperatorDiff `json:"operators"`  // those that differ, in the order of B, then what only A has
	Added     []ObjectSize   `json:"added"`      // objects that only B needs, sorted by digest
	Removed   []ObjectSize   `json:"removed"`    // objects that only A needs
	Shared    int            `json:"shared"`     // objects that both need
	AddedB    int64          `json:"added_bytes"`
	RemovedB  int64          `json:"removed_bytes"`
	SharedB   int64          `json:"shared_bytes"`
}

// ObjectSize is an object with its bytes, -1 if no manifest records them.
type ObjectSize struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

// OperatorDiff is what changed for one operator. A side that is nil does not have it.
type OperatorDiff struct {
	Operator string        `json:"operator"`
	A        *OperatorInfo `json:"a,omitempty"`
	B        *OperatorInfo `json:"b,omitempty"`
	States   []StateDiff   `json:"states,omitempty"` // those that differ, by name
	Splits   []SplitDiff   `json:"splits,omitempty"` // those that moved, by name
	// WatermarkMS is how far the watermark moved; 0 also where a side has none.
	WatermarkMS   int64 `json:"watermark_ms,omitempty"`
	ModuleChanged bool  `json:"module_changed,omitempty"`
}

// StateDiff is what changed in one state.
type StateDiff struct {
	Name    string       `json:"name"`
	Entries int64        `json:"entries"` // more in B; see StateInfo
	Bytes   int64        `json:"bytes"`   // more in B
	Added   []ObjectSize `json:"added,omitempty"`
	Removed []ObjectSize `json:"removed,omitempty"`
}

// SplitDiff is how far a source read on in one split.
type SplitDiff struct {
	Split   string `json:"split"`
	Offset  int64  `json:"offset"`  // in B minus in A; source-defined unit
	Records int64  `json:"records"` // read between
	New     bool   `json:"new,omitempty"`
	Gone    bool   `json:"gone,omitempty"` // B does not have it
}

// Compare says what changed from a to b. They may be of different jobs.
func Compare(a, b *Manifest) Diff {
	d := Diff{A: a.ID, B: b.ID, ElapsedMS: b.CreatedMS - a.CreatedMS, Pipeline: a.Pipeline != b.Pipeline}
	inA, inB := objectSizes(a), objectSizes(b)
	d.Added, d.AddedB = missing(inB, inA)
	d.Removed, d.RemovedB = missing(inA, inB)
	for digest, size := range inA {
		if _, ok := inB[digest]; ok {
			d.Shared++
			d.SharedB += max(size, 0)
		}
	}
	before := map[string]OperatorInfo{}
	for _, o := range Describe(a) {
		before[o.Operator] = o
	}
	for _, o := range Describe(b) {
		old, ok := before[o.Operator]
		delete(before, o.Operator)
		switch {
		case !ok:
			d.Operators = append(d.Operators, OperatorDiff{Operator: o.Operator, B: &o})
		case !reflect.DeepEqual(old, o):
			d.Operators = append(d.Operators, compareOperators(&old, &o, inA, inB))
		}
	}
	for _, o := range Describe(a) {
		if _, left := before[o.Operator]; left {
			d.Operators = append(d.Operators, OperatorDiff{Operator: o.Operator, A: &o})
		}
	}
	return d
}

func objectSizes(m *Manifest) map[string]int64 {
	sizes := map[string]int64{}
	for ref := range m.Objects() {
		sizes[ref.Digest] = ref.Size
	}
	return sizes
}

// missing lists what is in a and not in b.
func missing(a, b map[string]int64) (list []ObjectSize, bytes int64) {
	list = []ObjectSize{}
	for digest, size := range a {
		if _, ok := b[digest]; !ok {
			list = append(list, ObjectSize{digest, size})
			bytes += max(size, 0)
		}
	}
	slices.SortFunc(list, func(x, y ObjectSize) int {
		if x.Digest < y.Digest {
			return -1
		}
		return 1
	})
	return list, bytes
}

func compareOperators(a, b *OperatorInfo, inA, inB map[string]int64) OperatorDiff {
	d := OperatorDiff{Operator: b.Operator, A: a, B: b, ModuleChanged: a.Module != b.Module}
	if a.Watermark != nil && b.Watermark != nil {
		d.WatermarkMS = *b.Watermark - *a.Watermark
	}
	names := map[string]bool{}
	var order []string
	for _, s := range append(slices.Clone(a.States), b.States...) {
		if !names[s.Name] {
			names[s.Name] = true
			order = append(order, s.Name)
		}
	}
	slices.Sort(order)
	for _, name := range order {
		x, y := stateOf(a, name), stateOf(b, name)
		if reflect.DeepEqual(x, y) {
			continue
		}
		s := StateDiff{Name: name, Entries: int64(y.Entries) - int64(x.Entries), Bytes: y.Bytes - x.Bytes}
		s.Added, _ = missing(pick(y.Objects, inB), pick(x.Objects, inA))
		s.Removed, _ = missing(pick(x.Objects, inA), pick(y.Objects, inB))
		d.States = append(d.States, s)
	}
	d.Splits = compareSplits(a.Splits, b.Splits)
	return d
}

func stateOf(o *OperatorInfo, name string) StateInfo {
	for _, s := range o.States {
		if s.Name == name {
			return s
		}
	}
	return StateInfo{}
}

func pick(digests []string, sizes map[string]int64) map[string]int64 {
	out := map[string]int64{}
	for _, d := range digests {
		out[d] = sizes[d]
	}
	return out
}

func compareSplits(a, b []SplitPosition) []SplitDiff {
	before := map[string]SplitPosition{}
	for _, s := range a {
		before[s.Split] = s
	}
	var out []SplitDiff
	for _, s := range b {
		old, ok := before[s.Split]
		delete(before, s.Split)
		if ok && old.Offset == s.Offset && old.Ordinal == s.Ordinal {
			continue
		}
		out = append(out, SplitDiff{Split: s.Split, Offset: s.Offset - old.Offset, Records: s.Ordinal - old.Ordinal, New: !ok})
	}
	for _, s := range a {
		if _, left := before[s.Split]; left {
			out = append(out, SplitDiff{Split: s.Split, Offset: -s.Offset, Records: -s.Ordinal, Gone: true})
		}
	}
	return out
}
