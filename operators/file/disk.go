package file

import (
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/millrace-io/millrace/operators"
)

// disk is what the sink does to the file system; tests put faults between.
type disk interface {
	// openAt opens a file for writing, made if it is not there, cut or refused so that it has size bytes.
	openAt(path string, size int64) (writeFile, error)
	// rename fails with fs.ErrExist if there is something at to.
	rename(from, to string) error
	remove(path string) error
	mkdir(path string) error
	syncDir(path string) error
	list(path string) ([]string, error)
	// stat does not follow a symbolic link.
	stat(path string) (os.FileInfo, error)
}

type writeFile interface {
	io.Writer
	Sync() error
	Close() error
}

type osDisk struct{}

func (osDisk) openAt(path string, size int64) (writeFile, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	if err := f.Truncate(size); err == nil {
		_, err = f.Seek(size, io.SeekStart)
		if err == nil {
			return f, nil
		}
	}
	f.Close()
	return nil, err
}

func (osDisk) rename(from, to string) error          { return renameNew(from, to) }
func (osDisk) remove(path string) error              { return os.Remove(path) }
func (osDisk) mkdir(path string) error               { return os.MkdirAll(path, 0o755) }
func (osDisk) stat(path string) (os.FileInfo, error) { return os.Lstat(path) }

func (osDisk) syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

func (osDisk) list(path string) ([]string, error) {
	entries, err := os.ReadDir(path)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// stageDir is where output for target is staged: the job's own stage folder, or, as renaming does not
// cross file systems, a hidden folder inside target.
func stageDir(ctx *operators.Context, target string) (string, error) {
	if err := os.MkdirAll(ctx.StageDir, 0o755); err != nil {
		return "", operators.DiskError(err)
	}
	a, aerr := device(ctx.StageDir)
	b, berr := device(target)
	if aerr == nil && berr == nil && a == b {
		return ctx.StageDir, nil
	}
	hidden := filepath.Join(target, ".millrace-"+ctx.Job+"-"+ctx.Operator)
	return hidden, operators.DiskError(os.MkdirAll(hidden, 0o755))
}

func device(path string) (uint64, error) {
	var st syscall.Stat_t
	err := syscall.Stat(path, &st)
	return uint64(st.Dev), err // Dev is signed on some systems
}
