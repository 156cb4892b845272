package clocklog

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
)

// store is snapshots in memory.
type store struct {
	manifests map[checkpoint.ID]*checkpoint.Manifest
	objects   map[string][]byte
}

func newStore() *store {
	return &store{map[checkpoint.ID]*checkpoint.Manifest{}, map[string][]byte{}}
}

func (s *store) Load(id checkpoint.ID) (*checkpoint.Manifest, error) {
	if m := s.manifests[id]; m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("checkpoint %d is not there", id)
}

func (s *store) Read(_ context.Context, digest string) ([]byte, error) {
	if b, ok := s.objects[digest]; ok {
		return b, nil
	}
	return nil, fmt.Errorf("object %s is not there", digest)
}

// add makes a snapshot with the log of a task that has so many channels.
func (s *store) add(id, parent checkpoint.ID, p *Parts, channels int) {
	t := checkpoint.TaskSnapshot{Vertex: "v", Parallelism: 1, Watermarks: make([]int64, channels)}
	if p != nil {
		b := p.Encode()
		t.Clock = &checkpoint.ClockLog{Data: b, Size: int64(len(b))}
		if len(b) > 40 {
			digest := fmt.Sprint("object ", id)
			s.objects[digest] = b
			t.Clock = &checkpoint.ClockLog{Object: digest, Size: int64(len(b))}
		}
	}
	s.manifests[id] = &checkpoint.Manifest{ID: id, Parent: parent, Tasks: []checkpoint.TaskSnapshot{t}}
}

func randomEvent(rng *rand.Rand, at Place) operators.ClockEvent {
	e := operators.ClockEvent{Kind: operators.ClockKind(1 + rng.Intn(int(operators.ClockKinds)-1)), N: at.N, Watermark: at.Watermark}
	switch e.Kind {
	case operators.ClockIdle:
		e.Split = rng.Uint32()
	case operators.ClockBeyond:
	default:
		e.MS = rng.Int63n(1<<42) - 1<<41
		if rng.Intn(10) == 0 {
			e.MS = abi.MaxWatermark
		}
	}
	return e
}

// TestStretch: whatever checkpoints fail, are told late, are copied or followed by a restart, the script of a stretch is
// what was noted in it, once and in order.
func TestStretch(t *testing.T) {
	for seed := range int64(300) {
		rng := rand.New(rand.NewSource(seed))
		s := newStore()
		at := Place{Watermark: abi.MinWatermark}
		l := New(0)
		x := l.Section("op", func() Place { return at })
		type noted struct {
			total int64 // records since the job began
			e     operators.ClockEvent
		}
		var all []noted
		ends := map[checkpoint.ID][2]int64{0: {0, 0}} // events and records before each snapshot
		var total int64
		last, complete := checkpoint.ID(0), []checkpoint.ID{0}
		starts := map[checkpoint.ID]Place{0: at}
		for id := checkpoint.ID(1); id < 14; id++ {
			for range rng.Intn(40) {
				switch rng.Intn(3) {
				case 0:
					n := rng.Int63n(300)
					at.N, total = at.N+n, total+n
				case 1:
					at.Watermark = max(at.Watermark, rng.Int63n(1<<40))
				default:
					e := randomEvent(rng, at)
					x.Add(e)
					e.N = total
					all = append(all, noted{total, e})
				}
			}
			p := l.Cut(id)
			switch rng.Intn(8) {
			case 0, 1: // the checkpoint fails
				continue
			case 2: // a copy, as promotion makes it
				s.add(id, last, p, 1)
				ends[id], starts[id] = [2]int64{int64(len(all)), total}, at
				last, complete = id, append(complete, id)
				id++
				s.add(id, last, p, 1)
				ends[id], starts[id] = ends[last], at
				last, complete = id, append(complete, id)
				// such a copy is made of a job that does not run
				l, at.N = New(id), 0
				x = l.Section("op", func() Place { return at })
				continue
			}
			s.add(id, last, p, 1)
			ends[id], starts[id] = [2]int64{int64(len(all)), total}, at
			last, complete = id, append(complete, id)
			if rng.Intn(3) > 0 { // else the word comes late
				l.Complete(id)
			}
			if rng.Intn(5) == 0 { // a crash, which loses what came since
				at.N += 10
				x.Add(randomEvent(rng, at))
				l, at.N = New(id), 0
				x = l.Section("op", func() Place { return at })
			}
		}
		i := rng.Intn(len(complete))
		from, to := complete[i], complete[i+rng.Intn(len(complete)-i)]
		if from == to {
			continue
		}
		st, err := Between(context.Background(), s, from, to)
		if err != nil {
			t.Fatalf("seed %d: %d to %d: %v", seed, from, to, err)
		}
		script, err := st.Reader("v", 0).Script("op")
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		base, records := ends[from], ends[to][1]-ends[from][1]
		for k, want := range all[base[0]:ends[to][0]] {
			want.e.N -= base[1]
			got, ok := script.Next()
			if !ok || got != want.e {
				t.Fatalf("seed %d: %d to %d: event %d is %+v (%t), expected %+v", seed, from, to, k, got, ok, want.e)
			}
			if script.Over(records) {
				t.Fatalf("seed %d: it is over before its events", seed)
			}
			script.Pop()
		}
		if e, ok := script.Next(); ok {
			t.Fatalf("seed %d: %d to %d: one event too many: %+v", seed, from, to, e)
		}
		if records > 0 && script.Over(records-1) || !script.Over(records) {
			t.Fatalf("seed %d: over after %d records: %t, after one less: %t", seed, records, script.Over(records), script.Over(records-1))
		}
		if l := st.Limits(); len(l) != 0 {
			t.Fatalf("seed %d: limits %q", seed, l)
		}
	}
}

// TestDamaged: no changed, missing or added byte of a log goes unseen.
func TestDamaged(t *testing.T) {
	l := New(3)
	at := Place{Watermark: 7, MS: 1_700_000_000_000}
	x := l.Section("op", func() Place { return at })
	for range 20 {
		at.N++
		x.Time(at.N, at.Watermark, at.MS+at.N)
	}
	p := l.Cut(4)
	good := p.Encode()
	if _, err := decode(good); err != nil {
		t.Fatal(err)
	}
	refused := func(what string, b []byte) {
		t.Helper()
		s := newStore()
		s.add(3, 0, nil, 1)
		s.add(4, 3, p, 1)
		s.objects["object 4"] = b
		_, err := Between(context.Background(), s, 3, 4)
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "snapshot 4, task v/0") {
			t.Fatalf("%s: %v", what, err)
		}
	}
	for i := range good {
		b := append([]byte(nil), good...)
		b[i] ^= 1 << (i % 8)
		refused(fmt.Sprint("byte ", i), b)
		refused(fmt.Sprint("cut at ", i), good[:i])
	}
	refused("one byte more", append(append([]byte(nil), good...), 0))
}

// TestMissing: what is not there is named, and how to do without it where there is a way.
func TestMissing(t *testing.T) {
	cut := func(l *Log, at *Place, id checkpoint.ID) *Parts {
		at.N += 5
		return l.Cut(id)
	}
	fill := func() *store {
		s := newStore()
		l, at := New(0), Place{Watermark: 1}
		l.Section("op", func() Place { return at })
		for id := checkpoint.ID(1); id <= 4; id++ {
			s.add(id, id-1, cut(l, &at, id), 1)
			l.Complete(id)
		}
		return s
	}
	fails := func(s *store, from, to checkpoint.ID, words ...string) {
		t.Helper()
		_, err := Between(context.Background(), s, from, to)
		if !errors.Is(err, ErrMissing) {
			t.Fatalf("%d to %d: %v", from, to, err)
		}
		for _, w := range words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q does not say %q", err, w)
			}
		}
	}
	s := fill()
	delete(s.manifests, 3)
	fails(s, 1, 4, "snapshot 1 to 4", "snapshot 3 lies between")
	s = fill()
	s.manifests[3].Tasks[0].Clock = nil
	fails(s, 1, 4, "task v/0 behind snapshot 2")
	s = fill()
	s.manifests[2].Tasks[0].Parallelism = 2
	fails(s, 1, 4, "has 2 tasks in the one and 1 in the other")
	fails(fill(), 4, 2, "does not go on from the former")
	s = fill()
	for _, m := range s.manifests {
		m.Tasks[0].Clock = nil
	}
	st, err := Between(context.Background(), s, 1, 4)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Reader("v", 0).Script("op"); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "operator op, task 0, from snapshot 1 to 4") {
		t.Errorf("without logs: %v", err)
	}
	if _, err := st.Reader("other", 2).Script("op"); !errors.Is(err, ErrMissing) {
		t.Errorf("a task that is not there: %v", err)
	}
}

// TestFull: the log is bounded over failed checkpoints too, has room again behind a complete one, and says where
// it ends.
func TestFull(t *testing.T) {
	l, at := New(0), Place{Watermark: abi.MinWatermark}
	x := l.Section("op", func() Place { return at })
	fill := func(n int) {
		for range n {
			at.N++
			x.Time(at.N, at.Watermark, at.N*1000)
		}
	}
	fill(MaxBytes / 4)
	l.Cut(1) // fails
	fill(MaxBytes)
	p := l.Cut(2)
	size := len(p.Encode())
	if size > MaxBytes+1000 || size < MaxBytes-1000 {
		t.Fatalf("the log has %d bytes, expected about %d", size, MaxBytes)
	}
	s := newStore()
	s.add(2, 0, p, 2)
	l.Complete(2)
	fill(100)
	s.add(3, 2, l.Cut(3), 2)
	st, err := Between(context.Background(), s, 0, 3)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(st.Limits(), "\n")
	for _, want := range []string{"the log of operator op was full between snapshots 1 and 2", "2 input channels"} {
		if !strings.Contains(text, want) {
			t.Errorf("limits %q do not say %q", text, want)
		}
	}
	script, err := st.Reader("v", 0).Script("op")
	if err != nil {
		t.Fatal(err)
	}
	n := int64(0)
	for e, ok := script.Next(); ok; e, ok = script.Next() {
		if n++; e.N != n || e.MS != n*1000 {
			t.Fatalf("event %d: %+v", n, e)
		}
		script.Pop()
	}
	if !script.Over(n) || script.Over(n-1) {
		t.Errorf("the script ends elsewhere than with its last event, at record %d", n)
	}
	if st, err = Between(context.Background(), s, 2, 3); err != nil || len(st.Limits()) != 1 {
		t.Errorf("behind it: %q %v", st.Limits(), err)
	}
	if script, err = st.Reader("v", 0).Script("op"); err != nil {
		t.Fatal(err)
	}
	for n = 0; ; n++ {
		if _, ok := script.Next(); !ok {
			break
		}
		script.Pop()
	}
	if n != 100 {
		t.Errorf("%d events behind the full log, expected 100", n)
	}
}

// TestSmall: an event of usual distances takes a few bytes, one that says nothing new none.
func TestSmall(t *testing.T) {
	l, at := New(0), Place{Watermark: 1_700_000_000_000, MS: 1_700_000_000_000}
	x := l.Section("op", func() Place { return at })
	for i := range int64(1000) {
		at.N += 200
		x.Time(at.N, at.Watermark, at.MS+i/10*7)
	}
	if n := len(x.data); n > 5*100 {
		t.Errorf("1000 batches in 100 different ms take %d bytes", n)
	}
	if New(7).Cut(8) != nil {
		t.Error("a task without sections has a log")
	}
}

func FuzzDecode(f *testing.F) {
	l, at := New(3), Place{Watermark: 7}
	x := l.Section("op", func() Place { return at })
	x.Fire(0, 7, 12)
	f.Add(l.Cut(4).Encode())
	f.Fuzz(func(_ *testing.T, b []byte) {
		_, _ = decode(b) // must not panic nor hang
	})
}
