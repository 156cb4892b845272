// Package storechange has what people may change in a snapshot store as data, so that a process that does not
// have the store's lock can ask the one that has.
package storechange

import (
	"context"
	"errors"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/archive"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
)

// Change is one change: one field is set.
type Change struct {
	Tag    *Tag          `json:"tag,omitempty"`
	Untag  string        `json:"untag,omitempty"` // the tag
	Note   *Note         `json:"note,omitempty"`
	Delete checkpoint.ID `json:"delete,omitempty"`
	Prune  *Prune        `json:"prune,omitempty"`
	Import *Import       `json:"import,omitempty"`
}

// Tag names a snapshot.
type Tag struct {
	ID   checkpoint.ID `json:"id"`
	Tag  string        `json:"tag"`
	Move bool          `json:"move,omitempty"` // take it from the snapshot that has it
}

// Note replaces what is written down about a snapshot.
type Note struct {
	ID   checkpoint.ID `json:"id"`
	Text string        `json:"text"` // empty: none any more
}

// Prune removes snapshots by a policy; Dry only says which.
type Prune struct {
	Policy snapstore.Policy `json:"policy"`
	Dry    bool             `json:"dry,omitempty"`
}

// Import adds the snapshot of an archive.
type Import struct {
	Path     string `json:"path"`               // absolute
	Renumber bool   `json:"renumber,omitempty"` // give it a new id where its own is taken
}

// Changed says what came of it.
type Changed struct {
	ID      checkpoint.ID   `json:"id,omitempty"`      // of the snapshot it was about
	Removed []checkpoint.ID `json:"removed,omitempty"` // oldest first
	Objects int             `json:"objects,omitempty"` // removed
	Bytes   int64           `json:"bytes,omitempty"`   // of them
}

var errEmpty = errors.New("a change of the snapshot store that changes nothing")

// Apply makes a change to a store that this process has open for writing. Errors: those of the store's methods
// and of archive.ImportFile.
func Apply(ctx context.Context, s *snapstore.Store, c Change) (Changed, error) {
	switch {
	case c.Tag != nil:
		return Changed{ID: c.Tag.ID}, s.Tag(c.Tag.ID, c.Tag.Tag, c.Tag.Move)
	case c.Untag != "":
		id, err := s.Untag(c.Untag)
		return Changed{ID: id}, err
	case c.Note != nil:
		return Changed{ID: c.Note.ID}, s.Note(c.Note.ID, c.Note.Text)
	case c.Delete != 0:
		sw, err := s.DeleteSnapshot(ctx, c.Delete)
		return Changed{ID: c.Delete, Removed: sw.Manifests, Objects: sw.Objects, Bytes: sw.Bytes}, err
	case c.Prune != nil:
		p, err := s.Prune(ctx, c.Prune.Policy, c.Prune.Dry)
		out := Changed{Objects: p.Objects, Bytes: p.Bytes}
		for _, i := range p.Snapshots {
			out.Removed = append(out.Removed, i.ID)
		}
		return out, err
	case c.Import != nil:
		id, err := archive.ImportFile(ctx, snapstore.Disk{}, c.Import.Path, s, archive.ImportOptions{Renumber: c.Import.Renumber})
		return Changed{ID: id}, err
	}
	return Changed{}, errEmpty
}
