// Package task runs a chain of operators: one goroutine, its inbox of bounded exchanges, barriers and their
// alignment, watermark merging, lingers and processing-time timers.
package task

import (
	"context"
	"sync"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
)

// item is what moves through an exchange: a batch, a barrier, or the word that the sender is idle, or no
// longer.
type item struct {
	batch   *abi.Batch // nil: one of the others
	status  status
	barrier checkpoint.Barrier
}

// status says whether a channel counts for the watermark of the task it leads to.
type status int8

const (
	noStatus status = iota
	idle
	active
)

// ChannelBytes bounds what is queued on one channel: some batches, so that a barrier is never far behind.
const ChannelBytes = 512 << 10

// freeBatches is how many empty batches a channel keeps: more than ChannelBytes holds of usual ones, so that
// a receiver that is at times slow and at times fast does not make the sender allocate.
const freeBatches = 64

// Channel is the exchange from one task to one input of another, bounded by bytes. One goroutine sends, the
// inbox's task receives.
type Channel struct {
	inbox *Inbox
	index int // among the inbox's channels
	input int // input number of the receiving operator

	// Guarded by inbox.mu.
	queue []item
	head  int
	bytes int
	free  []*abi.Batch

	space chan struct{} // cap 1: the sender waits on it when full
}

// Inbox is all channels of one task, in a fixed order.
type Inbox struct {
	mu       sync.Mutex
	channels []*Channel
	blocked  []bool // by alignment; the task's own
	next     int    // round robin
	notify   chan struct{}
}

// NewInbox makes an empty inbox.
func NewInbox() *Inbox { return &Inbox{notify: make(chan struct{}, 1)} }

// Channel adds a channel that leads to the operator's input.
func (x *Inbox) Channel(input int) *Channel {
	c := &Channel{inbox: x, index: len(x.channels), input: input, space: make(chan struct{}, 1)}
	x.channels = append(x.channels, c)
	x.blocked = append(x.blocked, false)
	return c
}

func (c *Channel) size(it item) int {
	if it.batch == nil {
		return 0
	}
	return len(it.batch.Data)
}

// send queues it, waiting while the channel is full. A single item always fits an empty channel.
func (c *Channel) send(ctx context.Context, it item) error {
	n := c.size(it)
	for {
		c.inbox.mu.Lock()
		if c.bytes == 0 || c.bytes+n <= ChannelBytes {
			break
		}
		c.inbox.mu.Unlock()
		select {
		case <-c.space:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if c.head > 0 && len(c.queue) == cap(c.queue) {
		c.queue = c.queue[:copy(c.queue, c.queue[c.head:])]
		c.head = 0
	}
	c.queue = append(c.queue, it)
	c.bytes += n
	c.inbox.mu.Unlock()
	select {
	case c.inbox.notify <- struct{}{}:
	default:
	}
	return nil
}

// take gives the sender an empty batch to fill, one that the receiver is done with where there is one.
func (c *Channel) take() *abi.Batch {
	c.inbox.mu.Lock()
	defer c.inbox.mu.Unlock()
	if n := len(c.free); n > 0 {
		b := c.free[n-1]
		c.free = c.free[:n-1]
		return b
	}
	return &abi.Batch{}
}

// recv takes the next item of a channel that is not blocked, in turn.
func (x *Inbox) recv() (c *Channel, it item, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for range x.channels {
		c = x.channels[x.next]
		if x.next++; x.next == len(x.channels) {
			x.next = 0
		}
		if x.blocked[c.index] || c.head == len(c.queue) {
			continue
		}
		it = c.queue[c.head]
		c.queue[c.head] = item{}
		if c.head++; c.head == len(c.queue) {
			c.queue, c.head = c.queue[:0], 0
		}
		c.bytes -= c.size(it)
		select {
		case c.space <- struct{}{}:
		default:
		}
		return c, it, true
	}
	return nil, item{}, false
}

// release gives a batch back to the channel it came from.
func (c *Channel) release(b *abi.Batch) {
	b.Reset()
	c.inbox.mu.Lock()
	if len(c.free) < freeBatches {
		c.free = append(c.free, b)
	}
	c.inbox.mu.Unlock()
}

// Queued is the bytes waiting on all channels, for people.
func (x *Inbox) Queued() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := 0
	for _, c := range x.channels {
		n += c.bytes
	}
	return n
}

// Channels is the number of channels.
func (x *Inbox) Channels() int { return len(x.channels) }
