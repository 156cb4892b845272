// Command gen writes the table of sdk/README.md from sdk/parity.yaml. Run it from the repository's root:
//
//	go run ./sdk/gen
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"
)

const (
	begin = "<!-- made by go run ./sdk/gen from parity.yaml -->\n"
	end   = "<!-- end -->\n"
)

// group is a heading with its rows: concept, name in Rust, name in Go.
type group struct {
	Group string      `yaml:"group"`
	Rows  [][3]string `yaml:"rows"`
}

func main() {
	text, _, err := run(".")
	if err == nil {
		err = os.WriteFile("sdk/README.md", text, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(2)
	}
}

func parity(root string) (groups []group, err error) {
	b, err := os.ReadFile(filepath.Join(root, "sdk/parity.yaml"))
	if err != nil {
		return nil, err
	}
	return groups, yaml.Unmarshal(b, &groups)
}

// run returns the README as it should be, and as it is.
func run(root string) (want, got []byte, err error) {
	groups, err := parity(root)
	if err != nil {
		return nil, nil, err
	}
	got, err = os.ReadFile(filepath.Join(root, "sdk/README.md"))
	if err != nil {
		return nil, nil, err
	}
	head, rest, ok := bytes.Cut(got, []byte(begin))
	_, tail, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		return nil, nil, fmt.Errorf("sdk/README.md has no lines %q and %q", begin, end)
	}
	var b bytes.Buffer
	b.Write(head)
	b.WriteString(begin + "| | Rust | Go |\n| --- | --- | --- |\n")
	for _, g := range groups {
		fmt.Fprintf(&b, "| **%s** | | |\n", g.Group)
		for _, r := range g.Rows {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", r[0], r[1], r[2])
		}
	}
	b.WriteString(end)
	b.Write(tail)
	return b.Bytes(), got, nil
}
