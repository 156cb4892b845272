package mirror

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/checkpoint"
)

// Catalog is all that changes in a mirror: which snapshots there are, who is adding one, who is reading one.
// Each change is a new generation, written under its number with "only if it is not there": of two who change
// the same generation one succeeds, and the other looks again. Nothing is there that a generation does not
// name, and what it names is there, since objects come before it and are removed after it.
type Catalog struct {
	Format     int        `json:"format"`
	Tenant     string     `json:"tenant"`
	Job        string     `json:"job"`
	Generation uint64     `json:"generation"` // from 1
	Previous   string     `json:"previous"`   // SHA-256 of the file of the generation before; empty in 1
	Nonce      string     `json:"nonce"`      // of the writing call
	Snapshots  []Snapshot `json:"snapshots"`  // by id
	Pushes     []Push     `json:"pushes"`     // under way
	Readers    []Reader   `json:"readers"`

	signed bool // as it was read
}

// Snapshot is one snapshot in the mirror.
type Snapshot struct {
	ID        checkpoint.ID   `json:"id"`
	Kind      checkpoint.Kind `json:"kind,omitempty"`
	Parent    checkpoint.ID   `json:"parent,omitempty"`
	CreatedMS int64           `json:"created_ms"`
	Manifest  string          `json:"manifest"`   // SHA-256 of the manifest file
	ParentSHA string          `json:"parent_sha"` // of the parent's
	Key       string          `json:"key"`        // of its index
	SHA256    string          `json:"sha256"`     // of the stored index
	Size      int64           `json:"size"`       // bytes of it
}

// Push is somebody who adds a snapshot. What it has stored is not removed while it is here.
type Push struct {
	ID        string        `json:"id"`
	Snapshot  checkpoint.ID `json:"snapshot"`
	ExpiresMS int64         `json:"expires_ms"` // since 1970
}

// Reader keeps a snapshot from being removed.
type Reader struct {
	ID        string        `json:"id"`
	Snapshot  checkpoint.ID `json:"snapshot"`
	ExpiresMS int64         `json:"expires_ms"`
}

// ErrDamaged: what is in the object store is not what was put there.
var ErrDamaged = errors.New("mirror is damaged")

// DamageError names the object of a mirror that is wrong.
type DamageError struct {
	Key     string
	Problem error
}

// Error implements error.
func (e *DamageError) Error() string { return fmt.Sprintf("%v: %s: %v", ErrDamaged, e.Key, e.Problem) }

// Unwrap implements errors.Is and As.
func (e *DamageError) Unwrap() []error { return []error{ErrDamaged, e.Problem} }

const (
	catalogFormat = 1
	catalogMagic  = "millrace catalog 1"
	signedAs      = "millrace catalog\n"
)

// A catalog file is one line of magic, SHA-256 of what follows the digest, and signature ("-" for none), and
// then JSON.
func (c *Catalog) encode(signer checkpoint.Signer) ([]byte, error) {
	body, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	signature := "-"
	if signer != nil {
		b, err := signer.Sign(append([]byte(signedAs), body...))
		if err != nil {
			return nil, fmt.Errorf("sign with key %s: %w", signer.KeyID(), err)
		}
		signature = strings.Join([]string{signer.Algorithm(), signer.KeyID(), base64.RawStdEncoding.EncodeToString(b)}, ":")
	}
	rest := append([]byte(" signature="+signature+"\n"), body...)
	return append(fmt.Appendf(nil, "%s sha256=%x", catalogMagic, sha256.Sum256(rest)), rest...), nil
}

// decodeCatalog opens a file that has to be what want says: tenant, job, generation.
func decodeCatalog(data []byte, want Catalog, verifier checkpoint.Verifier) (*Catalog, error) {
	start := len(catalogMagic + " sha256=")
	if len(data) < start+2*sha256.Size || string(data[:len(catalogMagic)]) != catalogMagic {
		return nil, fmt.Errorf("it does not begin with %q", catalogMagic)
	}
	rest := data[start+2*sha256.Size:]
	if line := fmt.Sprintf("%s sha256=%x", catalogMagic, sha256.Sum256(rest)); line != string(data[:start+2*sha256.Size]) {
		return nil, errors.New("it does not fit its own checksum")
	}
	head, body, _ := bytes.Cut(rest, []byte{'\n'})
	signature, ok := strings.CutPrefix(string(head), " signature=")
	if !ok {
		return nil, errors.New("no signature in its first line")
	}
	if verifier != nil {
		if err := checkSignature(signature, body, verifier); err != nil {
			return nil, err
		}
	}
	c := new(Catalog)
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(c); err != nil {
		return nil, err
	}
	if c.Format != catalogFormat {
		return nil, fmt.Errorf("format %d, this build reads %d", c.Format, catalogFormat)
	}
	c.signed = signature != "-"
	if c.Tenant == want.Tenant && c.Generation == want.Generation && c.Job != want.Job {
		return nil, fmt.Errorf("%w: of %q, expected %q", ErrOtherJob, c.Job, want.Job)
	}
	if c.Tenant != want.Tenant || c.Job != want.Job || c.Generation != want.Generation {
		return nil, fmt.Errorf("it is generation %d of tenant %q, job %q, expected %d of %q, %q", c.Generation, c.Tenant, c.Job,
			want.Generation, want.Tenant, want.Job)
	}
	return c, nil
}

func checkSignature(text string, body []byte, verifier checkpoint.Verifier) error {
	if text == "-" {
		return checkpoint.ErrUnsigned
	}
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return fmt.Errorf("%w: %q", checkpoint.ErrSignature, text)
	}
	b, err := base64.RawStdEncoding.DecodeString(parts[2])
	if err != nil {
		return fmt.Errorf("%w: %w", checkpoint.ErrSignature, err)
	}
	return verifier.Check(parts[0], parts[1], append([]byte(signedAs), body...), b)
}

// clone copies a catalog two levels deep.
func (c *Catalog) clone() *Catalog {
	d := *c
	d.Snapshots, d.Pushes, d.Readers = slices.Clone(c.Snapshots), slices.Clone(c.Pushes), slices.Clone(c.Readers)
	return &d
}

// Find returns a snapshot of the catalog.
func (c *Catalog) Find(id checkpoint.ID) (Snapshot, bool) {
	for _, s := range c.Snapshots {
		if s.ID == id {
			return s, true
		}
	}
	return Snapshot{}, false
}

// newest is the id of the newest snapshot; 0: there is none.
func (c *Catalog) newest() checkpoint.ID {
	if len(c.Snapshots) == 0 {
		return 0
	}
	return c.Snapshots[len(c.Snapshots)-1].ID
}

func (c *Catalog) pushing(id string) bool {
	return slices.ContainsFunc(c.Pushes, func(p Push) bool { return p.ID == id })
}

// chain says where the catalog does not fit together: a snapshot whose parent is here with other bytes.
func (c *Catalog) chain() error {
	var errs []error
	for _, s := range c.Snapshots {
		if p, ok := c.Find(s.Parent); ok && s.ParentSHA != "" && s.ParentSHA != p.Manifest {
			errs = append(errs, &DamageError{Key: s.Key, Problem: fmt.Errorf(
				"snapshot %d follows a snapshot %d with SHA-256 %s, here it has %s", s.ID, p.ID, s.ParentSHA, p.Manifest)})
		}
	}
	return errors.Join(errs...)
}

func sha256Hex(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
