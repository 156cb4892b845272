//go:build !linux

package main

// prioritise does nothing where threads have no priority of their own to set.
func prioritise() (back func()) { return func() {} }
