package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

const (
	folder     = "control" // in the state folder, of its user alone
	socketName = "control.sock"
	// maxPath is what every system takes as the path of a socket, bytes: 104 with a final zero on some.
	maxPath = 103
)

// Path is the control socket of a state folder.
func Path(stateDir string) string { return filepath.Join(stateDir, folder, socketName) }

// socket is a listening control socket.
type socket struct {
	listener *net.UnixListener
	path     string
	info     os.FileInfo // of the file at path
}

// listen makes the socket under another name, closes it to others and only then gives it its name, in place
// of whatever is there: no one ever sees one that is half made, and a dead process's is replaced at once.
func listen(stateDir string) (*socket, error) {
	dir := filepath.Join(stateDir, folder)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, err
	}
	made := filepath.Join(dir, socketName+".new")
	if err := os.Remove(made); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	s := &socket{path: Path(stateDir)}
	err := shortened(made, func(short string) (err error) {
		s.listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
		return err
	})
	if err != nil {
		return nil, err
	}
	s.listener.SetUnlinkOnClose(false)
	if err := s.publish(made); err != nil {
		return nil, errors.Join(err, s.listener.Close(), os.Remove(made))
	}
	return s, nil
}

func (s *socket) publish(made string) (err error) {
	if err = os.Chmod(made, 0o600); err != nil {
		return err
	}
	if s.info, err = os.Lstat(made); err != nil {
		return err
	}
	return os.Rename(made, s.path)
}

// remove takes the name away, unless another process has it by now.
func (s *socket) remove() error {
	info, err := os.Lstat(s.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(info, s.info) {
		return nil
	}
	return errors.Join(err, os.Remove(s.path))
}

// connect connects to the socket of a state folder and makes sure that this user listens there.
func connect(ctx context.Context, stateDir string) (net.Conn, error) {
	var conn net.Conn
	path := Path(stateDir)
	err := shortened(path, func(short string) (err error) {
		var d net.Dialer
		conn, err = d.DialContext(ctx, "unix", short)
		return err
	})
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return nil, fmt.Errorf("%w: there is no %s", ErrNotRunning, path)
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("%w (%s)", ErrStale, path)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%w: %s is not open to user %d", ErrNotPermitted, path, self())
	case err != nil:
		return nil, fmt.Errorf("control socket %s: %w", path, err)
	}
	if p := peerOf(conn); !p.permitted() {
		conn.Close()
		return nil, fmt.Errorf("%w: user %d listens at %s, this is user %d", ErrNotPermitted, p.uid, path, self())
	}
	return conn, nil
}

// shortened calls use with a path to the same place that is short enough for a socket. Where the path is too
// long it leads through a link in a private temporary folder, which is needed only during the call.
func shortened(path string, use func(short string) error) error {
	if len(path) <= maxPath {
		return use(path)
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return err
	}
	for _, base := range []string{os.TempDir(), "/tmp"} {
		tmp, err := os.MkdirTemp(base, "millrace-")
		if err != nil {
			return err
		}
		short := filepath.Join(tmp, "d", filepath.Base(path))
		if len(short) > maxPath {
			if err := os.Remove(tmp); err != nil {
				return err
			}
			continue
		}
		if err := os.Symlink(dir, filepath.Join(tmp, "d")); err != nil {
			return errors.Join(err, os.Remove(tmp))
		}
		err = use(short)
		return errors.Join(err, os.Remove(filepath.Join(tmp, "d")), os.Remove(tmp))
	}
	return fmt.Errorf("%s is longer than a socket's path may be, and so is %s", path, os.TempDir())
}
