package drive

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// Survey runs the pipeline once without a kill and says how often each crash point was hit, rounded
// down to a power of two. It is also the control: its output must be right.
func (c *Config) Survey() (map[string]int, *Outcome, error) {
	t, err := c.newTrial("survey", c.Seed)
	if err != nil {
		return nil, nil, err
	}
	began := time.Now()
	done := t.start("", 0) == finished
	c.whole = time.Since(began)
	hits, err := readTrace(filepath.Join(t.dir, "trace"))
	if err != nil && done {
		return nil, nil, fmt.Errorf("no trace of crash points, was %s built with the tag crash? %w", c.Binary, err)
	}
	return hits, t.end(done), nil
}

func readTrace(path string) (map[string]int, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	hits := map[string]int{}
	for s := bufio.NewScanner(f); s.Scan(); {
		var point string
		var n int
		if _, err := fmt.Sscan(s.Text(), &point, &n); err != nil {
			return nil, fmt.Errorf("%s: line %q: %w", path, s.Text(), err)
		}
		hits[point] = max(hits[point], n)
	}
	return hits, nil
}

// Restoring are the points met only by a process that starts from a checkpoint.
var restoring = map[string]bool{"K19": true, "K20": true}

// Point kills at one crash point until there were kills of them. hits is how often a whole run meets the
// point; one that it does not meet is not tried, unless only a restore can meet it. A trial starts again
// with a new input when the pipeline finished before its share.
func (c *Config) Point(point string, hits, kills int) (*Outcome, error) {
	rng := c.rng(point + c.Variant.Name)
	total := &Outcome{}
	if hits == 0 && !restoring[point] {
		return total, nil
	}
	for round := 0; total.Kills < kills && round < kills+3; round++ {
		t, err := c.newTrial(point, rng.Uint64())
		if err != nil {
			return nil, err
		}
		done, failure := false, false
		if restoring[point] {
			end := t.start(fmt.Sprintf("K12:%d:kill", 1+rng.IntN(4)), 0)
			done, failure = end == finished, end == failed
			t.out.Kills = 0 // that kill only makes something to restore
		}
		for misses := 0; !done && !failure && total.Kills+t.out.Kills < kills && misses < 3; {
			switch t.start(fmt.Sprintf("%s:%d:kill", point, nth(rng, hits)), 0) {
			case finished:
				done = true
				misses++
			case failed:
				failure = true
			}
		}
		total.Add(t.end(done))
		if failure {
			break
		}
	}
	return total, nil
}

// nth picks a hit number: half the time small, since the first hits are where a run begins, else up to
// half of what a whole run meets.
func nth(rng *rand.Rand, hits int) int {
	if hits < 4 || rng.IntN(2) == 0 {
		return 1 + rng.IntN(min(3, max(1, hits)))
	}
	return 1 + rng.IntN(max(1, hits/2))
}

// Random kills from outside at random times until there were kills of them. Each start lives a time from
// a fiftieth of a whole run to all of it; perTrial bounds the kills of one input so that it also gets to
// its end. Survey comes first.
func (c *Config) Random(name string, kills, perTrial int) (*Outcome, error) {
	rng := c.rng(name + c.Variant.Name)
	total := &Outcome{}
	for round := 0; total.Kills < kills && round < 4*kills; round++ {
		t, err := c.newTrial(name, rng.Uint64())
		if err != nil {
			return nil, err
		}
		end := killed
		for end == killed && total.Kills+t.out.Kills < kills && t.out.Kills < perTrial {
			began := time.Now()
			end = t.start("", c.life(rng))
			if end == finished && t.out.Kills == 0 { // faster than the survey's: that ran on a busier machine
				c.whole = time.Since(began)
			}
		}
		total.Add(t.end(end == finished))
		if end == failed {
			break
		}
	}
	return total, nil
}
