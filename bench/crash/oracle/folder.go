package oracle

import (
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// CheckFolder holds the committed files of a folder against in. Only files with the suffix .ndjson
// count; hidden ones and those in hidden folders are staged or foreign. Names are ordered with numbers
// by value, so that part-2 comes before part-10.
func CheckFolder(in *Input, dir string) (*Verdict, error) {
	files, err := Committed(dir)
	if err != nil {
		return nil, err
	}
	c := New(in)
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		c.File(filepath.Base(f), data)
	}
	return c.Verdict(), nil
}

// Committed lists the committed files of a folder in the order of their names.
func Committed(dir string) (files []string, err error) {
	err = filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case strings.HasPrefix(d.Name(), ".") && p != dir:
			if d.IsDir() {
				return filepath.SkipDir
			}
		case !d.IsDir() && strings.HasSuffix(p, ".ndjson"):
			files = append(files, p)
		}
		return nil
	})
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	sort.Slice(files, func(i, j int) bool { return naturalLess(files[i], files[j]) })
	return files, nil
}

// naturalLess compares runs of digits by their value and everything else by bytes.
func naturalLess(a, b string) bool {
	for a != "" && b != "" {
		da, db := digits(a), digits(b)
		if da > 0 && db > 0 {
			x, y := strings.TrimLeft(a[:da], "0"), strings.TrimLeft(b[:db], "0")
			if len(x) != len(y) {
				return len(x) < len(y)
			}
			if x != y {
				return x < y
			}
			a, b = a[da:], b[db:]
			continue
		}
		if a[0] != b[0] {
			return a[0] < b[0]
		}
		a, b = a[1:], b[1:]
	}
	return len(a) < len(b)
}

func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}
