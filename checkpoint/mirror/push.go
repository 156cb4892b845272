package mirror

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
)

// Pushed says what Push stored.
type Pushed struct {
	ID      checkpoint.ID
	Already bool  // it was in the mirror
	Objects int   // stored anew
	Bytes   int64 // of them, as stored
	Reused  int   // objects that the mirror had
}

// evictions is how often a push begins anew that was taken for dead.
const evictions = 3

// Push copies a snapshot of a local store into the mirror: what no snapshot there has. A lease keeps it from
// expiring locally meanwhile; the store may be open for reading only, beside its running job. A push that
// fails or dies leaves files that GC removes, never a snapshot without its objects. After an error that wraps
// neither of this package's nor the local store's errors it is not known whether the snapshot is there: pushing
// it again finds out. Errors: ErrIDTaken, ErrOtherJob; those of Store.Load; *DamageError; the object store's.
func (m *Mirror) Push(ctx context.Context, local *snapstore.Store, id checkpoint.ID) (Pushed, error) {
	lease, err := local.Lease("upload", id)
	if err != nil {
		return Pushed{}, err
	}
	defer lease.Release()
	file := lease.File(id)
	man, err := checkpoint.Decode(file)
	if err != nil {
		return Pushed{}, err
	}
	if man.Job != m.o.Job {
		return Pushed{}, fmt.Errorf("push snapshot %d: %w: it is of %q, the mirror of %q", id, ErrOtherJob, man.Job, m.o.Job)
	}
	if m.o.Manifests != nil {
		if err := checkpoint.VerifySignature(file, m.o.Manifests); err != nil {
			return Pushed{}, fmt.Errorf("push snapshot %d: %w; a mirror with signatures takes no other: make a new snapshot", id, err)
		}
	}
	for tries := 1; ; tries++ {
		p := &push{m: m, local: local, lease: lease, file: file, man: man}
		out, err := p.run(ctx)
		if err == nil {
			return out, nil
		}
		if !errors.Is(err, ErrEvicted) || tries == evictions {
			return Pushed{}, fmt.Errorf("push snapshot %d: %w", id, err)
		}
	}
}

// push is one attempt.
type push struct {
	m       *Mirror
	local   *snapstore.Store
	lease   *snapstore.Lease
	file    []byte
	man     *checkpoint.Manifest
	id      string
	expires int64
	index   index
	rounds  int // indexes stored: each has its own key
	out     Pushed
}

func (p *push) run(ctx context.Context) (Pushed, error) {
	p.out = Pushed{ID: p.man.ID}
	c, err := p.register(ctx)
	if err != nil || p.out.Already {
		return p.out, err
	}
	for {
		if err := p.store(ctx, c); err != nil {
			p.unregister(ctx)
			return p.out, err
		}
		snapshot, err := p.storeIndex(ctx)
		if err != nil {
			p.unregister(ctx)
			return p.out, err
		}
		p.m.o.Crash("K11")
		var missing bool
		if c, missing, err = p.commit(ctx, snapshot); err != nil {
			return p.out, err
		}
		if !missing {
			p.m.o.Crash("K12")
			return p.out, nil
		}
	}
}

// register enters the push into the catalog, so that nothing of it is removed.
func (p *push) register(ctx context.Context) (*Catalog, error) {
	id, err := p.m.newID()
	if err != nil {
		return nil, err
	}
	p.id, p.index = id, index{Format: indexFormat, Manifest: p.file, Objects: map[string]stored{}}
	p.expires = p.m.o.NowMS() + leaseMS
	return p.m.log.change(ctx, func(c *Catalog) error {
		if old, ok := c.Find(p.man.ID); ok {
			if old.Manifest != sha256Hex(p.file) {
				return fmt.Errorf("%w: %d", ErrIDTaken, p.man.ID)
			}
			p.out.Already = true
			return errUnchanged
		}
		if !c.pushing(id) {
			c.Pushes = append(c.Pushes, Push{ID: id, Snapshot: p.man.ID, ExpiresMS: p.expires})
		}
		return nil
	})
}

// unregister is a courtesy: the push expires by itself.
func (p *push) unregister(ctx context.Context) {
	_, _ = p.m.log.change(ctx, func(c *Catalog) error {
		if !c.pushing(p.id) {
			return errUnchanged
		}
		c.Pushes = slices.DeleteFunc(c.Pushes, func(q Push) bool { return q.ID == p.id })
		return nil
	})
}

// keep renews both leases when half their time is over.
func (p *push) keep(ctx context.Context) error {
	if err := p.lease.Keep(); err != nil {
		return err
	}
	if p.m.o.NowMS() < p.expires-leaseMS/2 {
		return nil
	}
	p.expires = p.m.o.NowMS() + leaseMS
	_, err := p.m.log.change(ctx, func(c *Catalog) error {
		i := slices.IndexFunc(c.Pushes, func(q Push) bool { return q.ID == p.id })
		if i < 0 {
			return ErrEvicted
		}
		c.Pushes[i].ExpiresMS = p.expires
		return nil
	})
	return err
}

// store uploads the objects that the catalog's snapshots do not have and this push has not stored yet.
func (p *push) store(ctx context.Context, c *Catalog) error {
	stock, err := p.m.stock(ctx, c)
	if err != nil {
		return err
	}
	first := true
	for ref, task := range refs(p.man) {
		at, mine := p.index.Objects[ref.Digest]
		if mine && p.own(at) {
			continue
		}
		if have, ok := stock[ref.Digest]; ok {
			if !mine {
				p.out.Reused++
			}
			p.index.Objects[ref.Digest] = have
			continue
		}
		if !first {
			p.m.o.Crash("K10")
		}
		first = false
		if err := p.keep(ctx); err != nil {
			return err
		}
		if at, err = p.upload(ctx, ref.Digest, task); err != nil {
			return err
		}
		p.index.Objects[ref.Digest] = at
		p.out.Objects++
		p.out.Bytes += at.Size
	}
	return nil
}

// own says that this push stored it.
func (p *push) own(at stored) bool {
	return len(at.Key) > len(p.id) && at.Key[len(at.Key)-len(p.id):] == p.id
}

// refs yields each object once, with the task it is of.
func refs(m *checkpoint.Manifest) func(yield func(checkpoint.ObjectRef, string) bool) {
	return func(yield func(checkpoint.ObjectRef, string) bool) {
		tasks := map[string]string{}
		for i := range m.Tasks {
			for _, o := range m.Tasks[i].Operators {
				if o.Keyed == nil {
					continue
				}
				for _, s := range o.Keyed.States {
					for _, run := range s.Runs {
						if _, ok := tasks[run.Object]; !ok {
							tasks[run.Object] = m.Tasks[i].ID().String()
						}
					}
				}
			}
		}
		seen := map[string]bool{}
		for ref := range m.Objects() {
			if !seen[ref.Digest] {
				seen[ref.Digest] = true
				if !yield(ref, tasks[ref.Digest]) {
					return
				}
			}
		}
	}
}

func (p *push) upload(ctx context.Context, digest, task string) (stored, error) {
	e, err := p.m.encode(p.m.context(task, p.man.ID, digest), func(w io.Writer) error {
		return p.local.CopyTo(ctx, w, digest)
	})
	if err != nil {
		return stored{}, err
	}
	defer e.close()
	at := stored{Key: objectKey(digest, p.id), Size: e.size, SHA256: e.sha256, Task: task, Sequence: p.man.ID}
	// The key is this push's own: whatever an earlier attempt left under it is the same.
	return at, p.m.o.Store.Put(ctx, at.Key, moving{e, &p.m.moved}, e.size, false)
}

// moving counts what is read.
type moving struct {
	io.ReaderAt
	n *atomic.Int64
}

// ReadAt implements io.ReaderAt.
func (m moving) ReadAt(p []byte, off int64) (int, error) {
	n, err := m.ReaderAt.ReadAt(p, off)
	m.n.Add(int64(n))
	return n, err
}

func (p *push) storeIndex(ctx context.Context) (Snapshot, error) {
	if err := p.keep(ctx); err != nil {
		return Snapshot{}, err
	}
	data, err := json.Marshal(p.index)
	if err != nil {
		return Snapshot{}, err
	}
	e, err := p.m.encode(p.m.context("", p.man.ID, "index"), func(w io.Writer) error {
		_, err := io.Copy(w, bytes.NewReader(data))
		return err
	})
	if err != nil {
		return Snapshot{}, err
	}
	defer e.close()
	p.rounds++
	s := Snapshot{ID: p.man.ID, Kind: p.man.Kind, Parent: p.man.Parent, ParentSHA: p.man.ParentSHA, CreatedMS: p.man.CreatedMS,
		Manifest: sha256Hex(p.file), Key: indexKey(p.man.ID, p.rounds, p.id), SHA256: e.sha256, Size: e.size}
	return s, p.m.o.Store.Put(ctx, s.Key, e, e.size, false)
}

// commit adds the snapshot to the catalog. missing: snapshots whose objects it reuses left the catalog
// meanwhile, so that these have to be stored anew.
func (p *push) commit(ctx context.Context, s Snapshot) (c *Catalog, missing bool, err error) {
	c, err = p.m.log.change(ctx, func(c *Catalog) error {
		missing = false
		if old, ok := c.Find(s.ID); ok {
			if old.Manifest != s.Manifest {
				return fmt.Errorf("%w: %d", ErrIDTaken, s.ID)
			}
			if old.Key != s.Key { // another process pushed it
				c.Pushes = slices.DeleteFunc(c.Pushes, func(q Push) bool { return q.ID == p.id })
				return nil
			}
			return errUnchanged
		}
		if !c.pushing(p.id) {
			return ErrEvicted
		}
		stock, err := p.m.stock(ctx, c)
		if err != nil {
			return err
		}
		for digest, at := range p.index.Objects {
			if !p.own(at) && stock[digest].Key != at.Key {
				missing = true
				return errUnchanged
			}
		}
		c.Snapshots = append(c.Snapshots, s)
		slices.SortFunc(c.Snapshots, func(a, b Snapshot) int { return cmp.Compare(a.ID, b.ID) })
		c.Pushes = slices.DeleteFunc(c.Pushes, func(q Push) bool { return q.ID == p.id })
		return c.chain()
	})
	return c, missing, err
}
