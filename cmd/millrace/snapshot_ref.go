package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
)

// leastPrefix is how many hex digits of a digest name a snapshot at least.
const leastPrefix = 4

// resolve finds the snapshot that a word names: an id, a tag, latest, or the beginning of its manifest's
// SHA-256. The error names what is near.
func resolve(s *snapstore.Store, word string) (checkpoint.ID, error) {
	infos, err := s.List()
	if err != nil {
		return 0, storeError(err)
	}
	if word == "latest" {
		id, err := s.Resolve(word)
		return id, storeError(err)
	}
	for _, i := range infos {
		if strconv.FormatUint(uint64(i.ID), 10) == word || slices.Contains(i.Tags, word) {
			return i.ID, nil
		}
	}
	var begins []string
	var found checkpoint.ID
	for _, i := range infos {
		if len(word) >= leastPrefix && strings.HasPrefix(i.SHA256, word) {
			found = i.ID
			begins = append(begins, fmt.Sprint(i.ID))
		}
	}
	switch len(begins) {
	case 1:
		return found, nil
	case 0:
		return 0, refused(fmt.Errorf("there is no snapshot %s in %s%s", word, s.Dir(), nearest(word, infos)))
	}
	return 0, refused(fmt.Errorf("%s begins the digests of snapshots %s: give more of it", word, strings.Join(begins, ", ")))
}

// nearest says which ids and tags are near a word that names nothing.
func nearest(word string, infos []snapstore.Info) string {
	if len(infos) == 0 {
		return ": it has none"
	}
	if n, err := strconv.ParseUint(word, 10, 64); err == nil {
		near := slices.Clone(infos)
		away := func(i snapstore.Info) uint64 { return max(uint64(i.ID), n) - min(uint64(i.ID), n) }
		slices.SortStableFunc(near, func(a, b snapstore.Info) int { return cmp.Compare(away(a), away(b)) })
		near = near[:min(3, len(near))]
		slices.SortFunc(near, func(a, b snapstore.Info) int { return cmp.Compare(a.ID, b.ID) })
		var ids []string
		for _, i := range near {
			ids = append(ids, fmt.Sprint(i.ID))
		}
		return "; nearest are " + strings.Join(ids, ", ")
	}
	tags := []string{"latest"}
	for _, i := range infos {
		tags = append(tags, i.Tags...)
	}
	if hint := didYouMean(word, tags); hint != "" {
		return hint
	}
	slices.Sort(tags)
	return fmt.Sprintf("; its ids are %d to %d, its tags %s", infos[0].ID, infos[len(infos)-1].ID, strings.Join(tags, ", "))
}

// refWords says what a command's ID may be.
const refWords = "ID is a number, a tag, latest, or the beginning of a digest."
