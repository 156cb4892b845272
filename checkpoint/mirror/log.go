package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/objectstore"
)

// epochGenerations is how many generations an epoch has. Generations of the current epoch and the one before
// it are kept, and a marker per epoch for ever, so that the newest generation is found by reading keys alone:
// lists may lag, and a lagging list would lead back.
const epochGenerations = 256

// catalogs is the log of a mirror's catalog.
type catalogs struct {
	store    objectstore.Store
	tenant   string
	job      string
	signer   checkpoint.Signer
	verifier checkpoint.Verifier
	nonce    func() (string, error)

	mu   sync.Mutex
	last uint64 // newest generation seen
}

func generationKey(g uint64) string { return fmt.Sprintf("catalog/%016d", g) }
func epochKey(e uint64) string      { return fmt.Sprintf("epochs/%012d", e) }

// read returns the newest generation; an empty catalog of generation 0 in a new mirror.
func (l *catalogs) read(ctx context.Context) (c *Catalog, file []byte, err error) {
	l.mu.Lock()
	g := l.last
	l.mu.Unlock()
	if g == 0 {
		if g, err = l.find(ctx); err != nil {
			return nil, nil, err
		}
		// The one before it is there too: so that the chain is checked from it on.
		g = max(g, 1) - 1
	}
	c = &Catalog{Format: catalogFormat, Tenant: l.tenant, Job: l.job}
	if g > 0 {
		if c, file, err = l.get(ctx, g); err != nil {
			if errors.Is(err, objectstore.ErrNotFound) { // so old that it was trimmed, or lost
				return l.again(ctx, g)
			}
			return nil, nil, err
		}
	}
	for {
		next, data, err := l.get(ctx, c.Generation+1)
		if errors.Is(err, objectstore.ErrNotFound) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		if file != nil && next.Previous != sha256Hex(file) {
			return nil, nil, &DamageError{Key: generationKey(next.Generation), Problem: fmt.Errorf(
				"it follows a generation with SHA-256 %s, the one before it has %s", next.Previous, sha256Hex(file))}
		}
		c, file = next, data
	}
	l.mu.Lock()
	l.last = max(l.last, c.Generation)
	l.mu.Unlock()
	return c, file, nil
}

// again looks for the newest generation without what was remembered.
func (l *catalogs) again(ctx context.Context, g uint64) (*Catalog, []byte, error) {
	found, err := l.find(ctx)
	if err != nil {
		return nil, nil, err
	}
	if found <= g {
		return nil, nil, &DamageError{Key: generationKey(g), Problem: fmt.Errorf("%w, and it was there: the mirror was rolled back, the newest generation is %d",
			objectstore.ErrNotFound, found)}
	}
	l.mu.Lock()
	l.last = found
	l.mu.Unlock()
	return l.read(ctx)
}

// find looks for the newest generation: the newest epoch, then the newest generation in it.
func (l *catalogs) find(ctx context.Context) (uint64, error) {
	epoch, err := newest(0, func(e uint64) (bool, error) { return l.there(ctx, epochKey(e)) })
	if err != nil || epoch == 0 {
		return 0, err
	}
	// Epoch e begins with generation (e-1)*epochGenerations+1. Its marker comes before that one.
	first := (epoch-1)*epochGenerations + 1
	ok, err := l.there(ctx, generationKey(first))
	if err != nil {
		return 0, err
	}
	if !ok {
		return first - 1, nil
	}
	return newest(first, func(g uint64) (bool, error) { return l.there(ctx, generationKey(g)) })
}

// newest finds the last of consecutive numbers that are there, given one that is (0 always is).
func newest(from uint64, there func(uint64) (bool, error)) (uint64, error) {
	step := uint64(1)
	for {
		ok, err := there(from + step)
		if err != nil {
			return 0, err
		}
		if !ok {
			break
		}
		from += step
		step *= 2
	}
	for step > 1 {
		step /= 2
		ok, err := there(from + step)
		if err != nil {
			return 0, err
		}
		if ok {
			from += step
		}
	}
	return from, nil
}

func (l *catalogs) there(ctx context.Context, key string) (bool, error) {
	r, err := l.store.Get(ctx, key)
	if errors.Is(err, objectstore.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, r.Close()
}

// maxCatalog limits what is read of a file that somebody else may have put there.
const maxCatalog = 16 << 20

func (l *catalogs) get(ctx context.Context, g uint64) (*Catalog, []byte, error) {
	data, err := readAll(ctx, l.store, generationKey(g), maxCatalog)
	if err != nil {
		return nil, nil, err
	}
	c, err := decodeCatalog(data, Catalog{Tenant: l.tenant, Job: l.job, Generation: g}, l.verifier)
	if err == nil {
		err = c.chain()
	}
	if errors.Is(err, ErrOtherJob) {
		return nil, nil, fmt.Errorf("%s: %w", generationKey(g), err)
	}
	if err != nil {
		return nil, nil, &DamageError{Key: generationKey(g), Problem: err}
	}
	return c, data, nil
}

// readAll reads a small object, twice where its body breaks off.
func readAll(ctx context.Context, s objectstore.Store, key string, most int64) ([]byte, error) {
	for tries := 1; ; tries++ {
		r, err := s.Get(ctx, key)
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(io.LimitReader(r, most+1))
		r.Close()
		if err == nil && int64(len(data)) > most {
			return nil, &DamageError{Key: key, Problem: fmt.Errorf("it has more than %d bytes", most)}
		}
		if err == nil || ctx.Err() != nil || tries == bodyTries {
			return data, err
		}
	}
}

// bodyTries is how often a download begins anew whose body breaks off.
const bodyTries = 5

// errUnchanged lets a change say that nothing has to be written.
var errUnchanged = errors.New("unchanged")

// change writes a new generation. f changes a copy of the newest one, and is called again where somebody else
// was faster. An error of f ends it; errUnchanged without one. After another error it is not known whether the
// generation is there, which is safe: everything it names is there.
func (l *catalogs) change(ctx context.Context, f func(*Catalog) error) (*Catalog, error) {
	nonce, err := l.nonce()
	if err != nil {
		return nil, err
	}
	for {
		old, file, err := l.read(ctx)
		if err != nil {
			return nil, err
		}
		c := old.clone()
		if old.signed && l.signer == nil {
			return nil, fmt.Errorf("%s is signed, and there is no key to sign the next one with: %w", generationKey(old.Generation), ErrKeys)
		}
		if err := f(c); errors.Is(err, errUnchanged) {
			return old, nil
		} else if err != nil {
			return nil, err
		}
		c.Generation, c.Nonce, c.Previous = old.Generation+1, nonce, ""
		if file != nil {
			c.Previous = sha256Hex(file)
		}
		data, err := c.encode(l.signer)
		if err != nil {
			return nil, err
		}
		if old.Generation%epochGenerations == 0 {
			key := epochKey(old.Generation/epochGenerations + 1)
			if err := l.begin(ctx, key); err != nil {
				return nil, err
			}
		}
		err = l.store.Put(ctx, generationKey(c.Generation), bytes.NewReader(data), int64(len(data)), true)
		if err == nil {
			return c, nil
		}
		// Whose it is says whether an earlier attempt of this very call had succeeded.
		theirs, _, rerr := l.get(ctx, c.Generation)
		switch {
		case rerr == nil && theirs.Nonce == nonce:
			return theirs, nil
		case rerr == nil, errors.Is(rerr, objectstore.ErrNotFound) && errors.Is(err, objectstore.ErrExists):
			continue
		case errors.Is(err, objectstore.ErrExists):
			return nil, rerr
		}
		return nil, err
	}
}

// begin puts the marker of an epoch, and looks whether the store keeps it from being put twice.
func (l *catalogs) begin(ctx context.Context, key string) error {
	for range 2 {
		err := l.store.Put(ctx, key, strings.NewReader("\n"), 1, true)
		if errors.Is(err, objectstore.ErrExists) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("%s: %w", key, ErrConditional)
}

// trim removes generations of epochs before the last but one.
func (l *catalogs) trim(ctx context.Context, newest uint64) error {
	epoch := (newest + epochGenerations - 1) / epochGenerations
	if epoch < 3 {
		return nil
	}
	list, err := l.store.List(ctx, "catalog/")
	if err != nil {
		return err
	}
	keep := generationKey((epoch-2)*epochGenerations + 1)
	for _, e := range list {
		if e.Key < keep {
			if err := l.store.Delete(ctx, e.Key); err != nil {
				return err
			}
		}
	}
	return nil
}
