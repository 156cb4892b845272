//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package snapstore

// processAlive cannot tell on this system: leases run out by time.
func processAlive(int) bool { return true }
