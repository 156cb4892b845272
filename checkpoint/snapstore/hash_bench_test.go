package snapstore_test

import (
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkAddFile is the cost of taking over a run: hash, link, sync.
func BenchmarkAddFile(b *testing.B) {
	const size = 64 << 20
	dir := b.TempDir()
	s := open(b, nil, filepath.Join(dir, "store"))
	data := make([]byte, size)
	b.SetBytes(size)
	for i := range b.N {
		b.StopTimer()
		data[0], data[1] = byte(i), byte(i>>8)
		path := filepath.Join(dir, "run")
		os.Remove(path)
		if err := os.WriteFile(path, data, 0o644); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if _, _, err := s.AddFile(ctx, path); err != nil {
			b.Fatal(err)
		}
	}
}
