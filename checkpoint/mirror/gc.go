package mirror

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/objectstore"
)

// Delete takes snapshots out of the catalog; GC removes what only they have. Errors: ErrNoSnapshot; ErrInUse.
func (m *Mirror) Delete(ctx context.Context, ids ...checkpoint.ID) error {
	_, err := m.log.change(ctx, func(c *Catalog) error {
		changed := false
		for _, id := range ids {
			if _, ok := c.Find(id); !ok {
				continue
			}
			for _, r := range c.Readers {
				if r.Snapshot == id && m.o.NowMS() < r.ExpiresMS {
					return fmt.Errorf("delete snapshot %d: %w", id, ErrInUse)
				}
			}
			c.Snapshots = slices.DeleteFunc(c.Snapshots, func(s Snapshot) bool { return s.ID == id })
			changed = true
		}
		if !changed {
			return errUnchanged
		}
		return nil
	})
	return err
}

// Policy says which snapshots a Prune leaves.
type Policy struct {
	Checkpoints, Savepoints int   // how many of the newest stay; below 0: all
	BeforeMS                int64 // only what is older than this, since 1970, goes; 0: whatever its age
}

// Prune takes snapshots out of the catalog by a rule, and says which; dry: it only says. The newest snapshot stays,
// and what is being read. GC removes what only they have.
func (m *Mirror) Prune(ctx context.Context, p Policy, dry bool) (gone []checkpoint.ID, err error) {
	_, err = m.log.change(ctx, func(c *Catalog) error {
		gone = m.pruned(c, p)
		if dry || len(gone) == 0 {
			return errUnchanged
		}
		c.Snapshots = slices.DeleteFunc(c.Snapshots, func(s Snapshot) bool { return slices.Contains(gone, s.ID) })
		return nil
	})
	return gone, err
}

func (m *Mirror) pruned(c *Catalog, p Policy) (gone []checkpoint.ID) {
	left := map[checkpoint.Kind]int{checkpoint.KindCheckpoint: p.Checkpoints, checkpoint.KindSavepoint: p.Savepoints}
	for _, s := range slices.Backward(c.Snapshots) {
		if left[s.Kind] < 0 || p.BeforeMS != 0 && s.CreatedMS >= p.BeforeMS || s.ID == c.newest() || m.reading(c, s.ID) {
			if left[s.Kind] > 0 {
				left[s.Kind]--
			}
			continue
		}
		if left[s.Kind] > 0 {
			left[s.Kind]--
			continue
		}
		gone = append(gone, s.ID)
	}
	slices.Reverse(gone)
	return gone
}

// Retain takes all but the newest n checkpoints (n >= 1) out of the catalog, and says which. Savepoints and
// what is being read stay and do not count.
func (m *Mirror) Retain(ctx context.Context, n int) (gone []checkpoint.ID, err error) {
	if n < 1 {
		return nil, fmt.Errorf("retain %d checkpoints: expected at least 1", n)
	}
	_, err = m.log.change(ctx, func(c *Catalog) error {
		gone = nil
		left := n
		for _, s := range slices.Backward(c.Snapshots) {
			if s.Kind != checkpoint.KindCheckpoint {
				continue
			}
			if left--; left >= 0 || m.reading(c, s.ID) {
				continue
			}
			gone = append(gone, s.ID)
		}
		if len(gone) == 0 {
			return errUnchanged
		}
		c.Snapshots = slices.DeleteFunc(c.Snapshots, func(s Snapshot) bool { return slices.Contains(gone, s.ID) })
		return nil
	})
	slices.Reverse(gone)
	return gone, err
}

func (m *Mirror) reading(c *Catalog, id checkpoint.ID) bool {
	return slices.ContainsFunc(c.Readers, func(r Reader) bool { return r.Snapshot == id && m.o.NowMS() < r.ExpiresMS })
}

// Collected says what GC removed.
type Collected struct {
	Files   int
	Bytes   int64
	Evicted int // pushes and readers that counted as dead
}

// GC removes every file that no snapshot of the catalog names and no push is adding, and old generations of the
// catalog. It may run beside pushes, pulls and other GCs, and be stopped anywhere.
func (m *Mirror) GC(ctx context.Context) (Collected, error) {
	var out Collected
	if _, err := m.Catalog(ctx); err != nil {
		return out, err
	}
	if err := m.evict(ctx, &out); err != nil {
		return out, fmt.Errorf("gc: %w", err)
	}
	// The list comes before the catalog: what a push stores that registers after the catalog was read is not
	// in the list.
	var list []objectstore.Entry
	for _, prefix := range []string{"objects/", "indexes/"} {
		some, err := m.o.Store.List(ctx, prefix)
		if err != nil {
			return out, fmt.Errorf("gc: %w", err)
		}
		list = append(list, some...)
	}
	c, err := m.Catalog(ctx)
	if err != nil {
		return out, err
	}
	stock, err := m.stock(ctx, c)
	if err != nil {
		return out, fmt.Errorf("gc: nothing is removed: %w", err)
	}
	named := map[string]bool{}
	for _, at := range stock {
		named[at.Key] = true
	}
	// One digest may be stored twice, by two pushes at a time: all places that a snapshot names stay.
	for _, s := range c.Snapshots {
		named[s.Key] = true
		x, _, err := m.index(ctx, s)
		if err != nil {
			return out, fmt.Errorf("gc: nothing is removed: %w", err)
		}
		for _, at := range x.Objects {
			named[at.Key] = true
		}
	}
	m.o.Crash("K24")
	for _, e := range list {
		_, push, ok := strings.Cut(e.Key, ".")
		if named[e.Key] || !ok || c.pushing(push) {
			continue
		}
		if err := m.o.Store.Delete(ctx, e.Key); err != nil {
			return out, fmt.Errorf("gc: %w", err)
		}
		out.Files++
		out.Bytes += e.Size
	}
	return out, m.log.trim(ctx, c.Generation)
}

// evict takes dead pushes and readers out of the catalog.
func (m *Mirror) evict(ctx context.Context, out *Collected) error {
	_, err := m.log.change(ctx, func(c *Catalog) error {
		now, before := m.o.NowMS(), len(c.Pushes)+len(c.Readers)
		c.Pushes = slices.DeleteFunc(c.Pushes, func(p Push) bool { return now >= p.ExpiresMS })
		c.Readers = slices.DeleteFunc(c.Readers, func(r Reader) bool { return now >= r.ExpiresMS })
		out.Evicted = before - len(c.Pushes) - len(c.Readers)
		if out.Evicted == 0 {
			return errUnchanged
		}
		return nil
	})
	return err
}

// Check reads snapshots of the mirror, all if none is named: the catalog and its chain, indexes and manifests, and
// every byte of every object, as a Pull would. It joins what is wrong, up to 16 things.
func (m *Mirror) Check(ctx context.Context, ids ...checkpoint.ID) error {
	c, err := m.Catalog(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range ids {
		if _, ok := c.Find(id); !ok {
			errs = append(errs, c.none(id))
		}
	}
	seen := map[string]bool{}
	for _, s := range c.Snapshots {
		if len(ids) > 0 && !slices.Contains(ids, s.ID) {
			continue
		}
		m.mu.Lock()
		delete(m.indexes, s.Key) // what is there now counts
		m.mu.Unlock()
		x, man, err := m.index(ctx, s)
		if err != nil {
			errs = append(errs, fmt.Errorf("snapshot %d: %w", s.ID, err))
			continue
		}
		for ref := range refs(man) {
			at := x.Objects[ref.Digest]
			if seen[at.Key] {
				continue
			}
			seen[at.Key] = true
			if err := m.checkObject(ctx, ref, at); err != nil {
				errs = append(errs, fmt.Errorf("snapshot %d: %s: %w", s.ID, ref.Where, err))
			}
			if len(errs) >= 16 || ctx.Err() != nil {
				return errors.Join(append(errs, ctx.Err())...)
			}
		}
	}
	return errors.Join(errs...)
}
