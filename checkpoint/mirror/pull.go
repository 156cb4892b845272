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
	defer local.Hold()()
	s, release, err := m.read(ctx, id)
	if err != nil {
		return Pulled{}, fmt.Errorf("pull snapshot %d: %w", id, err)
	}
	defer release()
	out, err := m.pull(ctx, local, s, renumber)
	if err != nil {
		return Pulled{}, fmt.Errorf("pull snapshot %d: %w", id, err)
	}
	return out, nil
}

func (m *Mirror) pull(ctx context.Context, local *snapstore.Store, s Snapshot, renumber bool) (Pulled, error) {
	x, man, err := m.index(ctx, s)
	if err != nil {
		return Pulled{}, err
	}
	var out Pulled
	for ref := range refs(man) {
		if local.Has(ref.Digest, ref.Size) {
			out.Had++
			continue
		}
		at := x.Objects[ref.Digest]
		if err := m.fetch(ctx, local, ref, at); err != nil {
			return Pulled{}, fmt.Errorf("%s: %w", ref.Where, err)
		}
		out.Objects++
		out.Bytes += at.Size
		m.o.Crash("K20")
	}
	out.ID, err = local.Insert(ctx, x.Manifest, renumber)
	return out, err
}

func (m *Mirror) fetch(ctx context.Context, local *snapstore.Store, ref checkpoint.ObjectRef, at stored) error {
	c := m.context(at.Task, at.Sequence, ref.Digest)
	return m.decode(ctx, at.Key, at.Size, at.SHA256, c, func(r io.Reader) error {
		return local.AddStream(ctx, r, ref.Digest, ref.Size, most(ref.Size))
	})
}

// read enters a reader of a snapshot into the catalog.
func (m *Mirror) read(ctx context.Context, id checkpoint.ID) (s Snapshot, release func(), err error) {
	if _, err := m.Catalog(ctx); err != nil { // a mirror that was rolled back is not written to
		return s, nil, err
	}
	reader, err := m.newID()
	if err != nil {
		return s, nil, err
	}
	_, err = m.log.change(ctx, func(c *Catalog) error {
		var ok bool
		if s, ok = c.Find(id); !ok {
			return ErrNoSnapshot
		}
		if slices.ContainsFunc(c.Readers, func(r Reader) bool { return r.ID == reader }) {
			return errUnchanged
		}
		c.Readers = append(c.Readers, Reader{ID: reader, Snapshot: id, ExpiresMS: m.o.NowMS() + leaseMS})
		return nil
	})
	if err != nil {
		return s, nil, err
	}
	return s, func() {
		// A courtesy: the entry expires by itself.
		_, _ = m.log.change(context.WithoutCancel(ctx), func(c *Catalog) error {
			before := len(c.Readers)
			c.Readers = slices.DeleteFunc(c.Readers, func(r Reader) bool { return r.ID == reader })
			if len(c.Readers) == before {
				return errUnchanged
			}
			return nil
		})
	}, nil
}
