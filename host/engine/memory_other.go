//go:build !unix

package engine

func reserve(n int) ([]byte, error) { return make([]byte, n), nil }

func commit([]byte) error { return nil }

func zero(b []byte) error {
	clear(b)
	return nil
}

func unreserve([]byte) {}
