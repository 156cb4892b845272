package snapstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/millrace-io/millrace/checkpoint"
)

// ErrLeaseLost: the lease ran out before the work was done, so that a sweep may have come between.
var ErrLeaseLost = errors.New("the lease on the snapshot ran out")

// leaseMS is how long a lease holds without being renewed. A process that died loses its leases at once
// where its death can be seen, else after this.
const leaseMS = 10 * 60 * 1000

// Lease keeps a snapshot and its objects from being removed by the process that writes to the store, while
// this one reads them. It is a file in leases/ with the reader's pid and an expiry.
type Lease struct {
	s    *Store
	path string
	text leaseFile
	// files are the manifests as they were when the lease was taken: a removal that had begun just before may
	// still take those away, and spares the objects.
	files map[checkpoint.ID][]byte
}

// File is the manifest file of a snapshot of the lease.
func (l *Lease) File(id checkpoint.ID) []byte { return l.files[id] }

type leaseFile struct {
	Format    int             `json:"format"`
	Host      string          `json:"host"`
	PID       int             `json:"pid"`
	ExpiresMS int64           `json:"expires_ms"` // since 1970; 0: with the process
	Purpose   string          `json:"purpose"`
	Snapshots []checkpoint.ID `json:"snapshots"`
	Objects   []string        `json:"objects"`
}

var leaseCount atomic.Uint64

// Lease takes a lease on snapshots for a purpose, to be read by people. It works on a store that is open for
// reading only, beside a running job. Errors: ErrNoCheckpoint if one is gone, and those of Load.
func (s *Store) Lease(purpose string, ids ...checkpoint.ID) (*Lease, error) {
	host, _ := os.Hostname()
	l := &Lease{s: s, files: map[checkpoint.ID][]byte{}, text: leaseFile{Format: 1, Host: host, PID: os.Getpid(), Purpose: purpose, Snapshots: ids}}
	l.path = s.path("leases", fmt.Sprintf("%d-%d.json", l.text.PID, leaseCount.Add(1)))
	for _, id := range ids {
		m, file, err := s.load1(id)
		if err != nil {
			return nil, err
		}
		l.files[id] = file
		for ref := range m.Objects() {
			l.text.Objects = append(l.text.Objects, ref.Digest)
		}
	}
	slices.Sort(l.text.Objects)
	l.text.Objects = slices.Compact(l.text.Objects)
	if err := s.fs.Mkdir(s.path("leases")); err != nil {
		return nil, fmt.Errorf("lease: %w", err)
	}
	if err := l.Renew(); err != nil {
		return nil, err
	}
	// The writer drops manifests first and looks for leases after that: what is still there now stays.
	for _, id := range ids {
		if _, err := s.Load(id); err != nil {
			return nil, errors.Join(err, l.Release())
		}
	}
	return l, nil
}

// Renew makes the lease hold for another ten minutes. Errors: ErrLeaseLost if it had run out.
func (l *Lease) Renew() error {
	if l.text.ExpiresMS != 0 && l.s.nowMS() >= l.text.ExpiresMS {
		return fmt.Errorf("%w: %s", ErrLeaseLost, l.path)
	}
	if l.s.now != nil {
		l.text.ExpiresMS = l.s.now() + leaseMS
	}
	data, err := json.Marshal(l.text)
	if err != nil {
		return err
	}
	// Not in tmp, which the writer empties when it opens the store. Its name need not survive a crash, but a
	// name without contents would stop all removal.
	fresh := l.path + ".new"
	f, err := l.s.fs.Create(fresh)
	if err != nil {
		return fmt.Errorf("lease: %w", err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = l.s.fs.Rename(fresh, l.path)
	}
	if err != nil {
		return fmt.Errorf("lease: %w", errors.Join(err, l.s.fs.Remove(fresh)))
	}
	return nil
}

// Keep renews the lease when half its time is over. To be called now and then during long work, and at its
// end. Errors: as Renew.
func (l *Lease) Keep() error {
	if l.text.ExpiresMS == 0 || l.s.now != nil && l.text.ExpiresMS-l.s.now() > leaseMS/2 {
		return nil
	}
	return l.Renew()
}

// Release ends the lease.
func (l *Lease) Release() error {
	err := l.s.fs.Remove(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// held is what the live leases of all processes keep.
type held struct {
	snapshots map[checkpoint.ID]string // purpose and pid, for messages
	objects   map[string]bool
}

// heldLeases reads the leases and removes dead ones. One that cannot be read keeps a sweep from beginning.
func (s *Store) heldLeases(ctx context.Context) (held, error) {
	h := held{map[checkpoint.ID]string{}, map[string]bool{}}
	list, err := s.fs.ReadDir(s.path("leases"))
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		return h, fmt.Errorf("leases: %w", err)
	}
	for _, e := range list {
		if err := ctx.Err(); err != nil {
			return h, err
		}
		if !strings.HasSuffix(e.Name, ".json") {
			s.dropHalfLease(e.Name)
			continue
		}
		if err := s.hold(&h, s.path("leases", e.Name)); err != nil {
			return h, err
		}
	}
	return h, nil
}

// dropHalfLease removes what a process left that died while it took a lease.
func (s *Store) dropHalfLease(name string) {
	var pid int
	if _, err := fmt.Sscanf(name, "%d-", &pid); err == nil && !s.alive(pid) {
		_ = s.fs.Remove(s.path("leases", name))
	}
}

func (s *Store) hold(h *held, path string) error {
	data, err := s.readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // released since it was listed
	}
	if err != nil {
		return &DamageError{Path: path, Problem: err}
	}
	var f leaseFile
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		return &DamageError{Path: path, Problem: fmt.Errorf("not a lease, so nothing is removed beside it; remove it when no process reads the store: %w", err)}
	}
	host, _ := os.Hostname()
	if f.ExpiresMS != 0 && s.now != nil && s.now() >= f.ExpiresMS || f.Host == host && !s.alive(f.PID) {
		if err := s.fs.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("leases: %w", err)
		}
		return nil
	}
	for _, id := range f.Snapshots {
		h.snapshots[id] = fmt.Sprintf("%s, process %d on %s", f.Purpose, f.PID, f.Host)
	}
	for _, d := range f.Objects {
		h.objects[d] = true
	}
	return nil
}

func (s *Store) nowMS() int64 {
	if s.now == nil {
		return 0
	}
	return s.now()
}
