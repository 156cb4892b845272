package oracle

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
)

// Window is the distance between timers of a key, ms of event time.
const Window = 1000

// Generator makes input lines {"key":"k0001","n":3,"ts":12345} from a seed.
type Generator struct {
	Seed    uint64
	Keys    int
	Records int
	Prefix  string // of the keys, so that several files have keys of their own
	StepMS  int64  // event time between records
}

// Write writes the lines and returns what they are, for a checker.
func (g Generator) Write(w io.Writer) (*Input, error) {
	rng := rand.New(rand.NewPCG(g.Seed, uint64(g.Keys)))
	in := &Input{Totals: map[string]uint64{}, Timers: map[string][]Timer{}}
	buf := bufio.NewWriterSize(w, 1<<16)
	for i := 0; i < g.Records; i++ {
		key := fmt.Sprintf("%s%04d", g.Prefix, rng.IntN(g.Keys))
		in.Totals[key]++
		ts := int64(i) * g.StepMS
		in.addTimer(key, (ts/Window+1)*Window)
		if _, err := fmt.Fprintf(buf, `{"key":"%s","n":%d,"ts":%d}`+"\n", key, in.Totals[key], ts); err != nil {
			return nil, err
		}
	}
	return in, buf.Flush()
}

func (in *Input) addTimer(key string, at int64) {
	set := in.Timers[key]
	if len(set) == 0 || set[len(set)-1].At < at {
		set = append(set, Timer{At: at})
	}
	set[len(set)-1].Records++
	in.Timers[key] = set
}

// Merge adds another input with keys of its own.
func (in *Input) Merge(o *Input) {
	for k, n := range o.Totals {
		in.Totals[k] = n
	}
	for k, t := range o.Timers {
		in.Timers[k] = t
	}
}
