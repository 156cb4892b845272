package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Two jobs that publish into one folder must not replace each other's files.
func TestPublishingReplacesNothing(t *testing.T) {
	for name, rename := range map[string]func(from, to string) error{"renameNew": renameNew, "renameChecked": renameChecked} {
		dir := t.TempDir()
		from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
		for path, text := range map[string]string{from: "mine", to: "theirs"} {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := rename(from, to); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: %v", name, err)
		}
		if b, _ := os.ReadFile(to); string(b) != "theirs" {
			t.Errorf("%s: replaced", name)
		}
		if err := rename(from, filepath.Join(dir, "new")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
