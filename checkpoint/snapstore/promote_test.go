package snapstore_test

import (
	"errors"
	"testing"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
)

// What a restart would go on from becomes a savepoint with the same contents, from which it goes on then, and
// which outlives the checkpoint it was made of.
func TestPromote(t *testing.T) {
	stores(t, func(t *testing.T, fs snapstore.FS, dir string) {
		s := open(t, fs, dir)
		defer s.Close()
		if _, err := s.Promote(ctx, 1); !errors.Is(err, snapstore.ErrNoCheckpoint) {
			t.Errorf("of nothing: %v", err)
		}
		first, err := s.Reserve(1)
		if err != nil {
			t.Fatal(err)
		}
		complete(t, s, manifest(first, put(t, s, "state")))
		id, err := s.Promote(ctx, 77)
		if err != nil {
			t.Fatal(err)
		}
		m, err := s.Latest(ctx)
		if err != nil || m.ID != id || m.Kind != checkpoint.KindSavepoint || m.Parent != first || m.CreatedMS != 77 || m.StoredBytes != 0 {
			t.Errorf("%+v, %v", m, err)
		}
		if d, err := s.Diff(ctx, first, id); err != nil || len(d.Added)+len(d.Removed)+len(d.Operators) != 0 {
			t.Errorf("it differs: %+v, %v", d, err)
		}
		if _, err := s.DeleteSnapshot(ctx, first); err != nil {
			t.Error(err)
		}
		if err := s.Verify(ctx, id, true); err != nil {
			t.Error(err)
		}
		for tag, want := range map[string]error{"free": nil, "taken": snapstore.ErrTagTaken, "12": snapstore.ErrBadTag} {
			if tag == "taken" {
				if err := s.Tag(id, tag, false); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.TagFree(tag); !errors.Is(err, want) {
				t.Errorf("tag %s: %v, want %v", tag, err, want)
			}
		}
	})
}
