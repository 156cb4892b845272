package memimage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/millrace-io/millrace/state"
)

// Config is what a keeper needs.
type Config struct {
	Dir     string // scratch, emptied
	FS      state.FS
	Objects state.Objects
	Seed    uint64 // of a fresh start; a restored image brings its own
}

// Capture hands each page that is not as in prev (nil: not all zero) to page, and says what all is.
type Capture func(seed uint64, prev *Image, page func(n int, b []byte) error) (*Image, error)

// Keeper writes the images of one instance. It belongs to the task's goroutine; only the writing of a cut
// goes on beside it.
type Keeper struct {
	cfg   Config
	img   *Image // as of the last cut; nil: none, or one whose files are not sure
	refs  []ref  // of its pages
	packs []*pack
	local []*pack // with a local copy
	last  *Cut
	count int
}

// pack is a file of pages. Until a snapshot with it is complete the store may forget it, so that its local
// copy is added anew with each cut.
type pack struct {
	file  File
	path  string // local copy; empty: there is none
	sure  bool   // it is in a complete snapshot
	pages int
}

// New makes a keeper without an image, and empties its folder: files there may be those of the store too, by
// another name, and must not be written to.
func New(cfg Config) (*Keeper, error) {
	if cfg.FS == nil {
		cfg.FS = state.OS{}
	}
	if err := cfg.FS.RemoveAll(cfg.Dir); err != nil {
		return nil, state.StorageError("empty", cfg.Dir, err)
	}
	if err := cfg.FS.MkdirAll(cfg.Dir); err != nil {
		return nil, state.StorageError("make", cfg.Dir, err)
	}
	return &Keeper{cfg: cfg}, nil
}

// Cut is a cut that is being written.
type Cut struct {
	done  chan struct{}
	snap  Snapshot
	err   error
	packs []*pack
	spare [][]byte // memory for a later one
}

// Done is closed when Result is there.
func (c *Cut) Done() <-chan struct{} { return c.done }

// Result is the snapshot, or why it could not be written. Only after Done.
func (c *Cut) Result() (Snapshot, error) { return c.snap, c.err }

// All pages in use go into one pack when the packs have so many times as many, or there are too many of them.
const (
	mostWaste = 2
	mostPacks = 128
)

// Cut captures and begins to write. The previous cut must be done.
func (k *Keeper) Cut(ctx context.Context, capture Capture) (*Cut, error) {
	if k.last != nil && k.last.err != nil { // its pages may be nowhere
		k.img = nil
	}
	if k.img == nil {
		k.packs, k.refs = nil, nil
	}
	anew := k.wasteful()
	if err := k.tidy(); err != nil {
		return nil, err
	}
	fresh, number := &pack{}, uint32(len(k.packs))
	buf := contents{chunks: k.spare()}
	var pages []int
	img, err := capture(k.cfg.Seed, k.img, func(n int, b []byte) error {
		buf.add(b)
		pages = append(pages, n)
		return nil
	})
	if err != nil {
		k.img = nil
		return nil, err
	}
	refs := make([]ref, len(img.Pages))
	for i := range refs {
		refs[i] = ref{noPack, 0}
	}
	copy(refs, k.refs)
	none := ZeroHash(k.cfg.Seed)
	for i, n := range pages {
		refs[n] = ref{number, uint32(i)}
	}
	for n, h := range img.Pages {
		if h == none { // also where it was another page before
			refs[n] = ref{noPack, 0}
		}
	}
	if anew {
		buf.takeOver(refs, k.packs, img.Pages)
		k.packs = nil
	}
	k.count++
	if fresh.pages = buf.pages + len(buf.moved); fresh.pages > 0 {
		fresh.path = filepath.Join(k.cfg.Dir, fmt.Sprintf("pages-%d", k.count))
		k.packs, k.local = append(k.packs, fresh), append(k.local, fresh)
	}
	k.img, k.refs = img, refs
	c := &Cut{done: make(chan struct{}), packs: append([]*pack(nil), k.packs...), spare: buf.chunks}
	k.last = c
	var add []*pack
	for _, p := range c.packs {
		if !p.sure {
			add = append(add, p)
		}
	}
	t := &table{seed: k.cfg.Seed, img: img, refs: refs, packs: len(c.packs)}
	go func(name int) {
		defer close(c.done)
		if c.err = k.add(ctx, fresh, &buf, add); c.err == nil {
			c.snap, c.err = k.write(ctx, name, t, c.packs)
		}
	}(k.count)
	return c, nil
}

// tidy removes local copies that nothing needs any more.
func (k *Keeper) tidy() error {
	kept := k.local[:0]
	for _, p := range k.local {
		if !p.sure && slices.Contains(k.packs, p) {
			kept = append(kept, p)
			continue
		}
		if err := k.cfg.FS.Remove(p.path); err != nil && !errors.Is(err, fs.ErrNotExist) { // a failed cut left none
			return state.StorageError("remove", p.path, err)
		}
		p.path = ""
	}
	clear(k.local[len(kept):])
	k.local = kept
	return nil
}

// add writes the pages of a cut, and adds all packs to the store that it may not keep otherwise.
func (k *Keeper) add(ctx context.Context, fresh *pack, buf *contents, packs []*pack) error {
	if fresh.pages > 0 {
		if err := k.file(fresh.path, func(w io.Writer) error { return buf.write(ctx, k.cfg, w) }); err != nil {
			return err
		}
	}
	for _, p := range packs {
		var err error
		if p.file.Object, p.file.Size, err = k.cfg.Objects.AddFile(ctx, p.path); err != nil {
			return err
		}
	}
	return nil
}

// wasteful says that one new pack of all pages in use is better than to go on.
func (k *Keeper) wasteful() bool {
	if k.img == nil {
		return false
	}
	used, stored := 0, 0
	for _, r := range k.refs {
		if r.pack != noPack {
			used++
		}
	}
	for _, p := range k.packs {
		stored += p.pages
	}
	return len(k.packs) >= mostPacks || stored > mostWaste*used+mostPacks
}

// write makes the table of a cut, whose packs are in the store.
func (k *Keeper) write(ctx context.Context, name int, t *table, packs []*pack) (Snapshot, error) {
	snap := Snapshot{Module: t.img.Module, Packs: []File{}}
	for _, p := range packs {
		snap.Packs = append(snap.Packs, p.file)
	}
	path := filepath.Join(k.cfg.Dir, fmt.Sprintf("table-%d", name))
	if err := k.file(path, func(w io.Writer) error {
		_, err := w.Write(t.encode())
		return err
	}); err != nil {
		return snap, err
	}
	var err error
	if snap.Table.Object, snap.Table.Size, err = k.cfg.Objects.AddFile(ctx, path); err != nil {
		return snap, err
	}
	return snap, state.StorageError("remove", path, k.cfg.FS.Remove(path))
}

func (k *Keeper) file(path string, write func(io.Writer) error) error {
	f, err := k.cfg.FS.Create(path)
	if err != nil {
		return state.StorageError("create", path, err)
	}
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	return state.StorageError("write", path, err)
}

// Committed says that a cut is part of a complete checkpoint: the store keeps its files.
func (k *Keeper) Committed(c *Cut) {
	for _, p := range c.packs {
		p.sure = true
	}
}

// Adopter gets an image, and a function that fills in the pages it asks for.
type Adopter func(seed uint64, img *Image, page func(n int, b []byte) error) error

// Restore takes over a snapshot.
func (k *Keeper) Restore(ctx context.Context, s Snapshot, adopt Adopter) error {
	t, err := k.cfg.read(ctx, s, adopt)
	if err != nil {
		return err
	}
	packs := make([]*pack, len(s.Packs))
	for i, f := range s.Packs {
		packs[i] = &pack{file: f, sure: true, pages: int(f.Size / PageBytes)}
	}
	k.img, k.refs, k.packs, k.cfg.Seed = t.img, t.refs, packs, t.seed
	return nil
}

// Read gives a snapshot to adopt, without a keeper for what comes behind it. Dir of cfg is not used.
func Read(ctx context.Context, cfg Config, s Snapshot, adopt Adopter) error {
	if cfg.FS == nil {
		cfg.FS = state.OS{}
	}
	_, err := cfg.read(ctx, s, adopt)
	return err
}

func (c *Config) read(ctx context.Context, s Snapshot, adopt Adopter) (*table, error) {
	t, err := c.readTable(ctx, s)
	if err != nil {
		return nil, err
	}
	maps := make([]state.Mapping, len(s.Packs))
	defer func() {
		for _, m := range maps {
			if m != nil {
				m.Close() // only read
			}
		}
	}()
	for i, f := range s.Packs {
		path, err := c.Objects.Path(ctx, f.Object)
		if err != nil {
			return nil, err
		}
		if maps[i], err = c.FS.Map(path); err != nil {
			return nil, state.StorageError("map", path, err)
		}
	}
	return t, adopt(t.seed, t.img, func(n int, b []byte) error { return t.page(s, maps, n, b) })
}

// page fills b with page n, and checks it.
func (t *table) page(s Snapshot, maps []state.Mapping, n int, b []byte) error {
	r := t.refs[n]
	if r.pack == noPack {
		return fmt.Errorf("%w: the table of memory image %s has no place for page %d", state.ErrCorrupt, s.Table.Object, n)
	}
	from := maps[r.pack].Bytes()
	at := int(r.place) * PageBytes
	if at+PageBytes > len(from) {
		return fmt.Errorf("%w: page %d should be at byte %d of object %s, which has %d", state.ErrCorrupt, n, at, s.Packs[r.pack].Object, len(from))
	}
	copy(b, from[at:])
	if HashOf(b, t.seed) != t.img.Pages[n] {
		return fmt.Errorf("%w: object %s, bytes %d to %d: page %d of a memory image is not what was captured", state.ErrCorrupt, s.Packs[r.pack].Object, at, at+PageBytes, n)
	}
	return nil
}

func (c *Config) readTable(ctx context.Context, s Snapshot) (*table, error) {
	path, err := c.Objects.Path(ctx, s.Table.Object)
	if err != nil {
		return nil, err
	}
	m, err := c.FS.Map(path)
	if err != nil {
		return nil, state.StorageError("map", path, err)
	}
	defer m.Close()
	if sum := sha256.Sum256(m.Bytes()); hex.EncodeToString(sum[:]) != s.Table.Object {
		return nil, fmt.Errorf("%w: object %s, the table of a memory image, is not what was written", state.ErrCorrupt, s.Table.Object)
	}
	t, err := decodeTable(m.Bytes())
	if err != nil {
		return nil, fmt.Errorf("%w: object %s: %w", state.ErrCorrupt, s.Table.Object, err)
	}
	if t.packs != len(s.Packs) {
		return nil, fmt.Errorf("%w: the table %s is of %d packs, the snapshot has %d", state.ErrCorrupt, s.Table.Object, t.packs, len(s.Packs))
	}
	return t, nil
}
