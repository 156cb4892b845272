package task

import (
	"context"
	"fmt"
	"math/rand"
	"testing"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/state"
)

func testWriter(t *testing.T, mode Mode, p, max int) (*Writer, []*Inbox) {
	t.Helper()
	var chans []*Channel
	var boxes []*Inbox
	for range p {
		x := NewInbox()
		boxes = append(boxes, x)
		chans = append(chans, x.Channel(0))
	}
	w := NewWriter(mode, chans, state.Hasher{Seed: 7}, max)
	w.ctx, w.now = context.Background(), func() int64 { return 1 }
	return w, boxes
}

// timeline flattens what an inbox holds: records by key and offset, marks, barriers, in order.
func timeline(t *testing.T, x *Inbox) []string {
	t.Helper()
	var out []string
	for {
		c, it, ok := x.recv()
		if !ok {
			return out
		}
		if it.batch == nil {
			out = append(out, fmt.Sprintf("barrier %d", it.barrier.ID))
			continue
		}
		if err := it.batch.Check(); err != nil {
			t.Fatal(err)
		}
		m := it.batch.Marks
		for i := 0; i <= it.batch.Len(); i++ {
			for len(m) > 0 && int(m[0].Index) == i {
				out = append(out, fmt.Sprintf("mark %d", m[0].Watermark))
				m = m[1:]
			}
			if i < it.batch.Len() {
				f := it.batch.Frame(i)
				out = append(out, fmt.Sprintf("%s@%d", f.Key(), f.Pos().Offset))
			}
		}
		c.release(it.batch)
	}
}

// What each receiving task sees must not depend on how the input was cut into batches, nor on the batch
// size of the exchange.
func TestWriterKeepsTheOrderOfRecordsAndMarks(t *testing.T) {
	seed := time.Now().UnixNano()
	rng := rand.New(rand.NewSource(seed))
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	for round := 0; round < 30; round++ {
		p := 1 + rng.Intn(4)
		mode := ByKey
		if round%3 == 0 {
			mode = BySplit
		}
		n := rng.Intn(300)
		marks := map[int]int64{}
		for range rng.Intn(20) {
			marks[rng.Intn(n+1)] = 0
		}
		var want [][]string
		for _, max := range []int{1, 7, 256} {
			w, boxes := testWriter(t, mode, p, max)
			cutRng := rand.New(rand.NewSource(seed + int64(max)))
			var b abi.Batch
			for i := 0; i <= n; i++ {
				if _, ok := marks[i]; ok {
					b.Mark(int64(i) * 10)
				}
				if i < n {
					b.Append(&abi.Record{Key: []byte(fmt.Sprint("k", i%13)), Pos: abi.Position{Split: uint32(i % 3), Offset: uint64(i)}})
				}
				if cutRng.Intn(1+max) == 0 || i == n {
					if err := w.write(&b); err != nil {
						t.Fatal(err)
					}
					b.Reset()
				}
			}
			if err := w.barrier(checkpoint.Barrier{ID: 5}); err != nil {
				t.Fatal(err)
			}
			var got [][]string
			for _, x := range boxes {
				got = append(got, timeline(t, x))
			}
			if want == nil {
				want = got
				continue
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("round %d, batch %d: got\n%v\nwant\n%v", round, max, got, want)
			}
		}
	}
}

func TestFullChannelBlocksUntilTheReceiverTakes(t *testing.T) {
	w, boxes := testWriter(t, Forward, 1, 1)
	ctx, cancel := context.WithCancel(context.Background())
	w.ctx = ctx
	big := make([]byte, ChannelBytes/4)
	sent := make(chan int)
	go func() {
		defer close(sent)
		for i := 0; i < 40; i++ {
			var b abi.Batch
			b.Append(&abi.Record{Value: big, Pos: abi.Position{Offset: uint64(i)}})
			if w.write(&b) != nil {
				return
			}
			sent <- i
		}
	}()
	n := 0
	for blocked := false; !blocked; {
		select {
		case <-sent:
			n++
		case <-time.After(200 * time.Millisecond):
			blocked = true
		}
	}
	if n == 0 || n > 5 || boxes[0].Queued() > ChannelBytes {
		t.Fatalf("%d records of a quarter of the bound went in, %d bytes queued, bound %d", n, boxes[0].Queued(), ChannelBytes)
	}
	if _, _, ok := boxes[0].recv(); !ok {
		t.Fatal("nothing to take")
	}
	if _, ok := <-sent; !ok {
		t.Fatal("the sender did not go on after one was taken")
	}
	cancel()
	for range sent {
	}
}

func TestInboxLeavesBlockedChannels(t *testing.T) {
	x := NewInbox()
	a, b := x.Channel(0), x.Channel(1)
	ctx := context.Background()
	for i := range 3 {
		for _, c := range []*Channel{a, b} {
			bt := c.take()
			bt.Append(&abi.Record{Pos: abi.Position{Split: uint32(c.index), Offset: uint64(i)}})
			if err := c.send(ctx, item{batch: bt}); err != nil {
				t.Fatal(err)
			}
		}
	}
	x.blocked[0] = true
	for range 3 {
		if c, _, ok := x.recv(); !ok || c != b {
			t.Fatal("took from a blocked channel, or nothing")
		}
	}
	if _, _, ok := x.recv(); ok {
		t.Fatal("only the blocked channel has items, yet one came")
	}
	x.blocked[0] = false
	if c, _, ok := x.recv(); !ok || c != a {
		t.Fatal("nothing from the channel that is free again")
	}
}
