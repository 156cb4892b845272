package archive_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/millrace-io/millrace/checkpoint/archive"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/checkpoint/snapstore/faultfs"
)

// pieces is an input of so many writes, and all its bytes.
func pieces(n int) (archive.Input, []byte) {
	rng := rand.New(rand.NewPCG(uint64(n), 8))
	var all []byte
	var parts [][]byte
	for range n {
		p := make([]byte, rng.IntN(3000))
		for i := range p {
			p[i] = byte(rng.Uint32())
		}
		parts, all = append(parts, p), append(all, p...)
	}
	return func(_ context.Context, w io.Writer) error {
		for _, p := range parts {
			if _, err := w.Write(p); err != nil {
				return err
			}
		}
		return nil
	}, all
}

// TestInputTravelsWithItsSnapshot: it is stored beside it and goes with it; who knows nothing of it passes over it.
func TestInputTravelsWithItsSnapshot(t *testing.T) {
	for name, sealing := range map[string]archive.Sealing{"plain": {}, "sealed": sealing(t, "acme", 1)} {
		t.Run(name, func(t *testing.T) {
			mem := faultfs.New()
			s := open(t, mem, "/a")
			fill(t, s, 7, 10, 300_000, 0)
			input, want := pieces(40)
			var file bytes.Buffer
			if err := archive.ExportInput(ctx, &file, s, 7, sealing, input); err != nil {
				t.Fatal(err)
			}
			to := open(t, mem, "/b")
			fill(t, to, 9, 5)
			var seen []byte
			o := archive.ImportOptions{Sealing: sealing, CheckInput: func(r io.Reader) (err error) {
				seen, err = io.ReadAll(r)
				return err
			}}
			id, err := archive.Import(ctx, bytes.NewReader(file.Bytes()), to, o)
			if err != nil || id != 7 || !bytes.Equal(seen, want) {
				t.Fatalf("%d, %v; %d bytes were checked, expected %d", id, err, len(seen), len(want))
			}
			r, err := to.OpenInput(7)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) || !to.HasInput(7) {
				t.Errorf("%d bytes are kept, %v", len(got), err)
			}
			r.Close()
			if _, err := s.OpenInput(7); !errors.Is(err, snapstore.ErrNoInput) {
				t.Errorf("the store it comes from: %v", err)
			}
			if _, err := to.DeleteSnapshot(ctx, 7); err != nil || to.HasInput(7) {
				t.Errorf("it outlives its snapshot: %v", err)
			}
			if name == "sealed" {
				return
			}
			z, err := zstd.NewReader(&file)
			if err != nil {
				t.Fatal(err)
			}
			last := ""
			for r := tar.NewReader(z); ; {
				h, err := r.Next()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				last = h.Name
			}
			if rest, err := io.ReadAll(z); err != nil || !strings.HasPrefix(last, "objects/") || len(bytes.Trim(rest, "\x00")) > 0 {
				t.Errorf("other tools see %d bytes behind %s, %v", len(rest), last, err)
			}
		})
	}
}

// TestDamagedInputIsNotImported: whatever byte of it changes; who checks says what, and nothing is left.
func TestDamagedInputIsNotImported(t *testing.T) {
	mem := faultfs.New()
	s, to := open(t, mem, "/a"), open(t, mem, "/b")
	fill(t, s, 7, 10)
	input, want := pieces(6)
	var buf bytes.Buffer
	if err := archive.ExportInput(ctx, &buf, s, 7, archive.Sealing{}, input); err != nil {
		t.Fatal(err)
	}
	file := buf.Bytes()
	found := errors.New("piece 3 is broken")
	o := archive.ImportOptions{CheckInput: func(r io.Reader) error {
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) {
			return found
		}
		return nil
	}}
	named := 0
	for i := len(file) - len(want); i < len(file); i += 7 {
		bad := bytes.Clone(file)
		bad[i] ^= 4
		_, err := archive.Import(ctx, bytes.NewReader(bad), to, o)
		if !errors.Is(err, archive.ErrDamaged) {
			t.Fatalf("byte %d: %v", i, err)
		}
		if errors.Is(err, found) {
			named++
		}
		if _, err := archive.Import(ctx, bytes.NewReader(file[:i]), to, o); err == nil {
			t.Fatalf("cut to %d bytes: imported", i)
		}
	}
	if list, err := mem.ReadDir("/b/tmp"); named < 100 || err != nil || len(list) > 0 || to.HasInput(7) {
		t.Errorf("%d named; left: %v %v", named, list, err)
	}
}
