// Package coldpebble keeps ordered state that outgrew its memory budget in Pebble: one database per
// worker process and folder, opened when it is first needed.
//
// The database is a cache, never the snapshot: it has no write-ahead log, its folder is emptied when it
// is opened (C021), and what was in it is rebuilt from run files. A failed disk operation makes the
// database useless, not the process (C020): every later call gets the error, and the task that gets it
// restarts from its last checkpoint on a new Env.
package coldpebble

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace-io/millrace/state"
)

// Options of an Env.
type Options struct {
	CacheBytes    int64        // block cache; 0: 32 MiB
	MemTableBytes int64        // one memtable, of which there may be 4; 0: 8 MiB
	FS            vfs.FS       // nil: the disk
	Log           *slog.Logger // nil: slog.Default
}

// Env is a folder that will hold the database. Any number of goroutines may use it.
type Env struct {
	dir  string
	opts Options

	mu     sync.Mutex
	db     *pebble.DB
	cache  *pebble.Cache
	closed bool
	next   uint32 // number of the next space

	failed  chan struct{} // closed with err set
	once    sync.Once
	err     error
	strikes atomic.Int32 // background errors, for the back-off
	iters   atomic.Int64 // open iterators
}

// New makes an Env over dir; it touches nothing before the first call of Space.
func New(dir string, o Options) *Env {
	if o.CacheBytes == 0 {
		o.CacheBytes = 32 << 20
	}
	if o.MemTableBytes == 0 {
		o.MemTableBytes = 8 << 20
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Env{dir: dir, opts: o, failed: make(chan struct{})}
}

// Opened says whether the database was ever needed.
func (e *Env) Opened() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.db != nil
}

// OpenIters is the number of open iterators.
func (e *Env) OpenIters() int64 { return e.iters.Load() }

// Err is the failure that made the Env useless, nil if none did.
func (e *Env) Err() error {
	select {
	case <-e.failed:
		return e.err
	default:
		return nil
	}
}

// fail makes the Env useless.
func (e *Env) fail(err error) {
	e.once.Do(func() {
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			err = fmt.Errorf("%w: %w", state.ErrStorageFull, err)
		}
		e.err = fmt.Errorf("state: cold store %s: %w", e.dir, err)
		e.opts.Log.Error("cold store failed", "dir", e.dir, "error", err)
		close(e.failed)
	})
}

// Space opens the database if it is the first, and gives a part of it that no one else has.
func (e *Env) Space() (*Space, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, fmt.Errorf("state: cold store %s is closed", e.dir)
	}
	if err := e.Err(); err != nil {
		return nil, err
	}
	if e.db == nil {
		if err := e.open(); err != nil {
			return nil, err
		}
	}
	e.next++
	return newSpace(e, e.next), nil
}

func (e *Env) open() error {
	fs := e.opts.FS
	if err := fs.RemoveAll(e.dir); err != nil {
		return state.StorageError("empty", e.dir, err)
	}
	if err := fs.MkdirAll(filepath.Dir(e.dir), 0o755); err != nil {
		return state.StorageError("create", e.dir, err)
	}
	e.cache = pebble.NewCache(e.opts.CacheBytes)
	db, err := pebble.Open(e.dir, e.options())
	if err != nil {
		e.cache.Unref()
		e.cache = nil
		return state.StorageError("open cold store", e.dir, err)
	}
	e.db = db
	return nil
}

func (e *Env) options() *pebble.Options {
	l := logger{e}
	o := &pebble.Options{
		FS:                          nosync{e.opts.FS},
		Cache:                       e.cache,
		FormatMajorVersion:          pebble.FormatNewest,
		DisableWAL:                  true,
		MemTableSize:                uint64(e.opts.MemTableBytes),
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       24,
		MaxOpenFiles:                1000,
		Logger:                      l,
		EventListener: &pebble.EventListener{
			BackgroundError: e.background,
			DataCorruption: func(i pebble.DataCorruptionInfo) {
				e.fail(fmt.Errorf("%w: %s", state.ErrCorrupt, i))
			},
		},
	}
	o.Experimental.CompactionScheduler = newScheduler()
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		// a cache on a local disk: decoding would cost more than the reads that it saves
		o.Levels[i].Compression = func() *sstable.CompressionProfile { return sstable.NoCompression }
	}
	return o
}

// background is told of failed flushes and compactions. Pebble repeats them at once, so this waits,
// longer each time. It may hold the database's mutex: no one needs the database any more.
func (e *Env) background(err error) {
	e.fail(err)
	n := min(e.strikes.Add(1), 6)
	time.Sleep(time.Duration(10<<n) * time.Millisecond)
}

// Close closes the database and removes its folder. Spaces must be closed before.
func (e *Env) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	if e.db == nil {
		return nil
	}
	done := make(chan error, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil { // Close of a database in pieces may panic
				done <- fmt.Errorf("state: close cold store %s: %v", e.dir, r)
			}
		}()
		done <- e.db.Close()
	}()
	var err error
	if e.Err() == nil {
		err = <-done
	} else {
		select { // a failed one may hang in its retries
		case <-done:
		case <-time.After(2 * time.Second):
		}
	}
	e.cache.Unref()
	return errors.Join(err, e.opts.FS.RemoveAll(e.dir))
}

// logger hands Pebble's talk to the Env. Pebble expects Fatalf not to return; as it then only ever
// returns the error up the stack, marking the Env as failed is enough.
type logger struct{ e *Env }

func (l logger) Infof(format string, args ...any) {}

func (l logger) Errorf(format string, args ...any) {
	l.e.opts.Log.Warn("cold store: "+fmt.Sprintf(format, args...), "dir", l.e.dir)
}

func (l logger) Fatalf(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	for _, a := range args {
		if cause, ok := a.(error); ok {
			err = fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), cause)
		}
	}
	l.e.fail(err)
}
