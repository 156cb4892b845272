//go:build !linux

package main

// lowPriority does nothing where threads have no priority of their own.
func lowPriority() {}
