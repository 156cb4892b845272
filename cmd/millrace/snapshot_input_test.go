package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/millrace-io/millrace/host/record"
)

// sliced is a pipeline that ran: its savepoint "mid" and what came behind it.
func sliced(t *testing.T, after int) *live {
	t.Helper()
	l := newLive(t)
	l.settle("v1")
	do(t, l.dir, "snapshot", "create", "p.yaml", "--tag", "mid").want(t, 0)
	l.send(after)
	l.settle("v1")
	do(t, l.dir, "snapshot", "create", "p.yaml", "--tag", "late").want(t, 0)
	return l
}

func exportedOf(t *testing.T, r ran) (out exported) {
	t.Helper()
	r.want(t, 0)
	if err := json.Unmarshal(envelopeOf(t, r.out).Data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestInputTravels: the input behind a savepoint, beside the running job; kept, checked and given on by another store.
func TestInputTravels(t *testing.T) {
	l := sliced(t, 300)
	if out := exportedOf(t, do(t, l.dir, "snapshot", "export", "--json", "p.yaml", "mid", "all.snap", "--with-input")); out.Input == nil || out.Input.Records != 300 {
		t.Fatalf("%+v", out)
	}
	if out := exportedOf(t, do(t, l.dir, "snapshot", "export", "--json", "p.yaml", "mid", "some.snap", "--with-input", "--records", "70")); out.Input.Records != 70 {
		t.Errorf("%+v", out.Input)
	}
	if out := exportedOf(t, do(t, l.dir, "snapshot", "export", "--json", "p.yaml", "mid", "keys.snap", "--with-input", "--keys", "k1,k3")); out.Input.Records != 120 || out.Input.Dropped != 180 {
		t.Errorf("%+v", out.Input)
	}
	l.send(50)
	l.settle("v1")
	do(t, l.dir, "snapshot", "export", "p.yaml", "mid", "upto.snap", "--with-input", "--to", "late").want(t, 0, "with the 300 records that followed it")
	do(t, l.dir, "snapshot", "export", "p.yaml", "mid", "x.snap", "--records", "5").want(t, 2, "--with-input")
	do(t, l.dir, "snapshot", "export", "p.yaml", "late", "x.snap", "--with-input", "--to", "mid").want(t, 2, "not behind snapshot")
	do(t, l.dir, "stop", "p.yaml").want(t, 0)

	away := t.TempDir()
	slice := filepath.Join(l.dir, "upto.snap")
	do(t, away, "snapshot", "import", "--state-dir", "st", slice).want(t, 0, "is imported, with the input that followed it")
	do(t, away, "snapshot", "verify", "--state-dir", "st").want(t, 0)
	do(t, away, "snapshot", "export", "--state-dir", "st", "latest", "again.snap", "--with-input").want(t, 0, "with the 300 records")
	first, err := os.ReadFile(slice)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(filepath.Join(away, "again.snap")); err != nil || !bytes.Equal(first, again) {
		t.Errorf("exported again it has %d bytes, had %d; %v", len(again), len(first), err)
	}
	do(t, away, "snapshot", "export", "--state-dir", "st", "latest", "x.snap", "--with-input", "--records", "5").want(t, 2, "came with its input")
	kept, err := filepath.Glob(filepath.Join(away, "st", "snapshots", "inputs", "*.input"))
	if err != nil || len(kept) != 1 {
		t.Fatal(kept, err)
	}
	r, err := record.Open(kept[0])
	if err != nil || r.Header.To == 0 || r.Header.Job != "live" {
		t.Fatal(r, err)
	}
	r.Close()
	data, err := os.ReadFile(kept[0])
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	write(t, filepath.Dir(kept[0]), filepath.Base(kept[0]), string(data))
	do(t, away, "snapshot", "verify", "--state-dir", "st").want(t, 2, "recorded input is damaged: block ", filepath.Base(kept[0]))
}
