package main

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// left are folders that a build does not read.
var left = map[string]bool{".git": true, ".millrace": true, ".build": true, ".task": true, "bin": true, "target": true, "docs": true, "tmp": true}

// copyTree copies what is needed to build millrace.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		dst := filepath.Join(to, rel)
		switch {
		case d.IsDir() && rel != "." && left[d.Name()]:
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(dst, 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		return copyFile(p, dst)
	})
}

func copyFile(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(dst, src); err != nil {
		dst.Close()
		return err
	}
	return dst.Close()
}
