package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/seal"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
)

const manifestName = "manifest.json"

// Export writes snapshot id of a store to w. A lease keeps it from being removed meanwhile, so that the store
// may be open for reading only, beside its running job. What was written before an error cannot be imported.
// Errors: those of Store.Load; *snapstore.DamageError for an object that is not what its name says.
func Export(ctx context.Context, w io.Writer, s *snapstore.Store, id checkpoint.ID, sealing Sealing) error {
	return ExportInput(ctx, w, s, id, sealing, nil)
}

// ExportInput is Export with the input that follows the snapshot; nil: without.
func ExportInput(ctx context.Context, w io.Writer, s *snapstore.Store, id checkpoint.ID, sealing Sealing, input Input) error {
	lease, err := s.Lease("export", id)
	if err != nil {
		return err
	}
	defer lease.Release()
	m, err := checkpoint.Decode(lease.File(id))
	if err != nil {
		return err
	}
	if len(sealing.Keys) == 0 {
		return write(ctx, w, s, m, lease, input)
	}
	r, inner := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := write(ctx, inner, s, m, lease, input)
		inner.CloseWithError(err)
		done <- err
	}()
	err = seal.Seal(w, r, sealing.Keys[0], sealContext(sealing, m.Job, id), sealing.Random)
	r.CloseWithError(err)
	return errors.Join(<-done, err)
}

func sealContext(s Sealing, job string, id checkpoint.ID) seal.Context {
	return seal.Context{Tenant: s.Tenant, Job: job, Sequence: uint64(id), Name: "archive"}
}

func write(ctx context.Context, w io.Writer, s *snapstore.Store, m *checkpoint.Manifest, lease *snapstore.Lease, input Input) error {
	file := lease.File(m.ID)
	h := sha256.New()
	// One goroutine and a fixed level: the bytes must not depend on the machine.
	z, err := zstd.NewWriter(io.MultiWriter(w, h), zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault),
		zstd.WithWindowSize(windowBytes))
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	if err := entry(t, manifestName, int64(len(file)), func() error { _, err := t.Write(file); return err }); err != nil {
		return err
	}
	digests := map[string]bool{}
	for ref := range m.Objects() {
		digests[ref.Digest] = true
	}
	for _, digest := range slices.Sorted(maps.Keys(digests)) {
		if err := errors.Join(ctx.Err(), lease.Keep()); err != nil {
			return err
		}
		r, size, err := s.Reader(ctx, digest)
		if err != nil {
			return err
		}
		r.Close()
		err = entry(t, "objects/"+digest, size, func() error { return s.CopyTo(ctx, t, digest) })
		if err != nil {
			return err
		}
	}
	if err := errors.Join(t.Close(), z.Close(), lease.Keep()); err != nil {
		return err
	}
	if input != nil {
		if err := input(ctx, frameWriter{io.MultiWriter(w, h)}); err != nil {
			return err
		}
	}
	_, err = w.Write(end(h))
	return err
}

func entry(t *tar.Writer, name string, size int64, fill func() error) error {
	if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644}); err != nil {
		return err
	}
	return fill()
}

// ExportFile is Export into a file that is there whole or not at all: it is written beside its place, made
// durable and renamed. Errors: fs.ErrExist if there is a file already.
func ExportFile(ctx context.Context, disk snapstore.FS, path string, s *snapstore.Store, id checkpoint.ID, sealing Sealing) error {
	return ExportInputFile(ctx, disk, path, s, id, sealing, nil)
}

// ExportInputFile is ExportInput into a file, as ExportFile.
func ExportInputFile(ctx context.Context, disk snapstore.FS, path string, s *snapstore.Store, id checkpoint.ID, sealing Sealing, input Input) error {
	if _, err := disk.Stat(path); err == nil {
		return fmt.Errorf("export to %s: %w", path, fs.ErrExist)
	}
	part := path + ".part"
	f, err := disk.Create(part)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	err = ExportInput(ctx, f, s, id, sealing, input)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = disk.Rename(part, path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("export to %s: %w", path, err), disk.Remove(part))
	}
	return disk.SyncDir(filepath.Dir(path))
}

// ImportFile is Import from a file.
func ImportFile(ctx context.Context, disk snapstore.FS, path string, s *snapstore.Store, o ImportOptions) (checkpoint.ID, error) {
	f, err := disk.Open(path)
	if err != nil {
		return 0, fmt.Errorf("import: %w", err)
	}
	defer f.Close()
	id, err := Import(ctx, f, s, o)
	if err != nil {
		return 0, fmt.Errorf("import %s: %w", path, err)
	}
	return id, nil
}

// peek returns what a stream begins with, and the stream from its beginning.
func peek(r io.Reader, n int) ([]byte, io.Reader, error) {
	b := make([]byte, n)
	got, err := io.ReadFull(r, b)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, nil, err
	}
	return b[:got], io.MultiReader(bytes.NewReader(b[:got]), r), nil
}
