package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/millrace-io/millrace/host/instrument"
)

// sealName is the file that holds the checksums of an entry's files.
const sealName = "seal.json"

// cacheEntry is the folder with the compiled code of one rewritten module. wazero fills it and reads it;
// it checks little, so an entry counts only if the seal fits every byte of it.
type cacheEntry struct {
	dir    string
	sealed map[string]string // file -> SHA-256, as found intact
}

// openCacheEntry finds the entry of a module for this engine and rewriter. One that is damaged, or that
// nobody sealed, is removed, so that the module is compiled anew.
func openCacheEntry(root, digest string, rewritten []byte) (*cacheEntry, error) {
	key := sha256.New()
	fmt.Fprintf(key, "%s\n%d\n%s\n", Version, instrument.RewriterVersion, digest)
	key.Write(rewritten)
	e := &cacheEntry{dir: filepath.Join(root, hex.EncodeToString(key.Sum(nil)))}
	sums, err := e.sums()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("engine: cache of compiled code: %w", err)
	}
	if len(sums) > 0 {
		if e.sealed = e.readSeal(); !sameSums(sums, e.sealed) {
			e.sealed = nil
			if err := os.RemoveAll(e.dir); err != nil {
				return nil, fmt.Errorf("engine: remove a damaged cache entry: %w", err)
			}
		}
	}
	if err := os.MkdirAll(e.dir, 0o700); err != nil {
		return nil, fmt.Errorf("engine: cache of compiled code: %w", err)
	}
	return e, nil
}

// seal records the checksums of what the compiler wrote.
func (e *cacheEntry) seal() error {
	sums, err := e.sums()
	if err != nil {
		return fmt.Errorf("engine: cache of compiled code: %w", err)
	}
	if sameSums(sums, e.sealed) {
		return nil
	}
	b, err := json.Marshal(sums)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(e.dir, "."+sealName)
	if err != nil {
		return fmt.Errorf("engine: seal a cache entry: %w", err)
	}
	_, err = tmp.Write(b)
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), filepath.Join(e.dir, sealName))
	}
	if err != nil {
		return fmt.Errorf("engine: seal a cache entry: %w", errors.Join(err, os.Remove(tmp.Name())))
	}
	return nil
}

func (e *cacheEntry) readSeal() map[string]string {
	b, err := os.ReadFile(filepath.Join(e.dir, sealName))
	if err != nil {
		return nil
	}
	var sums map[string]string
	if json.Unmarshal(b, &sums) != nil {
		return nil
	}
	return sums
}

// sums are the checksums of all files but the seal, by their path in the entry.
func (e *cacheEntry) sums() (map[string]string, error) {
	sums := map[string]string{}
	err := filepath.WalkDir(e.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(e.dir, path)
		if err != nil || rel == sealName {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		h := sha256.New()
		if _, err := io.Copy(h, f); err != nil {
			return err
		}
		sums[rel] = hex.EncodeToString(h.Sum(nil))
		return nil
	})
	return sums, err
}

func sameSums(a, b map[string]string) bool {
	if len(a) != len(b) || len(a) == 0 {
		return false
	}
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return true
}
