package oracle

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
)

// letter is what is read of a dead letter.
type letter struct {
	Operator string `json:"operator"`
	Error    string `json:"error"`
	Position string `json:"position"`
}

// CheckLetters holds the committed dead letters of a folder against in and adds what is wrong to v: each
// bad line gives one letter, of the operator at which it fails, and nothing else gives one.
func CheckLetters(in *Input, dir string, v *Verdict) error {
	files, err := Committed(dir)
	if err != nil {
		return err
	}
	seen := map[string]uint64{}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		for _, line := range bytes.SplitAfter(data, []byte("\n")) {
			if len(line) == 0 {
				continue
			}
			v.Letters++
			var l letter
			if err := json.Unmarshal(line, &l); err != nil || line[len(line)-1] != '\n' {
				v.Malformed++
				v.example("%s: dead letter %q: %v", filepath.Base(f), clip(line), err)
				continue
			}
			place := filepath.Base(l.Position)
			seen[place]++
			if want, ok := in.Bad[place]; !ok || want != l.Operator {
				v.LettersAlien++
				v.example("%s: dead letter of %s at %q, expected of %q: %s", filepath.Base(f), l.Operator, l.Position, want, l.Error)
			}
		}
	}
	for _, place := range keysOf(in.Bad) {
		switch n := seen[place]; {
		case n == 0:
			v.LettersLost++
			v.example("the bad line at %s gave no dead letter", place)
		case n > 1:
			v.LettersTwice += n - 1
			v.example("the bad line at %s gave %d dead letters", place, n)
		}
	}
	return nil
}
