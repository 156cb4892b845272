package snapstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/state"
)

// FormatVersion is the version of the directory's layout.
const FormatVersion = 1

const formatText = "millrace snapshot store, format %d\n"

// Options of a store. The zero value is right for production.
type Options struct {
	FS       FS                 // nil: Disk
	Crash    func(point string) // hook at the crash points K7-K9, K11, K12, K23, K24; nil: none
	ReadOnly bool               // takes no lock and changes nothing but leases; another process may be writing
	// NowMS is the time since 1970 by which leases run out. nil: they end with their processes only.
	NowMS func() int64
	// Alive says whether a process of this machine runs. nil: asks the operating system.
	Alive func(pid int) bool
	// Signer signs manifests; nil: they are not signed.
	Signer checkpoint.Signer
	// Verifier, if set, has to find every manifest signed: one that is not counts as damaged.
	Verifier checkpoint.Verifier
}

// Store is a snapshot store. Its methods may be called by any goroutine.
type Store struct {
	fs       FS
	dir      string
	crash    func(string)
	readOnly bool
	now      func() int64 // nil: no clock
	alive    func(pid int) bool
	signer   checkpoint.Signer
	verifier checkpoint.Verifier
	lock     io.Closer

	// names serialises what gives or takes names of objects, so that a sweep never removes an object
	// that is being added again. Taken before mu.
	names sync.Mutex
	// headFile and registryFile serialise writers of HEAD and REGISTRY. Taken before mu.
	headFile, registryFile sync.Mutex
	mu                     sync.Mutex // all below; never held over a file operation
	objects                map[string]object
	refs                   map[string]int // uses by manifests
	manifests              map[checkpoint.ID]*manifest
	leases                 leases
	head                   head
	// reservedHere: ids were given to somebody in this process who may still use them.
	reservedHere bool
	registry     registry
	// registryErr is why the registry cannot be read: then nothing may be removed.
	registryErr error
	durable     map[string]bool // directories whose names are durable
	tmpCount    int
	skipped     []string
}

var _ state.Objects = (*Store)(nil)

type object struct {
	size    int64
	seq     uint64 // when it was last added in this process; 0: before
	pending bool   // its name is there but not known to be durable: adding it failed
}

// manifest is what is known of a manifest file.
type manifest struct {
	digests []string // with repetition
	kind    checkpoint.Kind
	created int64         // ms since 1970
	sha     string        // SHA-256 of the file
	since   checkpoint.ID // where code on probation would go back to; 0: nowhere
	err     error         // why it cannot be read
}

// Open opens the store in dir, making it if there is none. Unless ReadOnly it takes the lock (a
// *LockedError names the process that has it), and removes what an earlier process left half-written.
func Open(dir string, opts Options) (*Store, error) {
	s := &Store{
		fs: opts.FS, dir: filepath.Clean(dir), crash: opts.Crash, readOnly: opts.ReadOnly, now: opts.NowMS,
		alive: opts.Alive, signer: opts.Signer, verifier: opts.Verifier,
		objects: make(map[string]object), refs: make(map[string]int),
		manifests: make(map[checkpoint.ID]*manifest), durable: make(map[string]bool),
		leases: leases{begun: make(map[checkpoint.ID]uint64)},
	}
	if s.fs == nil {
		s.fs = Disk{}
	}
	if s.alive == nil {
		s.alive = processAlive
	}
	if s.crash == nil {
		s.crash = func(string) {}
	}
	if s.readOnly {
		return s, s.checkFormat()
	}
	if err := s.makeDir(s.dir); err != nil {
		return nil, fmt.Errorf("snapshot store: %w", err)
	}
	lock, err := s.fs.Lock(s.path("LOCK"))
	if err != nil {
		return nil, fmt.Errorf("snapshot store %s: %w", s.dir, err)
	}
	s.lock = lock
	if err := s.load(); err != nil {
		lock.Close()
		return nil, err
	}
	return s, nil
}

// Close releases the lock.
func (s *Store) Close() error {
	if s.lock == nil {
		return nil
	}
	lock := s.lock
	s.lock = nil
	return lock.Close()
}

// Dir is the directory of the store.
func (s *Store) Dir() string { return s.dir }

// Skipped says, one line each, what Open found of checkpoints that never became complete.
func (s *Store) Skipped() []string { return s.skipped }

// load makes the layout and reads what is there.
func (s *Store) load() error {
	if err := s.initFormat(); err != nil {
		return err
	}
	for _, d := range []string{"tmp", "objects", "manifests"} {
		if err := s.makeDir(s.path(d)); err != nil {
			return fmt.Errorf("snapshot store: %w", err)
		}
	}
	if err := s.loadHead(); err != nil {
		return err
	}
	if err := s.loadManifests(); err != nil {
		return err
	}
	s.loadRegistry()
	if err := s.finishWithdrawal(); err != nil {
		return err
	}
	if err := s.emptyTmp(); err != nil {
		return err
	}
	return s.loadObjects()
}

// initFormat checks FORMAT and writes it first of all in a new store.
func (s *Store) initFormat() error {
	err := s.checkFormat()
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	list, err := s.fs.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("snapshot store: %w", err)
	}
	for _, e := range list {
		if e.Name != "LOCK" && e.Name != "tmp" {
			return fmt.Errorf("%w: %s has no FORMAT file but holds %s", ErrNotStore, s.dir, e.Name)
		}
	}
	if err := s.makeDir(s.path("tmp")); err != nil {
		return fmt.Errorf("snapshot store: %w", err)
	}
	_, err = s.publish("format", s.path("FORMAT"), fmt.Appendf(nil, formatText, FormatVersion))
	return err
}

func (s *Store) checkFormat() error {
	path := s.path("FORMAT")
	data, err := s.readFile(path)
	if err != nil {
		return fmt.Errorf("snapshot store: %w", err)
	}
	var version int
	if _, err := fmt.Sscanf(string(data), formatText, &version); err != nil ||
		fmt.Sprintf(formatText, version) != string(data) {
		return &DamageError{Path: path, Problem: fmt.Errorf("%w: it says %.60q", ErrNotStore, data)}
	}
	if version > FormatVersion {
		return fmt.Errorf("%w: %s says format %d, this build reads up to %d", ErrNewerFormat, path, version,
			FormatVersion)
	}
	if version != FormatVersion {
		return &DamageError{Path: path, Problem: fmt.Errorf("%w: there is no format %d", ErrNotStore, version)}
	}
	return nil
}

// emptyTmp removes half-written files and notes of which checkpoints they were.
func (s *Store) emptyTmp() error {
	list, err := s.fs.ReadDir(s.path("tmp"))
	if err != nil {
		return fmt.Errorf("snapshot store: %w", err)
	}
	for _, e := range list {
		var id checkpoint.ID
		if _, err := fmt.Sscanf(e.Name, "manifest-%d-", &id); err == nil && s.manifests[id] == nil {
			s.skipped = append(s.skipped,
				fmt.Sprintf("checkpoint %d is incomplete (its manifest was never finished): skipped", id))
		}
		if err := s.fs.Remove(s.path("tmp", e.Name)); err != nil {
			return fmt.Errorf("snapshot store: %w", err)
		}
	}
	return nil
}

// loadObjects lists the objects; those that no manifest names wait for the next sweep.
func (s *Store) loadObjects() error {
	shards, err := s.fs.ReadDir(s.path("objects"))
	if err != nil {
		return fmt.Errorf("snapshot store: %w", err)
	}
	// One sync for all of them: a crash may have come before theirs.
	if err := s.fs.SyncDir(s.path("objects")); err != nil {
		return fmt.Errorf("snapshot store: %w", err)
	}
	orphans, bytes := 0, int64(0)
	for _, shard := range shards {
		s.durable[s.path("objects", shard.Name)] = true
		list, err := s.fs.ReadDir(s.path("objects", shard.Name))
		if err != nil {
			return fmt.Errorf("snapshot store: %w", err)
		}
		for _, e := range list {
			if !checkpoint.ValidDigest(e.Name) || !strings.HasPrefix(e.Name, shard.Name) {
				return &DamageError{Path: s.path("objects", shard.Name, e.Name),
					Problem: errors.New("this is no object's name")}
			}
			s.objects[e.Name] = object{size: e.Size}
			if s.refs[e.Name] == 0 {
				orphans++
				bytes += e.Size
			}
		}
	}
	if orphans > 0 {
		s.skipped = append(s.skipped,
			fmt.Sprintf("%d objects (%d bytes) belong to no complete checkpoint: the next sweep removes them",
				orphans, bytes))
	}
	return nil
}

func (s *Store) path(parts ...string) string {
	return filepath.Join(append([]string{s.dir}, parts...)...)
}
