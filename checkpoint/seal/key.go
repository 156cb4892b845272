// Package seal protects snapshots that leave the machine: contents by AES-256-GCM, bound to tenant, job, task
// and sequence, and manifests by HMAC-SHA256 or Ed25519 signatures. Keys are given by reference and named by
// an id that is not secret.
package seal

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/checkpoint"
)

// ErrKey: a reference does not lead to a usable key.
var ErrKey = errors.New("not a usable key")

// Key is 32 secret bytes with a name.
type Key struct {
	ID     string
	secret [32]byte
}

// String does not tell the secret.
func (k Key) String() string { return "key " + k.ID }

// GoString does not tell the secret.
func (k Key) GoString() string { return k.String() }

// NewKey makes a key of 32 bytes. Its id is the first 16 hex digits of a hash of them.
func NewKey(secret []byte) (Key, error) {
	var k Key
	if len(secret) != len(k.secret) {
		return k, fmt.Errorf("%w: %d bytes, expected %d", ErrKey, len(secret), len(k.secret))
	}
	copy(k.secret[:], secret)
	sum := sha256.Sum256(append([]byte("millrace key id\n"), secret...))
	k.ID = hex.EncodeToString(sum[:8])
	return k, nil
}

// Sources is where references lead.
type Sources struct {
	Env  func(name string) (string, bool)
	File func(path string) ([]byte, error)
}

// Load resolves a reference: env:NAME or file:PATH, to 32 bytes as they are (a file), in hex or in base64.
func (s Sources) Load(ref string) (Key, error) {
	data, err := s.read(ref)
	if err != nil {
		return Key{}, err
	}
	text := strings.TrimSpace(string(data))
	for _, decode := range []func(string) ([]byte, error){
		hex.DecodeString, base64.StdEncoding.DecodeString, base64.RawStdEncoding.DecodeString,
	} {
		if b, err := decode(text); err == nil && len(b) == 32 {
			return NewKey(b)
		}
	}
	k, err := NewKey(data)
	if err != nil {
		return k, fmt.Errorf("%s: %w, or as many in hex or base64", ref, err)
	}
	return k, nil
}

func (s Sources) read(ref string) ([]byte, error) {
	kind, name, ok := strings.Cut(ref, ":")
	switch {
	case ok && kind == "env" && s.Env != nil:
		text, set := s.Env(name)
		if !set {
			return nil, fmt.Errorf("%w: the environment has no %s", ErrKey, name)
		}
		return []byte(text), nil
	case ok && kind == "file" && s.File != nil:
		data, err := s.File(name)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrKey, err)
		}
		return data, nil
	}
	return nil, fmt.Errorf("%w: %q is no reference, expected env:NAME or file:PATH", ErrKey, ref)
}

// derive makes the secret of one purpose, so that no key is used for two.
func (k Key) derive(purpose string) []byte {
	h := hmac.New(sha256.New, k.secret[:])
	h.Write([]byte("millrace " + purpose))
	return h.Sum(nil)
}

// hmacSigner signs and checks with one secret.
type hmacSigner struct{ key Key }

const (
	algorithmHMAC    = "hmac-sha256"
	algorithmEd25519 = "ed25519"
)

// HMAC signs manifests with a key that the reader has too.
func HMAC(k Key) checkpoint.Signer { return hmacSigner{k} }

// Ed25519 signs manifests with a private key made of k as its seed, of which readers have the public half.
func Ed25519(k Key) checkpoint.Signer {
	private := ed25519.NewKeyFromSeed(k.derive("ed25519 seed"))
	return edSigner{private, PublicID(private.Public().(ed25519.PublicKey))}
}

// Public is the public half of an Ed25519 signer; nil for others.
func Public(s checkpoint.Signer) ed25519.PublicKey {
	if e, ok := s.(edSigner); ok {
		return e.private.Public().(ed25519.PublicKey)
	}
	return nil
}

// PublicID names a public key.
func PublicID(p ed25519.PublicKey) string {
	sum := sha256.Sum256(p)
	return hex.EncodeToString(sum[:8])
}

func (s hmacSigner) Algorithm() string { return algorithmHMAC }
func (s hmacSigner) KeyID() string     { return s.key.ID }

func (s hmacSigner) Sign(message []byte) ([]byte, error) {
	h := hmac.New(sha256.New, s.key.derive("manifest signature"))
	h.Write(message)
	return h.Sum(nil), nil
}

type edSigner struct {
	private ed25519.PrivateKey
	id      string
}

func (s edSigner) Algorithm() string                   { return algorithmEd25519 }
func (s edSigner) KeyID() string                       { return s.id }
func (s edSigner) Sign(message []byte) ([]byte, error) { return ed25519.Sign(s.private, message), nil }

// Verifier checks signatures of any of its keys.
type Verifier struct {
	Shared []Key               // of HMAC signers
	Public []ed25519.PublicKey // of Ed25519 signers
}

var _ checkpoint.Verifier = Verifier{}

// Check implements checkpoint.Verifier.
func (v Verifier) Check(algorithm, keyID string, message, signature []byte) error {
	var known []string
	for _, k := range v.Shared {
		known = append(known, algorithmHMAC+" "+k.ID)
		if algorithm != algorithmHMAC || k.ID != keyID {
			continue
		}
		if want, _ := (hmacSigner{k}).Sign(message); hmac.Equal(want, signature) {
			return nil
		}
		return fmt.Errorf("%w: not of key %s", checkpoint.ErrSignature, keyID)
	}
	for _, p := range v.Public {
		known = append(known, algorithmEd25519+" "+PublicID(p))
		if algorithm != algorithmEd25519 || PublicID(p) != keyID {
			continue
		}
		if ed25519.Verify(p, message, signature) {
			return nil
		}
		return fmt.Errorf("%w: not of key %s", checkpoint.ErrSignature, keyID)
	}
	slices.Sort(known)
	return fmt.Errorf("%w: it is by %s key %s, trusted are %s", checkpoint.ErrSignature, algorithm, keyID, strings.Join(known, ", "))
}
