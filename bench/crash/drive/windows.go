package drive

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/millrace-io/millrace/bench/crash/oracle"
)

// The input of the windows' trials: records of every key each windowStep ms, in as many files as the variant
// has splits, each with keys of its own. Windows are 10 s long, one begins each 5 s.
const (
	windowStep  = 500
	windowEnd   = 50_000
	windowSize  = 10_000
	windowSlide = 5_000
)

// Windows is what trials of windows came to.
type Windows struct {
	Results   uint64 // right ones
	Missing   uint64 // windows without a result
	Repeated  uint64 // results beyond a window's first
	Different uint64 // results with another count, or of no window
	Reordered uint64 // results of a key behind one of a later window
	Late      uint64 // records given out as late
}

// Anomalies is the number of all that is not right.
func (w *Windows) Anomalies() uint64 {
	return w.Missing + w.Repeated + w.Different + w.Reordered + w.Late
}

// Add sums counts.
func (w *Windows) Add(o *Windows) {
	w.Results += o.Results
	w.Missing += o.Missing
	w.Repeated += o.Repeated
	w.Different += o.Different
	w.Reordered += o.Reordered
	w.Late += o.Late
}

// RandomWindows runs a pipeline of sliding windows, whose Template is another one than that of Random, first
// without a kill and then with as many as `kills` at random times, at most perTrial in one run of the input.
// What is committed must be one result for each key and window, with the number of its records.
func (c *Config) RandomWindows(kills, perTrial int) (*Outcome, *Windows, error) {
	sum := &Windows{}
	total, err := c.rounds("windows", kills, perTrial, (*trial).windowInput, func(t *trial, done bool) (wrong bool) {
		t.endWindows(done, sum)
		return sum.Anomalies() > 0
	})
	return total, sum, err
}

// rounds runs trials of one input each: the first without a kill, the others with at most perTrial at random times,
// until there were so many. end closes one; a first one that went wrong is the last.
func (c *Config) rounds(name string, kills, perTrial int, input func(*trial) error, end func(t *trial, done bool) (wrong bool)) (*Outcome, error) {
	rng := c.rng(name + c.Variant.Name)
	total := &Outcome{}
	for round := 0; total.Kills < kills && round < 4*kills+1; round++ {
		t, err := c.emptyTrial(name)
		if err != nil {
			return nil, err
		}
		if err := input(t); err != nil {
			return nil, err
		}
		how := killed
		for how == killed {
			left := min(kills-total.Kills, perTrial) - t.out.Kills
			began := time.Now()
			if round == 0 || left <= 0 {
				how = t.start("", 0)
			} else {
				how = t.start("", c.life(rng))
			}
			if how == finished && t.out.Kills == 0 {
				c.whole = time.Since(began)
			}
		}
		wrong := end(t, how == finished)
		total.Add(&t.out)
		if how == failed || round == 0 && wrong {
			break
		}
	}
	return total, nil
}

// life is how long a process may live: a fiftieth of a whole run to all of it.
func (c *Config) life(rng *rand.Rand) time.Duration {
	return time.Duration((0.02 + 0.98*rng.Float64()) * float64(c.whole))
}

func (t *trial) windowInput() error {
	v := &t.cfg.Variant
	for s := range v.Splits {
		f, err := os.Create(filepath.Join(t.dir, fmt.Sprintf("in-%d.ndjson", s)))
		if err != nil {
			return err
		}
		buf := bufio.NewWriter(f)
		for ts := 0; ts <= windowEnd; ts += windowStep {
			for k := range v.Keys {
				if _, err := fmt.Fprintf(buf, `{"key":"%s","ts":%d}`+"\n", windowKey(s, k), ts); err != nil {
					return err
				}
			}
		}
		if err := buf.Flush(); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

func windowKey(split, k int) string { return fmt.Sprintf("%c%04d", 'a'+split, k) }

// endWindows runs a finished job once more and counts what was committed.
func (t *trial) endWindows(done bool, sum *Windows) {
	if done && t.start("", 0) != finished {
		t.fail("a finished job did not end well when run again")
	}
	got := &Windows{}
	if err := t.countWindows(got); err != nil {
		t.fail("check: %v", err)
	}
	sum.Add(got)
	if t.cfg.Log != nil {
		fmt.Fprintf(t.cfg.Log, "%s: %d kills, %d runs, %d windows, %d anomalies, %d failures\n", filepath.Base(t.dir),
			t.out.Kills, t.out.Runs, got.Results, got.Anomalies(), len(t.out.Failures))
	}
	if len(t.out.Failures) == 0 && got.Anomalies() == 0 && !t.cfg.Keep {
		_ = os.RemoveAll(t.dir)
	}
}

// windowLine is a committed result.
type windowLine struct {
	Key   string `json:"key"`
	Start int64  `json:"window_start"`
	End   int64  `json:"window_end"`
	N     int64  `json:"n"`
}

func (t *trial) countWindows(got *Windows) error {
	seen := map[windowLine]bool{}
	last := map[string]int64{}
	wanted := uint64(t.cfg.Variant.Splits * t.cfg.Variant.Keys * windowsPerKey)
	err := eachLine(filepath.Join(t.dir, outFolder), func(line []byte) error {
		var w windowLine
		if err := json.Unmarshal(line, &w); err != nil {
			return fmt.Errorf("result %q: %w", line, err)
		}
		n := w.N
		w.N = 0
		was, before := last[w.Key]
		last[w.Key] = w.Start
		switch {
		case !t.hasWindow(w):
			got.Different++
			return nil
		case seen[w]:
			got.Repeated++
		case n != recordsIn(w.Start):
			got.Different++
		case before && w.Start < was:
			got.Reordered++
		default:
			got.Results++
		}
		seen[w] = true
		return nil
	})
	if err != nil {
		return err
	}
	got.Missing = wanted - uint64(len(seen))
	return eachLine(filepath.Join(t.dir, lettersFolder, "dead"), func([]byte) error {
		got.Late++
		return nil
	})
}

// windowsPerKey are those that hold a record: the first begins a slide before 0, the last at the end.
const windowsPerKey = windowEnd/windowSlide + 2

func (t *trial) hasWindow(w windowLine) bool {
	for s := range t.cfg.Variant.Splits {
		var k int
		if n, err := fmt.Sscanf(w.Key, string(rune('a'+s))+"%04d", &k); err == nil && n == 1 && k < t.cfg.Variant.Keys && w.Key == windowKey(s, k) {
			return w.Start%windowSlide == 0 && w.End == w.Start+windowSize && w.Start >= -windowSlide && w.Start <= windowEnd
		}
	}
	return false
}

// recordsIn counts the records of a key from start on for a window's length.
func recordsIn(start int64) (n int64) {
	for ts := int64(0); ts <= windowEnd; ts += windowStep {
		if start <= ts && ts < start+windowSize {
			n++
		}
	}
	return n
}

// eachLine calls f for the lines of the committed files of a folder, in the order in which they were written.
func eachLine(dir string, f func(line []byte) error) error {
	files, err := oracle.Committed(dir)
	if err != nil {
		return err
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for line := range bytes.Lines(text) {
			if err := f(line); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}
