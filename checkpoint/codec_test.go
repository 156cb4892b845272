package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/state"
)

var rewrite = flag.Bool("rewrite", false, "write the expected outputs under testdata anew")

func digest(c string) string { return strings.Repeat(c, 64) }

// sample is a manifest with every field in use and numbers that JSON readers like to spoil.
func sample() *Manifest {
	m := &Manifest{
		Format: FormatVersion, ID: 7, Kind: KindSavepoint, Parent: 3, ParentSHA: digest("9"),
		Origin: &Origin{Job: "live", ID: 2, SHA256: digest("8")}, Job: "payments", CreatedMS: 1_700_000_000_123,
		Engine: "0.1.0", Seed: math.MaxUint64 - 1, Slots: state.Slots, Pipeline: digest("a"),
		Modules:     []ModuleRef{{Operator: "count", Digest: digest("b"), Path: "count.wasm", Size: 900}},
		Extra:       map[string]int64{"records": 1 << 60},
		StoredBytes: 4096,
	}
	for t := range 2 {
		m.Tasks = append(m.Tasks, TaskSnapshot{
			Vertex: "in", Task: t, Parallelism: 2, Finished: t == 1, Watermarks: []int64{},
			Operators: []OperatorSnapshot{{Operator: "in", Splits: []SplitPosition{{
				Split: "d\u00fc <&> \ufffd.ndjson", Index: uint32(t), Offset: math.MaxInt64, Ordinal: 12,
				MaxTime: 99, Mark: math.MinInt64, Finished: t == 1, Identity: "12:abc"}}}},
		})
	}
	m.Tasks = append(m.Tasks, TaskSnapshot{
		Vertex: "count", Task: 0, Parallelism: 1, Watermarks: []int64{math.MinInt64, math.MaxInt64},
		Operators: []OperatorSnapshot{
			{Operator: "count", Keyed: &state.Snapshot{Range: state.TaskRange(0, 1), States: []state.StateSnapshot{{
				Name: "n", Kind: "value", Version: 2,
				Runs: []state.Run{{Object: digest("c"), Size: 5000, Lo: 0, Hi: math.MaxUint64, Count: 77}}}}},
				Data: []byte{0, 255, '\n'}, Numbers: map[string]int64{"errors": 3}},
			{Operator: "out", Staged: []StagedFile{{Staged: "s/1", Final: "out/1", Size: 10, SHA256: digest("d"), Records: 4}}},
		},
		Channels: []ChannelState{{Channel: 1, Object: digest("e"), Size: 8}},
	})
	return m
}

// testSigner is a signer whose signatures are easy to see.
type testSigner struct{ keyID string }

func (s testSigner) Algorithm() string { return "test-sum" }
func (s testSigner) KeyID() string     { return s.keyID }
func (s testSigner) Sign(message []byte) ([]byte, error) {
	sum := sha256.Sum256(append([]byte(s.keyID), message...))
	return sum[:], nil
}

func (s testSigner) Check(algorithm, keyID string, message, signature []byte) error {
	if want, _ := s.Sign(message); keyID != s.keyID || !bytes.Equal(want, signature) {
		return fmt.Errorf("%w: of key %s", ErrSignature, keyID)
	}
	return nil
}

func TestManifestGolden(t *testing.T) {
	for name, signer := range map[string]Signer{"manifest_v2.json": nil, "manifest_v2_signed.json": testSigner{"k1"}} {
		data, err := EncodeSigned(sample(), signer)
		if err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", name)
		if *rewrite {
			if err := os.WriteFile(golden, data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(data, want) {
			t.Errorf("the bytes of format %d changed:\n%s\nwant\n%s", FormatVersion, data, want)
		}
		checkDecoded(t, want, sample())
	}
}

// TestFormat1IsReadForEver reads a manifest as builds before format 2 wrote it.
func TestFormat1IsReadForEver(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "manifest_v1.json"))
	if err != nil {
		t.Fatal(err)
	}
	want := sample()
	want.Format, want.Kind, want.ParentSHA, want.Origin = 1, KindCheckpoint, "", nil
	checkDecoded(t, data, want)
}

func checkDecoded(t *testing.T, data []byte, want *Manifest) {
	t.Helper()
	got, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("decoded %+v\nwant %+v", got, want)
	}
	if !json.Valid(data) {
		t.Error("a manifest file is not valid JSON")
	}
}

func TestSignatureIsOfThisManifestAndKey(t *testing.T) {
	data, err := EncodeSigned(sample(), testSigner{"k1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := VerifySignature(data, testSigner{"k1"}); err != nil || SignedBy(data) != "k1" {
		t.Errorf("%v, by %q", err, SignedBy(data))
	}
	if err := VerifySignature(data, testSigner{"k2"}); !errors.Is(err, ErrSignature) {
		t.Errorf("another key: %v", err)
	}
	plain, _ := Encode(sample())
	if err := VerifySignature(plain, testSigner{"k1"}); !errors.Is(err, ErrUnsigned) {
		t.Errorf("without signature: %v", err)
	}
	other := sample()
	other.ID++
	moved, _ := EncodeSigned(other, testSigner{"k1"})
	signature := regexp.MustCompile(`"signature":"[^"]*"`)
	forged := signature.ReplaceAll(moved, signature.Find(data))
	tail := forged[bytes.Index(forged, []byte(`,"signature`))-1:]
	sum := sha256.Sum256(tail)
	forged = append(fmt.Appendf(nil, `{"format":2,"sha256":"%x`, sum), tail...)
	if _, err := Decode(forged); err != nil {
		t.Fatalf("the forged one has to be whole but for its signature: %v", err)
	}
	if err := VerifySignature(forged, testSigner{"k1"}); !errors.Is(err, ErrSignature) {
		t.Errorf("the signature of another manifest: %v", err)
	}
	if _, err := EncodeSigned(sample(), testSigner{`k"1`}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a key id that breaks the frame: %v", err)
	}
}

func TestDecodeDetectsEveryChange(t *testing.T) {
	t.Run("plain", func(t *testing.T) { everyChange(t, nil) })
	t.Run("signed", func(t *testing.T) { everyChange(t, testSigner{"k1"}) })
}

func everyChange(t *testing.T, signer Signer) {
	data, err := EncodeSigned(sample(), signer)
	if err != nil {
		t.Fatal(err)
	}
	for n := range data {
		if _, err := Decode(data[:n]); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("first %d of %d bytes: %v", n, len(data), err)
		}
	}
	for i := range data {
		for bit := range 8 {
			bad := bytes.Clone(data)
			bad[i] ^= 1 << bit
			if _, err := Decode(bad); err == nil {
				t.Fatalf("bit %d of byte %d flipped unseen", bit, i)
			}
		}
	}
	for _, tail := range []string{"\n", " ", "}\n", string(data)} {
		if _, err := Decode(append(bytes.Clone(data), tail...)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("with %d more bytes: %v", len(tail), err)
		}
	}
}

func TestDecodeRefusesNewerFormat(t *testing.T) {
	data, err := Encode(sample())
	if err != nil {
		t.Fatal(err)
	}
	newer := bytes.Replace(data, []byte(`{"format":2,`), []byte(`{"format":12,`), 1)
	_, err = Decode(newer)
	if !errors.Is(err, ErrNewerFormat) || !strings.Contains(err.Error(), "12, this build reads up to 2") {
		t.Errorf("got %v", err)
	}
}

// TestInvalidManifests has one case per rule; C027: another slot count is refused.
func TestInvalidManifests(t *testing.T) {
	cases := []struct {
		name, want string
		change     func(*Manifest)
	}{
		{"slots", "has 128 slots, this build has 65536", func(m *Manifest) { m.Slots = 128 }},
		{"no id", "no id", func(m *Manifest) { m.ID = 0 }},
		{"kind", "of kind \"backup\"", func(m *Manifest) { m.Kind = "backup" }},
		{"parent", "digest of its parent", func(m *Manifest) { m.ParentSHA = "x" }},
		{"origin", "digest of its parent or origin", func(m *Manifest) { m.Origin.SHA256 = "" }},
		{"no job", "names no job", func(m *Manifest) { m.Job = "" }},
		{"no tasks", "no tasks", func(m *Manifest) { m.Tasks = nil }},
		{"missing task", "operator in: 1 of 2 tasks", func(m *Manifest) { m.Tasks = m.Tasks[1:] }},
		{"task twice", "task 0 is in it twice", func(m *Manifest) { m.Tasks[1].Task = 0 }},
		{"task beyond", "task 2 of 2", func(m *Manifest) { m.Tasks[1].Task = 2 }},
		{"two parallelisms", "parallelism 2 in one task and 3", func(m *Manifest) { m.Tasks[1].Parallelism = 3 }},
		{"slot range", "has slots [0, 5), it owns [0, 65536)", func(m *Manifest) { m.Tasks[2].Operators[0].Keyed.Range.Hi = 5 }},
		{"digest", "operator count, task 0, state n, run 0", func(m *Manifest) { m.Tasks[2].Operators[0].Keyed.States[0].Runs[0].Object = "../x" }},
		{"digest case", "the pipeline file", func(m *Manifest) { m.Pipeline = digest("A") }},
		{"size", "size -2", func(m *Manifest) { m.Tasks[2].Channels[0].Size = -2 }},
		{"text", "not UTF-8", func(m *Manifest) { m.Tasks[0].Operators[0].Splits[0].Split = "a\xff" }},
		{"map key", "not UTF-8", func(m *Manifest) { m.Extra["\xff"] = 1 }},
		{"format", "format 3, this build writes 2", func(m *Manifest) { m.Format = 3 }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m := sample()
			c.change(m)
			_, err := Encode(m)
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestObjectsListsEveryUse(t *testing.T) {
	var got []string
	for ref := range sample().Objects() {
		got = append(got, ref.Digest[:1])
	}
	if s := strings.Join(got, ""); s != "abce" {
		t.Errorf("got objects %s", s)
	}
}

func FuzzDecode(f *testing.F) {
	data, _ := Encode(sample())
	f.Add(data)
	f.Add([]byte(`{"format":1,"sha256":"`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Decode(b)
		if err != nil {
			return
		}
		m.Format = FormatVersion
		again, err := Encode(m)
		if err != nil {
			t.Fatalf("decoded but cannot encode: %v", err)
		}
		if m2, err := Decode(again); err != nil || !reflect.DeepEqual(m, m2) {
			t.Fatalf("not stable: %v", err)
		}
	})
}
