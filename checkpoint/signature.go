package checkpoint

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// Errors of signatures.
var (
	// ErrUnsigned: there is no signature where one is needed.
	ErrUnsigned = errors.New("manifest is not signed")
	// ErrSignature: the signature is not of these bytes under this key.
	ErrSignature = errors.New("manifest has a wrong signature")
)

// signedAs keeps a signature of a manifest from being one of anything else.
const signedAs = "millrace manifest\n"

// Signer signs manifests. Package seal has HMAC-SHA256 and Ed25519.
type Signer interface {
	Algorithm() string // as written into the manifest: lower-case letters, digits, '-'
	KeyID() string     // names the key; letters, digits, '-', '_', '.'
	Sign(message []byte) ([]byte, error)
}

// Verifier checks signatures.
type Verifier interface {
	// Check says whether signature is of message under the key named. Errors: ErrSignature; that the key or
	// the algorithm is not known.
	Check(algorithm, keyID string, message, signature []byte) error
}

func sign(signer Signer, body []byte) (string, error) {
	signature, err := signer.Sign(append([]byte(signedAs), body...))
	if err != nil {
		return "", fmt.Errorf("sign with key %s: %w", signer.KeyID(), err)
	}
	parts := []string{signer.Algorithm(), signer.KeyID(), base64.RawStdEncoding.EncodeToString(signature)}
	for _, part := range parts[:2] {
		if part == "" || strings.Trim(part, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != "" {
			return "", fmt.Errorf("%w: %q names an algorithm or a key, expected letters, digits, '-', '_', '.'", ErrInvalid, part)
		}
	}
	return strings.Join(parts, ":"), nil
}

// VerifySignature checks the signature of a manifest file. Errors: ErrUnsigned; ErrSignature; that of the
// verifier; those of Decode for a damaged frame.
func VerifySignature(data []byte, v Verifier) error {
	f, err := openFrame(data)
	if err != nil {
		return err
	}
	if f.signature == "" {
		return ErrUnsigned
	}
	parts := strings.Split(f.signature, ":")
	if len(parts) != 3 {
		return fmt.Errorf("%w: %q is not algorithm:key:base64", ErrSignature, f.signature)
	}
	signature, err := base64.RawStdEncoding.DecodeString(parts[2])
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSignature, err)
	}
	return v.Check(parts[0], parts[1], append([]byte(signedAs), f.body...), signature)
}

// SignedBy is the id of the key that a manifest file says it is signed with; empty: it is not signed.
func SignedBy(data []byte) string {
	f, err := openFrame(data)
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(f.signature, ":")
	id, _, _ := strings.Cut(rest, ":")
	return id
}
