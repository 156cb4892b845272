package task

import "sync"

// mailbox is what the job has told a task and the task has not read. It has no bound: what comes is a few
// messages per checkpoint, and whoever sends must never wait for a task.
type mailbox struct {
	mu     sync.Mutex
	queue  []Control
	notify chan struct{} // cap 1: there may be something
}

func (m *mailbox) put(c Control) {
	m.mu.Lock()
	m.queue = append(m.queue, c)
	m.mu.Unlock()
	select {
	case m.notify <- struct{}{}:
	default:
	}
}

func (m *mailbox) take() (c Control, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.queue) == 0 {
		return c, false
	}
	c = m.queue[0]
	if m.queue = m.queue[1:]; len(m.queue) == 0 {
		m.queue = nil
	}
	return c, true
}
