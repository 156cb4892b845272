package drive

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// Memory is what trials of guests came to that keep everything in their own variables.
type Memory struct {
	Results   uint64 // right ones
	Missing   uint64
	Repeated  uint64
	Different uint64 // lines that no record should have made: another total, or one of no record
	Reordered uint64 // results of a key behind one of a later record
	Letters   uint64 // records without a number, given out once each
	LettersNo uint64 // of those, too many or too few
}

// Anomalies is the number of all that is not right.
func (m *Memory) Anomalies() uint64 {
	return m.Missing + m.Repeated + m.Different + m.Reordered + m.LettersNo
}

// Add sums counts.
func (m *Memory) Add(o *Memory) {
	m.Results += o.Results
	m.Missing += o.Missing
	m.Repeated += o.Repeated
	m.Different += o.Different
	m.Reordered += o.Reordered
	m.Letters += o.Letters
	m.LettersNo += o.LettersNo
}

// ledgerWants is what the input of a trial has to come to, counted while it is written.
type ledgerWants struct {
	lines map[string]int // of each line that has to be committed, its number among those of its key
	keyOf map[string]string
	bad   uint64
}

// RandomMemory runs a pipeline of a ledger (guests/cases/ledger), first without a kill and then with as many as
// `kills` at random times. What is committed must be one line for each record, with the totals of its key so far; a
// record without a number must be a dead letter, and leave nothing in the guest.
func (c *Config) RandomMemory(kills, perTrial int) (*Outcome, *Memory, error) {
	sum := &Memory{}
	seeds := c.rng("memory input" + c.Variant.Name)
	var wants *ledgerWants
	total, err := c.rounds("memory", kills, perTrial, func(t *trial) (err error) {
		wants, err = t.ledgerInput(seeds)
		return err
	}, func(t *trial, done bool) (wrong bool) {
		t.endMemory(done, wants, sum)
		return sum.Anomalies() > 0
	})
	return total, sum, err
}

// ledgerInput writes the files of a trial, each with keys of its own.
func (t *trial) ledgerInput(rng *rand.Rand) (*ledgerWants, error) {
	v := &t.cfg.Variant
	w := &ledgerWants{map[string]int{}, map[string]string{}, 0}
	for s := range v.Splits {
		f, err := os.Create(filepath.Join(t.dir, fmt.Sprintf("in-%d.ndjson", s)))
		if err != nil {
			return nil, err
		}
		buf := bufio.NewWriter(f)
		type total struct{ count, xor, was int }
		totals := map[string]*total{}
		for i := 1; i <= t.cfg.Records/v.Splits; i++ {
			key := windowKey(s, rng.IntN(v.Keys))
			if v.BadEvery > 0 && i%v.BadEvery == 0 {
				fmt.Fprintf(buf, `{"key":"%s","text":"none %d?"}`+"\n", key, i) // Flush tells errors
				w.bad++
				continue
			}
			fmt.Fprintf(buf, `{"key":"%[1]s","text":"%[1]s %[2]d"}`+"\n", key, i)
			k := totals[key]
			if k == nil {
				k = &total{}
				totals[key] = k
			}
			k.count, k.xor = k.count+1, k.xor^i
			line := fmt.Sprintf(`{"key":"%s","count":%d,"n":%d,"xor":%d,"was":%d}`, key, k.count, i, k.xor, k.was)
			w.lines[line], w.keyOf[line] = k.count, key
			k.was = i
		}
		if err := buf.Flush(); err != nil {
			return nil, err
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// endMemory runs a finished job once more and counts what was committed.
func (t *trial) endMemory(done bool, w *ledgerWants, sum *Memory) {
	if done && t.start("", 0) != finished {
		t.fail("a finished job did not end well when run again")
	}
	got := &Memory{}
	if err := t.countMemory(w, got); err != nil {
		t.fail("check: %v", err)
	}
	sum.Add(got)
	if t.cfg.Log != nil {
		fmt.Fprintf(t.cfg.Log, "%s: %d kills, %d runs, %d records, %d letters, %d anomalies, %d failures\n", filepath.Base(t.dir),
			t.out.Kills, t.out.Runs, got.Results, got.Letters, got.Anomalies(), len(t.out.Failures))
	}
	if len(t.out.Failures) == 0 && got.Anomalies() == 0 && !t.cfg.Keep {
		_ = os.RemoveAll(t.dir)
	}
}

func (t *trial) countMemory(w *ledgerWants, got *Memory) error {
	seen, last := map[string]bool{}, map[string]int{}
	err := eachLine(filepath.Join(t.dir, outFolder), func(line []byte) error {
		text := string(line[:len(line)-1])
		n, wanted := w.lines[text]
		key := w.keyOf[text]
		switch {
		case !wanted:
			got.Different++
			return nil
		case seen[text]:
			got.Repeated++
		case n < last[key]:
			got.Reordered++
		default:
			got.Results++
		}
		last[key] = n
		seen[text] = true
		return nil
	})
	if err != nil {
		return err
	}
	got.Missing = uint64(len(w.lines) - len(seen))
	err = eachLine(filepath.Join(t.dir, lettersFolder, "dead"), func(line []byte) error {
		if !json.Valid(line) {
			return fmt.Errorf("letter %q is no JSON", line)
		}
		got.Letters++
		return nil
	})
	got.LettersNo = max(got.Letters, w.bad) - min(got.Letters, w.bad)
	return err
}
