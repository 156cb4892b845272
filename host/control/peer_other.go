//go:build !linux && !darwin && !freebsd

package control

func peerOfSocket(int) peer { return peer{} }
