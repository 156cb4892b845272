package mirror

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
)

// Pulled says what Pull fetched.
type Pulled struct {
	ID      checkpoint.ID // in the local store; another than asked for where that was renumbered
	Objects int           // fetched
	Bytes   int64         // of them, as stored in the mirror
	Had     int           // objects that the local store had
}

// Pull copies a snapshot of the mirror into a local store: the objects it lacks, every byte checked, the
// manifest last: see Store.Insert. An entry in the catalog keeps it from being removed meanwhile. What a pull
// leaves that fails or dies are objects that the next local sweep removes, and that the next pull need not
// fetch again. Errors: ErrNoSnapshot; *DamageError; snapstore.ErrIDTaken without renumber; the store's.
func (m *Mirror) Pull(ctx context.Context, local *snapstore.Store, id checkpoint.ID, renumber bool) (Pulled, error) {
	return m.pull(ctx, local, id, func(_ *Catalog, file []byte) (checkpoint.ID, error) { return local.Insert(ctx, file, renumber) })
}

// PullStart makes a snapshot of the mirror the start of the job in a local store without snapshots. Ids go on
// behind all that the mirror has. With a change the start is a new snapshot, whose origin is the one asked for: see
// snapstore.ForkWith. Errors: as Pull; snapstore.ErrNotEmpty.
func (m *Mirror) PullStart(ctx context.Context, local *snapstore.Store, id checkpoint.ID, change func(*checkpoint.Manifest)) (Pulled, error) {
	infos, err := local.List()
	if err != nil {
		return Pulled{}, err
	}
	if len(infos) > 0 {
		return Pulled{}, fmt.Errorf("pull snapshot %d: %w", id, snapstore.ErrNotEmpty)
	}
	return m.pull(ctx, local, id, func(c *Catalog, file []byte) (checkpoint.ID, error) {
		if err := local.SkipTo(c.newest()); err != nil {
			return 0, err
		}
		if change == nil {
			return local.Insert(ctx, file, false)
		}
		man, err := checkpoint.Decode(file)
		if err != nil {
			return 0, err
		}
		man = man.Derive(file)
		for i := range man.Tasks {
			man.Tasks[i].Operators = slices.Clone(man.Tasks[i].Operators)
		}
		change(man)
		if man.ID, err = local.Reserve(1); err != nil {
			return 0, err
		}
		return man.ID, local.WriteManifest(ctx, man)
	})
}

// pull fetches what a snapshot needs and lets add do the rest.
func (m *Mirror) pull(ctx context.Context, local *snapstore.Store, id checkpoint.ID, add func(c *Catalog, file []byte) (checkpoint.ID, error)) (Pulled, error) {
	defer local.Hold()()
	r, err := m.read(ctx, id)
	if err != nil {
		return Pulled{}, fmt.Errorf("pull snapshot %d: %w", id, err)
	}
	defer r.release(ctx)
	out, err := m.pullAs(ctx, local, r, add)
	if err != nil {
		return Pulled{}, fmt.Errorf("pull snapshot %d: %w", id, err)
	}
	return out, nil
}

func (m *Mirror) pullAs(ctx context.Context, local *snapstore.Store, r *reading, add func(c *Catalog, file []byte) (checkpoint.ID, error)) (Pulled, error) {
	x, man, err := m.index(ctx, r.snapshot)
	if err != nil {
		return Pulled{}, err
	}
	var out Pulled
	for ref := range refs(man) {
		if local.Has(ref.Digest, ref.Size) {
			out.Had++
			continue
		}
		if err := r.keep(ctx); err != nil {
			return Pulled{}, err
		}
		at := x.Objects[ref.Digest]
		if err := m.fetch(ctx, local, ref, at); err != nil {
			return Pulled{}, fmt.Errorf("%s: %w", ref.Where, err)
		}
		out.Objects++
		out.Bytes += at.Size
		m.o.Crash("K20")
	}
	out.ID, err = add(r.catalog, x.Manifest)
	return out, err
}

func (m *Mirror) fetch(ctx context.Context, local *snapstore.Store, ref checkpoint.ObjectRef, at stored) error {
	c := m.context(at.Task, at.Sequence, ref.Digest)
	return m.decode(ctx, at.Key, at.Size, at.SHA256, c, func(r io.Reader) error {
		return local.AddStream(ctx, r, ref.Digest, ref.Size, most(ref.Size))
	})
}

// reading is an entry in the catalog that keeps a snapshot there.
type reading struct {
	m        *Mirror
	id       string
	snapshot Snapshot
	catalog  *Catalog
	expires  int64
}

// read enters a reader of a snapshot into the catalog.
func (m *Mirror) read(ctx context.Context, id checkpoint.ID) (*reading, error) {
	if _, err := m.Catalog(ctx); err != nil { // a mirror that was rolled back is not written to
		return nil, err
	}
	name, err := m.newID()
	if err != nil {
		return nil, err
	}
	r := &reading{m: m, id: name, expires: m.o.NowMS() + leaseMS}
	r.catalog, err = m.log.change(ctx, func(c *Catalog) error {
		var ok bool
		if r.snapshot, ok = c.Find(id); !ok {
			return c.none(id)
		}
		if slices.ContainsFunc(c.Readers, func(q Reader) bool { return q.ID == name }) {
			return errUnchanged
		}
		c.Readers = append(c.Readers, Reader{ID: name, Snapshot: id, ExpiresMS: r.expires})
		return nil
	})
	return r, err
}

// none says that there is no such snapshot, and which ones there are.
func (c *Catalog) none(id checkpoint.ID) error {
	if len(c.Snapshots) == 0 {
		return fmt.Errorf("%w: it has none", ErrNoSnapshot)
	}
	return fmt.Errorf("%w: no %d, its ids are %d to %d", ErrNoSnapshot, id, c.Snapshots[0].ID, c.newest())
}

// keep renews the entry when half its time is over.
func (r *reading) keep(ctx context.Context) error {
	if r.m.o.NowMS() < r.expires-leaseMS/2 {
		return nil
	}
	r.expires = r.m.o.NowMS() + leaseMS
	_, err := r.m.log.change(ctx, func(c *Catalog) error {
		i := slices.IndexFunc(c.Readers, func(q Reader) bool { return q.ID == r.id })
		if _, ok := c.Find(r.snapshot.ID); !ok {
			return fmt.Errorf("%w: it was removed while it was read", ErrNoSnapshot)
		}
		if i < 0 { // taken for dead, and nothing was removed yet
			c.Readers = append(c.Readers, Reader{ID: r.id, Snapshot: r.snapshot.ID})
			i = len(c.Readers) - 1
		}
		c.Readers[i].ExpiresMS = r.expires
		return nil
	})
	return err
}

// release is a courtesy: the entry expires by itself.
func (r *reading) release(ctx context.Context) {
	_, _ = r.m.log.change(context.WithoutCancel(ctx), func(c *Catalog) error {
		before := len(c.Readers)
		c.Readers = slices.DeleteFunc(c.Readers, func(q Reader) bool { return q.ID == r.id })
		if len(c.Readers) == before {
			return errUnchanged
		}
		return nil
	})
}
