package objectstore

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
)

// Memory is a store in memory, for tests and trials. The zero value is empty. Safe for concurrent use.
type Memory struct {
	mu   sync.Mutex
	data map[string][]byte
}

var _ Store = (*Memory)(nil)

// Put implements Store.
func (m *Memory) Put(ctx context.Context, key string, body io.ReaderAt, size int64, onlyNew bool) error {
	data, err := io.ReadAll(io.NewSectionReader(body, 0, size))
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, ok := m.data[key]; ok && onlyNew {
		return ErrExists
	}
	if m.data == nil {
		m.data = map[string][]byte{}
	}
	m.data[key] = data
	return nil
}

// Get implements Store.
func (m *Memory) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	data, ok := m.data[key]
	if !ok {
		return nil, ErrNotFound
	}
	return io.NopCloser(bytes.NewReader(data)), ctx.Err()
}

// List implements Store.
func (m *Memory) List(ctx context.Context, prefix string) ([]Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Entry
	for key, data := range m.data {
		if strings.HasPrefix(key, prefix) {
			out = append(out, Entry{key, int64(len(data))})
		}
	}
	return out, ctx.Err()
}

// Delete implements Store.
func (m *Memory) Delete(ctx context.Context, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.data, key)
	return ctx.Err()
}
