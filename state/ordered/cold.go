package ordered

import (
	"path/filepath"

	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/coldpebble"
)

// coldEnv is where a part spills to (nil: nowhere), and what it must close of it.
func coldEnv(cfg state.PartConfig, shared *coldpebble.Env) (env, own *coldpebble.Env) {
	switch {
	case !cfg.Cold:
		return nil, nil
	case shared != nil:
		return shared, nil
	}
	own = coldpebble.New(filepath.Join(cfg.Dir, "cold"), coldpebble.Options{CacheBytes: 8 << 20, MemTableBytes: 1 << 20, Log: cfg.Log})
	return own, own
}
