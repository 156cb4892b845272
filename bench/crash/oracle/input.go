package oracle

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
)

// Window is the distance between timers of a key, ms of event time.
const Window = 1000

// Generator makes input lines {"key":"k0001","n":3,"ts":12345} from a seed.
type Generator struct {
	Seed     uint64
	Keys     int
	Records  int
	Prefix   string // of the keys, so that several files have keys of their own
	StepMS   int64  // event time between records
	BadEvery int    // one line more, which fails, before every such record; 0: none
	File     string // base name of the file, for the places of bad lines
}

// Write writes the lines and returns what they are, for a checker.
func (g Generator) Write(w io.Writer) (*Input, error) {
	rng := rand.New(rand.NewPCG(g.Seed, uint64(g.Keys)))
	in := NewInput()
	buf := bufio.NewWriterSize(w, 1<<16)
	line, at := 1, 0
	put := func(format string, args ...any) error {
		n, err := fmt.Fprintf(buf, format, args...)
		line, at = line+1, at+n
		return err
	}
	for i := 0; i < g.Records; i++ {
		key := fmt.Sprintf("%s%04d", g.Prefix, rng.IntN(g.Keys))
		ts := int64(i) * g.StepMS
		if g.BadEvery > 0 && i%g.BadEvery == g.BadEvery-1 {
			kind := badLines[i/g.BadEvery%len(badLines)]
			in.Bad[fmt.Sprintf("%s:%d (byte %d)", filepath.Base(g.File), line, at)] = kind.operator
			if err := put(kind.format, key, ts); err != nil {
				return nil, err
			}
		}
		in.Totals[key]++
		in.addTimer(key, (ts/Window+1)*Window)
		if err := put(`{"key":"%s","n":%d,"ts":%d}`+"\n", key, in.Totals[key], ts); err != nil {
			return nil, err
		}
	}
	return in, buf.Flush()
}

// badLines are lines that fail, with the operator that says so: the source can't read it, the guest
// returns an error, the guest traps after it changed state.
var badLines = []struct{ operator, format string }{
	{"input", `{"key":"%s","n":1,"ts":%d` + "\n"},
	{"count", `{"key":"%s","n":null,"ts":%d}` + "\n"},
	{"count", `{"key":"%s","n":0,"ts":%d}` + "\n"},
}

// NewInput is an input without records.
func NewInput() *Input {
	return &Input{Totals: map[string]uint64{}, Timers: map[string][]Timer{}, Bad: map[string]string{}}
}

func (in *Input) addTimer(key string, at int64) {
	set := in.Timers[key]
	if len(set) == 0 || set[len(set)-1].At < at {
		set = append(set, Timer{At: at})
	}
	set[len(set)-1].Records++
	in.Timers[key] = set
}

// Merge adds another input with keys and a file of its own.
func (in *Input) Merge(o *Input) {
	for k, n := range o.Totals {
		in.Totals[k] = n
	}
	for k, t := range o.Timers {
		in.Timers[k] = t
	}
	for place, operator := range o.Bad {
		in.Bad[place] = operator
	}
}
