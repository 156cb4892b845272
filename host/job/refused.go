package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/millrace-io/millrace/checkpoint"
)

// Refused is a module that was taken out again after an upgrade. Starts with it are refused, so that the
// pipeline file, which names it, does not bring it back unasked.
type Refused struct {
	Digest     string        `json:"digest"`
	Operator   string        `json:"operator"`
	Checkpoint checkpoint.ID `json:"checkpoint"` // at whose barrier it had taken over
	Reason     string        `json:"reason"`
}

// ErrRefusedModule: a module failed right after an upgrade and was taken out.
var ErrRefusedModule = errors.New("the module was taken out after an upgrade")

const refusedFile = "refused.json"

// RefusedModules lists what a state folder remembers.
func RefusedModules(stateDir string) ([]Refused, error) {
	b, err := os.ReadFile(filepath.Join(stateDir, refusedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var rs []Refused
	if err := json.Unmarshal(b, &rs); err != nil {
		return nil, fmt.Errorf("%s: %w; remove it to forget which modules failed", filepath.Join(stateDir, refusedFile), err)
	}
	return rs, nil
}

// refuseModules remembers the new modules of a trial that failed.
func (j *Job) refuseModules(t *trial, err error) error {
	rs, rerr := RefusedModules(j.opts.StateDir)
	if rerr != nil {
		return rerr
	}
	for digest, operator := range t.fresh {
		rs = slices.DeleteFunc(rs, func(r Refused) bool { return r.Digest == digest })
		rs = append(rs, Refused{Digest: digest, Operator: operator, Checkpoint: t.after, Reason: err.Error()})
	}
	return writeRefused(j.opts.StateDir, rs)
}

func writeRefused(dir string, rs []Refused) error {
	b, err := json.MarshalIndent(rs, "", "  ")
	if err != nil {
		return err
	}
	tmp := filepath.Join(dir, refusedFile+".tmp")
	if err := os.WriteFile(tmp, append(b, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(dir, refusedFile))
}

// checkRefused refuses modules that failed after an upgrade. retry forgets those that are to run.
func (v *Revision) checkRefused(dir string, retry bool) error {
	rs, err := RefusedModules(dir)
	if err != nil {
		return err
	}
	rest := slices.Clone(rs)
	for _, n := range v.Graph.Nodes {
		m := v.Modules[n.ID]
		if m == nil {
			continue
		}
		i := slices.IndexFunc(rs, func(r Refused) bool { return r.Digest == m.Digest() })
		if i < 0 {
			continue
		}
		if !retry {
			return fmt.Errorf("operator %q: %w: module %.12s (%s) had taken over at checkpoint %d and failed: %s; build another one, or name the one before it in the pipeline file, or say --retry-refused",
				n.ID, ErrRefusedModule, m.Digest(), n.Guest.Module, rs[i].Checkpoint, rs[i].Reason)
		}
		rest = slices.DeleteFunc(rest, func(r Refused) bool { return r.Digest == m.Digest() })
	}
	if len(rest) == len(rs) {
		return nil
	}
	return writeRefused(dir, rest)
}
