//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package snapstore

import (
	"errors"
	"io"
)

// lockFile refuses: two writers of one store would destroy it, and this system has no lock that ends
// with its process.
func lockFile(path string) (io.Closer, error) {
	return nil, errors.New("lock " + path + ": snapshot stores need flock, which this system does not have")
}
