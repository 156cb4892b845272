package snapstore

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"

	"github.com/millrace-io/millrace/checkpoint"
)

// head remembers what the manifests alone cannot: ids that were used by checkpoints that never became
// complete, and which manifest was the newest, so that its loss is seen.
type head struct {
	reserved checkpoint.ID // ids up to this one may have been used
	latest   checkpoint.ID // 0: none. May lag behind the manifests by a crash, never lead them.
	// void: snapshots with ids above latest up to this one were withdrawn. A restart does not go on from them.
	void checkpoint.ID
}

const (
	headText = "millrace head 2 reserved=%d latest=%d void=%d"
	// headText1 is what builds before savepoints wrote.
	headText1 = "millrace head 1 reserved=%d latest=%d"
	headSum   = " sha256=%x\n"
	// lostHeadSkip is how far ids jump when HEAD is gone: more than could have been reserved and unused.
	lostHeadSkip = 1000
	maxReserve   = lostHeadSkip
)

func (h head) encode() []byte {
	return sumHead(fmt.Appendf(nil, headText, h.reserved, h.latest, h.void))
}

func sumHead(text []byte) []byte { return fmt.Appendf(text, headSum, sha256.Sum256(text)) }

// readHead returns the zero head and fs.ErrNotExist if there is none.
func (s *Store) readHead() (head, error) {
	path := s.path("HEAD")
	data, err := s.readFile(path)
	if err != nil {
		return head{}, err
	}
	var h head
	if _, err := fmt.Sscanf(string(data), headText1, &h.reserved, &h.latest); err == nil &&
		string(sumHead(fmt.Appendf(nil, headText1, h.reserved, h.latest))) == string(data) {
		return h, nil
	}
	if _, err := fmt.Sscanf(string(data), headText, &h.reserved, &h.latest, &h.void); err != nil ||
		string(h.encode()) != string(data) {
		return head{}, &DamageError{Path: path, Problem: fmt.Errorf(
			"it does not fit its own checksum; without it ids skip ahead by %d, and a lost newest checkpoint "+
				"would not be noticed: remove it to accept that", lostHeadSkip)}
	}
	return h, nil
}

func (s *Store) loadHead() error {
	h, err := s.readHead()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // loadManifests makes up for it
	}
	if err != nil {
		return fmt.Errorf("snapshot store: %w", err)
	}
	s.head = h
	return nil
}

// Reserve returns the first of n ids that no checkpoint has had, complete or not, in this process or an
// earlier one. What is not used of them is lost at a restart. 0 < n <= 1000.
func (s *Store) Reserve(n int) (first checkpoint.ID, err error) {
	if s.readOnly {
		return 0, ErrReadOnly
	}
	if n < 1 || n > maxReserve {
		return 0, fmt.Errorf("reserve %d checkpoint ids: expected 1 to %d", n, maxReserve)
	}
	s.mu.Lock()
	first, s.reservedHere = s.head.reserved+1, true
	s.head.reserved += checkpoint.ID(n)
	s.mu.Unlock()
	if err := s.writeHead(); err != nil {
		return 0, fmt.Errorf("reserve checkpoint ids: %w", err)
	}
	return first, nil
}

// writeHead makes the head durable. Writers take turns, so the file never goes back.
func (s *Store) writeHead() error {
	s.headFile.Lock()
	defer s.headFile.Unlock()
	s.mu.Lock()
	h := s.head
	s.mu.Unlock()
	_, err := s.publish("head", s.path("HEAD"), h.encode())
	return err
}
