// Package mirror keeps copies of snapshots in an object store: incremental, compressed, sealed if keys are
// given, safe against crashes, lost answers, lagging lists and late deletions, with several processes at work.
//
// Keys of one mirror, all below the prefix of its store and each written once in its life:
//
//	epochs/E, catalog/G           the catalog's generations: see Catalog
//	indexes/ID-ROUND.PUSH         a snapshot's manifest and where its objects are
//	objects/DIGEST.PUSH           an object, compressed and sealed
//
// PUSH is the id of the push that stored the file. A push registers in the catalog, stores what no snapshot
// of the catalog has, and adds its snapshot to the catalog if it is still registered. Removal goes the other
// way: a file goes that no snapshot of the newest catalog names and whose push is not registered there. No such
// file can ever be named again, since its push cannot come back and its key is not used twice; so a deletion
// that takes effect late does no harm, and no clock decides what is removed: expiry only ends pushes of dead
// processes.
package mirror

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/objectstore"
	"github.com/millrace-io/millrace/checkpoint/seal"
)

// Options configure a mirror.
type Options struct {
	// Store is where it is. It should repeat what fails: see objectstore.Retry.
	Store objectstore.Store
	// Job is the pipeline's name. A mirror is of one job.
	Job string
	// NowMS is the time since 1970, by which abandoned pushes end.
	NowMS func() int64
	// Random is where ids and salts come from: crypto/rand.Reader.
	Random io.Reader
	// Keys seal what is stored: the first one seals, all open. None: it is not sealed.
	Keys []seal.Key
	// Tenant is part of what a sealed file is.
	Tenant string
	// Signer and Verifier are of the catalog. Manifests are signed by the snapshot store.
	Signer   checkpoint.Signer
	Verifier checkpoint.Verifier
	// Manifests, if set, has to find every manifest signed, here and before it is pushed.
	Manifests checkpoint.Verifier
	// Spool is a folder for files larger than 4 MiB while they are encoded; empty: the system's.
	Spool string
	// Crash is a hook at the crash points K10, K11, K12, K20, K24; nil: none.
	Crash func(point string)
	// AtLeast is a snapshot known to have been in the mirror: a newest one below it means that the mirror was
	// rolled back. 0: nothing is known.
	AtLeast checkpoint.ID
}

// leaseMS is how long a push or a reader is believed to live that does not renew.
const leaseMS = 10 * 60 * 1000

// Mirror is one job's snapshots in an object store. Safe for concurrent use.
type Mirror struct {
	o   Options
	log *catalogs
	// moved counts bytes that were encoded or taken from a body by the store, so that work is told from waiting.
	moved atomic.Int64

	mu      sync.Mutex
	indexes map[string]*index // by key; of snapshots in the catalog
}

// Errors of mirrors.
var (
	// ErrNoSnapshot: the mirror has none, or not the one asked for.
	ErrNoSnapshot = errors.New("no such snapshot in the mirror")
	// ErrIDTaken: the mirror has another snapshot with the id.
	ErrIDTaken = errors.New("the mirror has another snapshot with this id")
	// ErrEvicted: the push took so long without a word that it counted as dead.
	ErrEvicted = errors.New("the push was given up by another process")
	// ErrInUse: the snapshot is being read.
	ErrInUse = errors.New("the snapshot is being read")
	// ErrRolledBack: what was there is not there any more.
	ErrRolledBack = errors.New("the mirror was rolled back")
	// ErrKeys: it was stored with other keys than are given.
	ErrKeys = errors.New("the keys given are not those that it was stored with")
	// ErrConditional: of two who write at once both would believe that they had.
	ErrConditional = errors.New("the object store ignores If-None-Match, so that writers could not see each other")
	// ErrOtherJob: the mirror is of another job.
	ErrOtherJob = errors.New("the mirror is of another job")
)

// New makes a mirror of options; nothing is asked of the object store.
func New(o Options) *Mirror {
	if o.Crash == nil {
		o.Crash = func(string) {}
	}
	m := &Mirror{o: o, indexes: map[string]*index{}}
	m.log = &catalogs{store: o.Store, tenant: o.Tenant, job: o.Job, signer: o.Signer, verifier: o.Verifier, nonce: m.newID}
	return m
}

// newID is 16 random hex digits.
func (m *Mirror) newID() (string, error) {
	b := make([]byte, 8)
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := io.ReadFull(m.o.Random, b); err != nil {
		return "", fmt.Errorf("mirror: %w", err)
	}
	return hex.EncodeToString(b), nil
}

// Catalog returns the newest catalog. Errors: *DamageError, ErrRolledBack, the store's.
func (m *Mirror) Catalog(ctx context.Context) (*Catalog, error) {
	c, _, err := m.log.read(ctx)
	if err != nil {
		return nil, fmt.Errorf("mirror: %w", err)
	}
	if m.o.AtLeast != 0 && (len(c.Snapshots) == 0 || c.Snapshots[len(c.Snapshots)-1].ID < m.o.AtLeast) {
		return nil, fmt.Errorf("mirror: %w: snapshot %d was in it, generation %d has none so new", ErrRolledBack, m.o.AtLeast, c.Generation)
	}
	return c, nil
}

// Latest is the newest snapshot of the mirror. Errors: ErrNoSnapshot, those of Catalog.
func (m *Mirror) Latest(ctx context.Context) (Snapshot, error) {
	c, err := m.Catalog(ctx)
	if err != nil {
		return Snapshot{}, err
	}
	if s, ok := c.Find(c.newest()); ok {
		return s, nil
	}
	return Snapshot{}, ErrNoSnapshot
}
