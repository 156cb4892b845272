package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/millrace-io/millrace/checkpoint"
)

// pendingRestore says in the state folder where the next run is to start: that withdraws snapshots and output
// in one go, as Options.Restore does.
type pendingRestore struct {
	Restore checkpoint.ID `json:"restore"`
}

func pendingPath(stateDir string) string { return filepath.Join(stateDir, "restore.json") }

// PendingRestore is the snapshot that the next run is to start from, 0: the newest.
func PendingRestore(stateDir string) (checkpoint.ID, error) {
	data, err := os.ReadFile(pendingPath(stateDir))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var p pendingRestore
	if err := json.Unmarshal(data, &p); err != nil {
		return 0, fmt.Errorf("%s: %w", pendingPath(stateDir), err)
	}
	return p.Restore, nil
}

// SetPendingRestore decides where the next run starts; 0: from the newest. The caller has the lock of the
// snapshot store.
func SetPendingRestore(stateDir string, id checkpoint.ID) error {
	path := pendingPath(stateDir)
	if id == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	data, err := json.Marshal(pendingRestore{id})
	if err != nil {
		return err
	}
	fresh := path + ".new"
	f, err := os.Create(fresh)
	if err != nil {
		return err
	}
	_, err = f.Write(append(data, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(fresh))
	}
	return os.Rename(fresh, path)
}

// takePending lets this run start where an earlier request said, unless its own options say something else.
func (j *Job) takePending() error {
	if j.opts.Restore != 0 || j.opts.Fresh {
		return nil
	}
	id, err := PendingRestore(j.opts.StateDir)
	j.opts.Restore, j.restore = id, id
	return err
}

// settlePending says that it has started there.
func (j *Job) settlePending() {
	if err := SetPendingRestore(j.opts.StateDir, 0); err != nil {
		j.warn("the next run will start from the same snapshot again: " + err.Error())
	}
}
