package jobtest

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/abi"
)

// ttlState is one state of one key in the model.
type ttlState struct {
	ms      int64
	reads   bool
	entries map[string]ttlEntry
}

type ttlEntry struct {
	v     string
	stamp int64
}

// ttlRun interprets the effects guest's commands for one record.
type ttlRun struct {
	wm, stamp int64
	key       map[string]*ttlState
	out       []string
}

func (r *ttlRun) get(st, u string, renew bool) (string, bool) {
	s := r.key[st]
	e, ok := s.entries[u]
	if !ok || r.wm != abi.MinWatermark && e.stamp != abi.MinWatermark && r.wm >= e.stamp+s.ms {
		return "", false
	}
	if renew && s.reads {
		s.entries[u] = ttlEntry{e.v, r.stamp}
	}
	return e.v, true
}

func (r *ttlRun) put(st, u, v string) {
	r.key[st].entries[u] = ttlEntry{v, r.stamp}
}

func (r *ttlRun) all(st string) (out []string) {
	for _, u := range slices.Sorted(maps.Keys(r.key[st].entries)) {
		if v, ok := r.get(st, u, true); ok {
			if st == "map" {
				v = u + "=" + v
			}
			out = append(out, v)
		}
	}
	return out
}

// one runs a command; false: the record fails.
func (r *ttlRun) one(command string) bool {
	name, arg, _ := strings.Cut(command, " ")
	answer := func(st, u, yes, no string) {
		if v, ok := r.get(st, u, true); ok {
			r.out = append(r.out, strings.ReplaceAll(yes, "$", v))
		} else {
			r.out = append(r.out, no)
		}
	}
	switch name {
	case "set":
		r.put("small", "", arg)
	case "unset":
		delete(r.key["small"].entries, "")
	case "value":
		answer("small", "", "value $", "no value")
	case "big":
		r.put("big", "", arg)
	case "biglen":
		answer("big", "", "big $", "no big")
	case "put":
		u, v, _ := strings.Cut(arg, " ")
		r.put("map", u, v)
	case "get":
		answer("map", arg, arg+" = $", "no "+arg)
	case "del":
		delete(r.key["map"].entries, arg)
	case "scan":
		r.out = append(r.out, "map "+strings.Join(r.all("map"), " "))
	case "append":
		r.put("list", fmt.Sprintf("%08d", len(r.key["list"].entries)), arg)
	case "list":
		r.out = append(r.out, "list "+strings.Join(r.all("list"), " "))
	default:
		return false
	}
	return true
}

// ttlModel is what the guest must answer, by key. There is one split; delay and quantum are the watermark's.
func ttlModel(records []abi.Record, delay, quantum int64, reads bool) map[string][]string {
	out := map[string][]string{}
	keys := map[string]map[string]*ttlState{}
	wm, greatest, first, edge := abi.MinWatermark, int64(math.MinInt64), abi.MinWatermark, int64(math.MinInt64)
	for n, rec := range records {
		k := string(rec.Key)
		if keys[k] == nil {
			keys[k] = map[string]*ttlState{}
			for name, ms := range map[string]int64{"small": 70, "map": 100, "list": 150, "big": 40} {
				keys[k][name] = &ttlState{ms: ms, reads: reads, entries: map[string]ttlEntry{}}
			}
		}
		r := ttlRun{wm: wm, stamp: max(rec.Time, wm), key: cloneStates(keys[k])}
		// A value that comes with the batch is read by every record of its key.
		if _, there := r.get("small", "", false); there {
			r.get("small", "", true)
		}
		good := true
		for _, c := range strings.Split(string(rec.Value), ";") {
			good = good && r.one(c)
		}
		if good {
			keys[k] = r.key
			out[k] = append(out[k], r.out...)
		}
		greatest = max(greatest, rec.Time)
		if greatest != abi.NoTime && (greatest >= edge || (n+1)%1024 == 0) {
			edge = (greatest/quantum + 1) * quantum
			wm = max(wm, greatest-delay-1)
			if first == abi.MinWatermark {
				first = wm
				for _, states := range keys { // what had no stamp ages from here on
					for _, s := range states {
						for u, e := range s.entries {
							if e.stamp == abi.MinWatermark {
								s.entries[u] = ttlEntry{e.v, first}
							}
						}
					}
				}
			}
		}
	}
	return out
}

func cloneStates(states map[string]*ttlState) map[string]*ttlState {
	out := map[string]*ttlState{}
	for n, s := range states {
		out[n] = &ttlState{s.ms, s.reads, maps.Clone(s.entries)}
	}
	return out
}
