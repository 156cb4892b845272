package objectstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// S3Options say which bucket of which server.
type S3Options struct {
	Endpoint  string // host:port
	Plain     bool   // http instead of https: loopback only
	Region    string // empty: asked of the server
	Bucket    string
	Prefix    string // of all keys, without slashes at its ends; empty: none
	AccessKey string
	SecretKey string
	Token     string // of a session; empty: none
	// CredentialsFile is a file as the AWS tools have it, read instead of the three above when they are needed.
	CredentialsFile string
	// Role takes the credentials that AWS gives a machine, container or pod instead.
	Role      bool
	Transport http.RoundTripper // nil: the default one
}

// S3 is a bucket of an S3-compatible server. Put with onlyNew needs If-None-Match, which AWS has, and MinIO,
// and Ceph from 2025 on.
type S3 struct {
	client *minio.Client
	bucket string
	prefix string
}

var _ Store = (*S3)(nil)

// NewS3 checks the options; nothing is asked of the server.
func NewS3(o S3Options) (*S3, error) {
	client, err := minio.New(o.Endpoint, &minio.Options{
		Creds: o.credentials(), Secure: !o.Plain, Region: o.Region,
		Transport: o.Transport, MaxRetries: 1, // who calls repeats: see Retry
		BucketLookup: minio.BucketLookupPath,
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if o.Bucket == "" {
		return nil, fmt.Errorf("%w: no bucket", ErrRefused)
	}
	prefix := strings.Trim(o.Prefix, "/")
	if prefix != "" {
		prefix += "/"
	}
	return &S3{client, o.Bucket, prefix}, nil
}

func (o *S3Options) credentials() *credentials.Credentials {
	switch {
	case o.Role:
		return credentials.NewIAM("")
	case o.CredentialsFile != "":
		return credentials.NewFileAWSCredentials(o.CredentialsFile, "")
	}
	return credentials.NewStaticV4(o.AccessKey, o.SecretKey, o.Token)
}

// partBytes is from where on an object is sent in parts.
const partBytes = 64 << 20

// Put implements Store.
func (s *S3) Put(ctx context.Context, key string, body io.ReaderAt, size int64, onlyNew bool) error {
	opts := minio.PutObjectOptions{ContentType: "application/octet-stream", PartSize: partBytes, DisableMultipart: size <= partBytes}
	if onlyNew {
		opts.SetMatchETagExcept("*")
	}
	_, err := s.client.PutObject(ctx, s.bucket, s.prefix+key, io.NewSectionReader(body, 0, size), size, opts)
	return s.wrap("put", key, err)
}

// Get implements Store.
func (s *S3) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	body, info, _, err := minio.Core{Client: s.client}.GetObject(ctx, s.bucket, s.prefix+key, minio.GetObjectOptions{})
	if err != nil {
		return nil, s.wrap("get", key, err)
	}
	return &exact{body, info.Size}, nil
}

// exact makes an end before the promised size an error.
type exact struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (e *exact) Read(p []byte) (int, error) {
	n, err := e.ReadCloser.Read(p)
	if e.left -= int64(n); err == io.EOF && e.left != 0 {
		return n, io.ErrUnexpectedEOF
	}
	return n, err
}

// List implements Store.
func (s *S3) List(ctx context.Context, prefix string) ([]Entry, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the listing's goroutine where it is left early
	var out []Entry
	for o := range s.client.ListObjects(ctx, s.bucket, minio.ListObjectsOptions{Prefix: s.prefix + prefix, Recursive: true}) {
		if o.Err != nil {
			return nil, s.wrap("list", prefix, o.Err)
		}
		out = append(out, Entry{strings.TrimPrefix(o.Key, s.prefix), o.Size})
	}
	return out, ctx.Err()
}

// Delete implements Store.
func (s *S3) Delete(ctx context.Context, key string) error {
	err := s.wrap("delete", key, s.client.RemoveObject(ctx, s.bucket, s.prefix+key, minio.RemoveObjectOptions{}))
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// wrap turns an answer into an error of this package.
func (s *S3) wrap(what, key string, err error) error {
	if err == nil {
		return nil
	}
	answer := minio.ToErrorResponse(err)
	kind := error(nil)
	switch answer.StatusCode {
	case http.StatusPreconditionFailed:
		kind = ErrExists
	case http.StatusNotFound:
		if kind = ErrRefused; answer.Code == minio.NoSuchKey {
			kind = ErrNotFound
		}
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotImplemented:
		if answer.Code != "RequestTimeout" {
			kind = ErrRefused
		}
	}
	if kind == nil {
		return fmt.Errorf("%s s3://%s/%s%s: %w", what, s.bucket, s.prefix, key, err)
	}
	return fmt.Errorf("%s s3://%s/%s%s: %w: %w", what, s.bucket, s.prefix, key, kind, err)
}
