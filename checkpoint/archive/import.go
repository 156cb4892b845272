package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/seal"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
)

// Limits of what is read from a file that somebody else may have made.
const (
	windowBytes  = 8 << 20
	maxManifest  = 64 << 20
	maxUnknown   = 16 << 20 // of an object whose size no manifest records: pipeline files
	sealedMagic  = "MRSEAL1\n"
	zstdMagic    = "\x28\xb5\x2f\xfd"
	maxNamedSize = 1 << 40
)

// ImportOptions say how an archive is imported.
type ImportOptions struct {
	Sealing
	Renumber bool // give it a new id where its own is taken
	// CheckInput reads the input behind the snapshot, if there is one, while it is stored; nil: it is not looked into.
	CheckInput func(r io.Reader) error
}

// Import adds the snapshot of an archive to a store, kept like a savepoint: see Store.Insert, with which its
// manifest comes last, after every byte of the file was checked. What a failed or killed import leaves are
// objects that the next sweep removes. Errors: ErrNotArchive; ErrSealed; ErrDamaged and snapstore.ErrDamaged
// with what is wrong; those of seal.Open and Store.Insert.
func Import(ctx context.Context, r io.Reader, s *snapstore.Store, o ImportOptions) (checkpoint.ID, error) {
	defer s.Hold()()
	start, r, err := peek(r, 16<<10)
	if err != nil {
		return 0, err
	}
	switch {
	case bytes.HasPrefix(start, []byte(zstdMagic)):
		in, err := read(ctx, newBody(r), s, o.CheckInput)
		if err != nil {
			return 0, err
		}
		return in.insert(ctx, s, o)
	case bytes.HasPrefix(start, []byte(sealedMagic)):
		return importSealed(ctx, start, r, s, o)
	}
	return 0, fmt.Errorf("%w: it begins with %.8q", ErrNotArchive, start)
}

// importSealed opens a sealed archive on the way. Its header says of which job and snapshot it is; that has to
// be what the manifest says.
func importSealed(ctx context.Context, start []byte, r io.Reader, s *snapstore.Store, o ImportOptions) (checkpoint.ID, error) {
	keyID, claims, err := seal.Peek(bytes.NewReader(start))
	if err != nil {
		return 0, err
	}
	if len(o.Keys) == 0 {
		return 0, fmt.Errorf("%w: with key %s, for tenant %q", ErrSealed, keyID, claims.Tenant)
	}
	plain, inner := io.Pipe()
	done := make(chan error, 1)
	go func() {
		want := seal.Context{Tenant: o.Tenant, Job: claims.Job, Sequence: claims.Sequence, Name: "archive"}
		err := seal.Open(inner, r, o.Keys, want)
		inner.CloseWithError(err)
		done <- err
	}()
	in, err := read(ctx, newBody(plain), s, o.CheckInput)
	plain.CloseWithError(errors.New("the import ended"))
	if sealErr := <-done; sealErr != nil && err == nil {
		err = errors.Join(sealErr, in.drop(s))
	}
	if err != nil {
		return 0, err
	}
	m, err := checkpoint.Decode(in.manifest)
	if err != nil {
		return 0, errors.Join(err, in.drop(s))
	}
	if m.Job != claims.Job || uint64(m.ID) != claims.Sequence {
		err := fmt.Errorf("%w: sealed as snapshot %d of %q, it holds %d of %q", ErrDamaged, claims.Sequence, claims.Job, m.ID, m.Job)
		return 0, errors.Join(err, in.drop(s))
	}
	return in.insert(ctx, s, o)
}

// incoming is an archive that was read whole.
type incoming struct {
	manifest []byte
	input    *snapstore.StagedInput // nil: none
}

// insert adds the snapshot, then what followed it.
func (in *incoming) insert(ctx context.Context, s *snapstore.Store, o ImportOptions) (checkpoint.ID, error) {
	id, err := s.Insert(ctx, in.manifest, o.Renumber)
	if err != nil {
		return 0, errors.Join(err, in.drop(s))
	}
	if in.input == nil {
		return id, nil
	}
	return id, s.KeepInput(in.input, id)
}

func (in *incoming) drop(s *snapstore.Store) error {
	if in.input == nil {
		return nil
	}
	return s.DropInput(in.input)
}

// read stores the objects and returns the manifest once every byte was read and checked.
func read(ctx context.Context, b *body, s *snapstore.Store, check func(io.Reader) error) (in incoming, err error) {
	z, err := zstd.NewReader(&oneFrame{from: b}, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(windowBytes), zstd.WithDecoderLowmem(true))
	if err != nil {
		return in, err
	}
	defer z.Close()
	in.manifest, err = entries(ctx, tar.NewReader(z), s)
	if err == nil {
		// What follows the archive's end: padding, then the end of the file.
		_, err = io.Copy(io.Discard, io.LimitReader(z, 1<<20))
	}
	if err == nil {
		in.input, err = stageInput(ctx, b, s, check)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, b)
	}
	if err == nil {
		return in, nil
	}
	err = errors.Join(err, in.drop(s))
	// Whatever it met first: when the file is not what was exported, that is the reason.
	if _, rest := io.Copy(io.Discard, b); errors.Is(rest, ErrDamaged) && !errors.Is(err, ErrDamaged) {
		err = fmt.Errorf("%w; %w", rest, err)
	}
	if errors.Is(err, zstd.ErrMagicMismatch) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, zstd.ErrCRCMismatch) || errors.Is(err, tar.ErrHeader) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return in, err
}

// stageInput stores what is behind the snapshot, nil if nothing is.
func stageInput(ctx context.Context, b *body, s *snapstore.Store, check func(io.Reader) error) (*snapstore.StagedInput, error) {
	r := &frameReader{from: b}
	start, rest, err := peek(r, 1)
	if err != nil || len(start) == 0 && !r.any {
		return nil, err
	}
	return s.StageInput(ctx, func(w io.Writer) error {
		tee := io.TeeReader(rest, w)
		if check != nil {
			if err := check(tee); err != nil {
				return err
			}
		}
		_, err := io.Copy(io.Discard, tee)
		return err
	})
}

// entries stores the objects of an archive: exactly those that its manifest names, in order.
func entries(ctx context.Context, t *tar.Reader, s *snapstore.Store) ([]byte, error) {
	head, err := t.Next()
	if err != nil {
		return nil, err
	}
	if head.Name != manifestName || head.Size > maxManifest {
		return nil, fmt.Errorf("%w: it begins with %q of %d bytes, expected %s", ErrNotArchive, head.Name, head.Size, manifestName)
	}
	file, err := io.ReadAll(io.LimitReader(t, maxManifest))
	if err != nil {
		return nil, err
	}
	m, err := checkpoint.Decode(file)
	if err != nil {
		return nil, err
	}
	missing := map[string]int64{}
	for ref := range m.Objects() {
		if known, ok := missing[ref.Digest]; !ok || known == checkpoint.SizeUnknown {
			missing[ref.Digest] = ref.Size
		}
	}
	for {
		head, err := t.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		digest, ok := strings.CutPrefix(head.Name, "objects/")
		size, named := missing[digest]
		if !ok || !named {
			return nil, fmt.Errorf("%w: %q is no object that its manifest names, or is in it twice", ErrDamaged, head.Name)
		}
		most := size
		if size == checkpoint.SizeUnknown {
			most = maxUnknown
		}
		if most > maxNamedSize {
			return nil, fmt.Errorf("%w: object %s of %d bytes", ErrDamaged, digest, size)
		}
		if err := s.AddStream(ctx, t, digest, size, most); err != nil {
			return nil, err
		}
		delete(missing, digest)
	}
	for digest := range missing {
		return nil, fmt.Errorf("%w: %d objects that its manifest names are not in it, such as %s", ErrDamaged, len(missing), digest)
	}
	return file, nil
}
