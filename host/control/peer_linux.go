package control

import "syscall"

func peerOfSocket(fd int) peer {
	c, err := syscall.GetsockoptUcred(fd, syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	if err != nil {
		return peer{uid: -1, known: true}
	}
	return peer{uid: int(c.Uid), known: true}
}
