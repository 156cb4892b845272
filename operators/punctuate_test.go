package operators

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand"
	"slices"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
)

// saying is a watermark function: the record's offset says what it does.
type saying map[uint64]Punctuation

func (s saying) Punctuate(b *abi.Batch, _ int64, into []Punctuation) ([]Punctuation, error) {
	for i := range b.Off {
		p, ok := s[b.Frame(i).Pos().Offset]
		if !ok {
			p.Watermark = abi.NoTime
		}
		into = append(into, p)
	}
	return into, nil
}

func (saying) Close() error { return nil }

type stillClock struct{}

func (stillClock) NowMS() int64 { return 1 << 41 }

// step is what happens at a source: a record of a split, or its end.
type sourceStep struct {
	split  int
	offset uint64
	ms     int64
	end    bool
}

// intakeOf runs steps through an intake, cut into polls, and returns records and marks in their order.
func intakeOf(t *testing.T, says saying, policy string, splits int, steps []sourceStep, poll func() int) (out []string, counters map[string]int64) {
	t.Helper()
	n := &Node{ID: "in", Source: &SourceNode{Format: "binary", OnError: &ErrorPolicy{Policy: policy},
		Time: &TimeSettings{Watermarks: WatermarksPunctuated}}}
	in := NewIntake(n, &Context{Clock: stillClock{}, Log: slog.New(slog.DiscardHandler), Operator: "in",
		Punctuator: func(*Context) (Punctuator, error) { return says, nil }}, func(p abi.Position) string { return fmt.Sprint(p) })
	for range splits {
		in.AddSplit(checkpoint.SplitPosition{MaxTime: abi.NoTime, Mark: abi.MinWatermark})
	}
	for len(steps) > 0 {
		var b abi.Batch
		in.Begin()
		k := min(poll(), len(steps))
		for _, s := range steps[:k] {
			if s.end {
				in.Finish(&b, s.split)
				continue
			}
			r := abi.Record{Time: s.ms, Key: []byte("k"), Value: []byte("v"), Pos: abi.Position{Split: uint32(s.split), Offset: s.offset}}
			if err := in.Decoded(&b, s.split, &r, nil, nil); err != nil {
				t.Fatal(err)
			}
		}
		steps = steps[k:]
		if err := in.End(&b); err != nil {
			t.Fatal(err)
		}
		if err := b.Check(); err != nil {
			t.Fatal(err)
		}
		marks := b.Marks
		for i := 0; i <= b.Len(); i++ {
			for len(marks) > 0 && int(marks[0].Index) == i {
				out = append(out, fmt.Sprint("mark ", marks[0].Watermark))
				marks = marks[1:]
			}
			if i < b.Len() {
				out = append(out, fmt.Sprint("record ", b.Frame(i).Pos().Offset))
			}
		}
	}
	return out, in.Counters()
}

// TestPunctuationsDoNotDependOnPolls: the same records and marks in the same order, several splits, ends and
// failures among them; and they are those of a plain model.
func TestPunctuationsDoNotDependOnPolls(t *testing.T) {
	for range 30 {
		seed := rand.Int63()
		r := rand.New(rand.NewSource(seed))
		splits := 1 + r.Intn(4)
		says, ended := saying{}, make([]bool, splits)
		var steps []sourceStep
		for i := range uint64(600) {
			s := sourceStep{split: r.Intn(splits), offset: i, ms: int64(i)}
			if ended[s.split] {
				continue
			}
			switch r.Intn(10) {
			case 0, 1, 2:
				says[i] = Punctuation{Watermark: int64(i) - int64(r.Intn(50))}
			case 3:
				says[i] = Punctuation{Watermark: abi.NoTime, Fault: errors.New("failed")}
			case 4:
				says[i] = Punctuation{Watermark: math.MaxInt64}
			}
			if s.end = r.Intn(150) == 0; s.end {
				ended[s.split] = true
				delete(says, i)
			}
			steps = append(steps, s)
		}
		want, wantIgnored, wantSkipped := punctuationModel(says, splits, steps)
		for _, poll := range []func() int{func() int { return 1 }, func() int { return 7 }, func() int { return len(steps) }, func() int { return 1 + r.Intn(40) }} {
			got, counters := intakeOf(t, says, PolicySkip, splits, steps, poll)
			if !slices.Equal(got, want) {
				for i := range want {
					if i >= len(got) || got[i] != want[i] {
						t.Fatalf("seed %d: at %d: %q, want %q", seed, i, got[min(i, len(got)):min(i+3, len(got))], want[i])
					}
				}
				t.Fatalf("seed %d: %d events, want %d", seed, len(got), len(want))
			}
			if counters[CounterIgnored] != wantIgnored || counters["skipped"] != wantSkipped {
				t.Fatalf("seed %d: counters %v, want %d ignored, %d skipped", seed, counters, wantIgnored, wantSkipped)
			}
		}
	}
}

func punctuationModel(says saying, splits int, steps []sourceStep) (out []string, ignored, skipped int64) {
	marks, wm := make([]int64, splits), abi.MinWatermark
	for i := range marks {
		marks[i] = abi.MinWatermark
	}
	for _, s := range steps {
		p, ok := says[s.offset]
		switch {
		case s.end:
			marks[s.split] = math.MaxInt64
		case p.Fault != nil:
			skipped++
			continue
		default:
			out = append(out, fmt.Sprint("record ", s.offset))
			switch {
			case !ok:
			case p.Watermark < marks[s.split] || p.Watermark == math.MaxInt64:
				ignored++
			default:
				marks[s.split] = p.Watermark
			}
		}
		if least := slices.Min(marks); least > wm && least < math.MaxInt64 {
			wm = least
			out = append(out, fmt.Sprint("mark ", wm))
		}
	}
	return out, ignored, skipped
}
