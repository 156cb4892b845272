//go:build !linux

package file

func renameNew(from, to string) error { return renameChecked(from, to) }
