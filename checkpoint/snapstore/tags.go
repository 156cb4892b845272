package snapstore

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/millrace-io/millrace/checkpoint"
)

// Errors of tags and references.
var (
	// ErrTagTaken: another snapshot has the tag.
	ErrTagTaken = errors.New("the tag is taken")
	// ErrBadTag: it could not be told from an id, or holds other characters.
	ErrBadTag = errors.New("not a tag")
	// ErrNoTag: no snapshot has the tag.
	ErrNoTag = errors.New("no snapshot has this tag")
)

// Limits of what is said of snapshots.
const (
	maxTag  = 64
	maxNote = 4096 // bytes
)

// latestRef is the reference to the snapshot that a restart goes on from.
const latestRef = "latest"

// Tag gives a snapshot a name. A tagged snapshot does not expire, also where it is a checkpoint. move takes
// the tag from the snapshot that has it. Errors: ErrBadTag; ErrTagTaken; ErrNoCheckpoint.
func (s *Store) Tag(id checkpoint.ID, tag string, move bool) error {
	if err := checkTag(tag); err != nil {
		return err
	}
	// A retention must not drop it between the check and the entry.
	s.names.Lock()
	defer s.names.Unlock()
	if _, err := s.Load(id); err != nil {
		return err
	}
	return s.changeRegistry(func(r registry) error {
		for other, e := range r.Snapshots {
			if other == id || !slices.Contains(e.Tags, tag) {
				continue
			}
			if !move {
				return fmt.Errorf("%w: %q is on snapshot %d", ErrTagTaken, tag, other)
			}
			e.Tags = slices.DeleteFunc(slices.Clone(e.Tags), func(t string) bool { return t == tag })
			r.Snapshots[other] = e
		}
		e := r.Snapshots[id]
		if !slices.Contains(e.Tags, tag) {
			e.Tags = append(slices.Clone(e.Tags), tag)
			slices.Sort(e.Tags)
		}
		r.Snapshots[id] = e
		return nil
	})
}

// Untag takes a tag away from the snapshot that has it, and says which. A checkpoint without tags expires
// again. Errors: ErrNoTag.
func (s *Store) Untag(tag string) (had checkpoint.ID, err error) {
	err = s.changeRegistry(func(r registry) error {
		for id, e := range r.Snapshots {
			if slices.Contains(e.Tags, tag) {
				had = id
				e.Tags = slices.DeleteFunc(slices.Clone(e.Tags), func(t string) bool { return t == tag })
				r.Snapshots[id] = e
				return nil
			}
		}
		return fmt.Errorf("%w: %q", ErrNoTag, tag)
	})
	return had, err
}

// Note replaces what is written down about a snapshot, at most 4096 bytes of UTF-8; empty takes it away. A
// note alone does not keep a checkpoint from expiring.
func (s *Store) Note(id checkpoint.ID, text string) error {
	if len(text) > maxNote || !utf8.ValidString(text) {
		return fmt.Errorf("note of snapshot %d: %d bytes, expected at most %d of UTF-8", id, len(text), maxNote)
	}
	s.names.Lock()
	defer s.names.Unlock()
	if _, err := s.Load(id); err != nil {
		return err
	}
	return s.changeRegistry(func(r registry) error {
		e := r.Snapshots[id]
		e.Note = text
		r.Snapshots[id] = e
		return nil
	})
}

// Resolve finds a snapshot by what people write: its id, a tag, or "latest" for the one a restart goes on
// from. Errors: ErrNoCheckpoint, ErrNoTag with the tags there are.
func (s *Store) Resolve(ref string) (checkpoint.ID, error) {
	if ref == latestRef {
		return s.newest()
	}
	if id, err := strconv.ParseUint(ref, 10, 64); err == nil {
		_, err := s.Load(checkpoint.ID(id))
		return checkpoint.ID(id), err
	}
	r, err := s.said()
	if err != nil {
		return 0, err
	}
	var all []string
	for id, e := range r.Snapshots {
		if slices.Contains(e.Tags, ref) {
			return id, nil
		}
		all = append(all, e.Tags...)
	}
	slices.Sort(all)
	if len(all) == 0 {
		return 0, fmt.Errorf("%w: %q, no snapshot has any; expected an id, or %q", ErrNoTag, ref, latestRef)
	}
	return 0, fmt.Errorf("%w: %q; tags are %s", ErrNoTag, ref, strings.Join(all, ", "))
}

func checkTag(tag string) error {
	digits := true
	for _, c := range []byte(tag) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		digit := c >= '0' && c <= '9'
		if !letter && !digit && c != '-' && c != '_' && c != '.' {
			return fmt.Errorf("%w: %q, expected letters, digits, '-', '_' and '.'", ErrBadTag, tag)
		}
		digits = digits && digit
	}
	if tag == "" || digits || len(tag) > maxTag || tag == latestRef || tag[0] == '-' || tag[0] == '.' {
		return fmt.Errorf("%w: %q, expected 1 to %d characters, not all digits, not %q, no '-' or '.' first", ErrBadTag, tag, maxTag, latestRef)
	}
	return nil
}
