package memimage

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"github.com/millrace-io/millrace/state"
)

// contents is what a pack gets: pages that were captured, held in chunks, so that nothing is copied twice while
// the instance waits, then pages that older packs have, which are copied beside it.
type contents struct {
	chunks [][]byte
	pages  int // in chunks
	moved  []moved
	from   []*pack
}

// moved is a page of another pack; its hash has to be what it was.
type moved struct {
	ref
	n    int // in the image
	hash Hash
}

const (
	chunkPages  = 256
	spareChunks = 8 // that are kept for the next cut
)

// spare is memory of the cut before, which is written.
func (k *Keeper) spare() [][]byte {
	if k.last == nil {
		return nil
	}
	s := k.last.spare
	k.last.spare = nil
	clear(s[min(len(s), spareChunks):])
	return s[:min(len(s), spareChunks)]
}

func (c *contents) add(b []byte) {
	at := c.pages % chunkPages * PageBytes
	if c.pages/chunkPages == len(c.chunks) {
		c.chunks = append(c.chunks, make([]byte, chunkPages*PageBytes))
	}
	copy(c.chunks[c.pages/chunkPages][at:at+PageBytes], b)
	c.pages++
}

// takeOver appends every page that refs has in older packs, and makes refs those of a first pack with all.
func (c *contents) takeOver(refs []ref, packs []*pack, hashes []Hash) {
	c.from = packs
	for n, r := range refs {
		switch {
		case r.pack == noPack:
		case int(r.pack) == len(packs):
			refs[n].pack = 0
		default:
			refs[n] = ref{0, uint32(c.pages + len(c.moved))}
			c.moved = append(c.moved, moved{r, n, hashes[n]})
		}
	}
}

// write writes all pages back to back. It may take as long as it takes.
func (c *contents) write(ctx context.Context, cfg Config, w io.Writer) error {
	for left, i := c.pages, 0; left > 0; left, i = left-chunkPages, i+1 {
		if _, err := w.Write(c.chunks[i][:min(left, chunkPages)*PageBytes]); err != nil {
			return err
		}
	}
	if len(c.moved) == 0 {
		return nil
	}
	to := bufio.NewWriterSize(w, 64*PageBytes)
	maps := make([]state.Mapping, len(c.from))
	defer func() {
		for _, m := range maps {
			if m != nil {
				m.Close() // only read
			}
		}
	}()
	for _, m := range c.moved {
		p := c.from[m.pack]
		if maps[m.pack] == nil {
			path := p.path
			if path == "" {
				var err error
				if path, err = cfg.Objects.Path(ctx, p.file.Object); err != nil {
					return err
				}
			}
			var err error
			if maps[m.pack], err = cfg.FS.Map(path); err != nil {
				return state.StorageError("map", path, err)
			}
		}
		from, at := maps[m.pack].Bytes(), int(m.place)*PageBytes
		if at+PageBytes > len(from) || HashOf(from[at:at+PageBytes], cfg.Seed) != m.hash {
			return fmt.Errorf("%w: object %s, bytes %d to %d: page %d of a memory image is not what was captured", state.ErrCorrupt, p.file.Object, at, at+PageBytes, m.n)
		}
		if _, err := to.Write(from[at : at+PageBytes]); err != nil {
			return err
		}
	}
	return to.Flush()
}
