//go:build darwin || freebsd

package control

import "golang.org/x/sys/unix"

func peerOfSocket(fd int) peer {
	c, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return peer{uid: -1, known: true}
	}
	return peer{uid: int(c.Uid), known: true}
}
