package replay

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/host/clock"
	"github.com/millrace-io/millrace/operators"
)

// scratchPrefix begins the names of the folders of replays: the pid of their process follows.
const scratchPrefix = "replay-"

// NewScratch makes a folder below dir for a run beside a job, and removes those that processes which are gone have
// left there.
func NewScratch(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		pid := 0
		if n, _ := fmt.Sscanf(e.Name(), scratchPrefix+"%d-", &pid); n != 1 || !e.IsDir() || runs(pid) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return os.MkdirTemp(dir, fmt.Sprintf("%s%d-", scratchPrefix, os.Getpid()))
}

// runs says whether a process is there.
func runs(pid int) bool {
	if pid <= 0 {
		return false
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	err = p.Signal(syscall.Signal(0))
	return err == nil || errors.Is(err, syscall.EPERM)
}

// fork makes a store in dir/snapshots that has one snapshot of from, without the parts of sinks: what they had staged
// is the first job's.
func fork(ctx context.Context, from *snapstore.Store, id checkpoint.ID, dir string, g *operators.Graph) (*checkpoint.Manifest, error) {
	s, err := openStore(dir)
	if err != nil {
		return nil, err
	}
	m, err := s.ForkWith(ctx, from, id, func(m *checkpoint.Manifest) {
		m.Finished = false // it is to run, if only to find that there is no more
		for i := range m.Tasks {
			t := &m.Tasks[i]
			t.Operators = slices.DeleteFunc(t.Operators, func(o checkpoint.OperatorSnapshot) bool { return isSink(g, o.Operator) })
		}
	})
	return m, errors.Join(err, s.Close())
}

func openStore(dir string) (*snapstore.Store, error) {
	return snapstore.Open(filepath.Join(dir, "snapshots"), snapstore.Options{NowMS: clock.Wall{}.NowMS})
}

// isSink says that an operator is a sink, or was one that the pipeline no longer has.
func isSink(g *operators.Graph, id string) bool {
	i := slices.IndexFunc(g.Nodes, func(n *operators.Node) bool { return n.ID == id })
	return i >= 0 && g.Nodes[i].Sink != nil
}

// cleaned is an error without the paths of a folder that is gone when somebody reads it.
func cleaned(err error, scratch string) error {
	if err == nil || !strings.Contains(err.Error(), scratch) {
		return err
	}
	return &scratchError{err, scratch}
}

type scratchError struct {
	err     error
	scratch string
}

func (e *scratchError) Error() string {
	return strings.ReplaceAll(e.err.Error(), e.scratch, "(the fork)")
}

func (e *scratchError) Unwrap() error { return e.err }
