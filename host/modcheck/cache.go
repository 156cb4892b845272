package modcheck

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/millrace-io/millrace/host/engine"
	"github.com/millrace-io/millrace/operators"
)

// Cache keeps which functions were checked, in a folder; the empty one keeps nothing. It is beside the compiled code,
// and like that belongs to one user. Whoever can write to it can let code in.
type Cache string

// CacheIn is the cache beside the compiled code in dir; "": none.
func CacheIn(dir string) Cache {
	if dir == "" {
		return ""
	}
	return Cache(filepath.Join(dir, "checked"))
}

// verdict is what a cache file says of a function that was tried and let in.
type verdict struct {
	Function string `json:"function"`
}

// file is that of a function of a module, of this version of the check and the engine.
func (c Cache) file(digest string, g *operators.GuestNode) string {
	fn, err := json.Marshal([]any{Version, engine.Version, digest, g.Fn, g.Input, g.Clock})
	if err != nil {
		panic(fmt.Sprintf("modcheck: function %s: %v", g.Function, err))
	}
	sum := sha256.Sum256(fn)
	return filepath.Join(string(c), hex.EncodeToString(sum[:16])+".json")
}

// passed says that the function was tried and let in before. A file that can't be read counts as none.
func (c Cache) passed(digest string, g *operators.GuestNode) bool {
	if c == "" {
		return false
	}
	b, err := os.ReadFile(c.file(digest, g))
	var v verdict
	return err == nil && json.Unmarshal(b, &v) == nil && v.Function == g.Fn.Name
}

// keep notes that the function was tried and let in.
func (c Cache) keep(digest string, g *operators.GuestNode) error {
	if c == "" {
		return nil
	}
	b, err := json.Marshal(verdict{g.Fn.Name})
	if err == nil {
		err = os.MkdirAll(string(c), 0o700)
	}
	if err != nil {
		return fmt.Errorf("note that a module was checked: %w", err)
	}
	tmp, err := os.CreateTemp(string(c), ".new-")
	if err == nil {
		_, err = tmp.Write(b)
		err = errors.Join(err, tmp.Close())
	}
	if err == nil {
		err = os.Rename(tmp.Name(), c.file(digest, g))
	}
	if err != nil && !errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("note that a module was checked: %w", err)
	}
	return nil
}
