package control

import (
	"net"
	"os"
)

// peer is the user at the other end of a connection.
type peer struct {
	uid   int
	known bool // the system tells
}

// permitted says whether this process's user is at the other end. Where the system does not tell, the
// socket's mode and its folder's are all there is.
func (p peer) permitted() bool { return !p.known || p.uid == self() }

func self() int { return os.Geteuid() }

// peerOf asks the system who is at the other end.
func peerOf(c net.Conn) peer {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return peer{}
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return peer{uid: -1, known: true}
	}
	p := peer{uid: -1, known: true} // what can't be asked is no one
	if err := raw.Control(func(fd uintptr) { p = peerOfSocket(int(fd)) }); err != nil {
		return peer{uid: -1, known: true}
	}
	return p
}
