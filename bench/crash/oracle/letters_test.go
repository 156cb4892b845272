package oracle

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// badInput makes an input with bad lines and the right dead letters.
func badInput(t *testing.T) (*Input, []string) {
	t.Helper()
	var buf bytes.Buffer
	in, err := Generator{Seed: 7, Keys: 5, Records: 100, Prefix: "k", StepMS: 10, BadEvery: 10, File: "/x/in-0.ndjson"}.Write(&buf)
	if err != nil {
		t.Fatal(err)
	}
	var letters []string
	at := 0
	for i, l := range strings.SplitAfter(buf.String(), "\n") {
		operator := ""
		switch {
		case l == "":
		case !strings.HasSuffix(l, "}\n"):
			operator = "input"
		case strings.Contains(l, `"n":null`), strings.Contains(l, `"n":0,`):
			operator = "count"
		}
		if operator != "" {
			letters = append(letters, fmt.Sprintf(`{"operator":"%s","error":"e","position":"/x/in-0.ndjson:%d (byte %d)"}`, operator, i+1, at))
		}
		at += len(l)
	}
	if len(letters) != 10 || in.Records() != 100 {
		t.Fatalf("%d bad lines and %d records, expected 10 and 100", len(letters), in.Records())
	}
	return in, letters
}

func checkLetters(t *testing.T, in *Input, text string) Verdict {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "dead"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "dead", "part-0.ndjson"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var v Verdict
	if err := CheckLetters(in, dir, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestEachBadLineGivesOneLetter(t *testing.T) {
	in, letters := badInput(t)
	if v := checkLetters(t, in, strings.Join(letters, "\n")+"\n"); v.Anomalies() != 0 || v.Letters != 10 {
		t.Errorf("the right letters: %+v", v)
	}
	for _, c := range []struct {
		name string
		text string
		want Verdict
	}{
		{"lost", strings.Join(letters[1:], "\n") + "\n", Verdict{LettersLost: 1}},
		{"twice", strings.Join(append(letters, letters[3]), "\n") + "\n", Verdict{LettersTwice: 1}},
		{"other operator", strings.Join(append(letters[1:], strings.Replace(letters[0], "input", "count", 1)), "\n") + "\n", Verdict{LettersAlien: 1}},
		{"good line", strings.Join(append(letters, `{"operator":"count","position":"/x/in-0.ndjson:1 (byte 0)"}`), "\n") + "\n", Verdict{LettersAlien: 1}},
		{"cut off", strings.Join(letters, "\n"), Verdict{Malformed: 1, LettersLost: 1}},
	} {
		v := checkLetters(t, in, c.text)
		v.Letters, v.Examples = 0, nil
		if fmt.Sprint(v) != fmt.Sprint(c.want) {
			t.Errorf("%s: %+v, expected %+v", c.name, v, c.want)
		}
	}
}
