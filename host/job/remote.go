package job

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/crashpoint"
	"github.com/millrace-io/millrace/checkpoint/mirror"
	"github.com/millrace-io/millrace/checkpoint/objectstore"
	"github.com/millrace-io/millrace/checkpoint/seal"
	"github.com/millrace-io/millrace/host/clock"
	"github.com/millrace-io/millrace/operators"
)

// ErrRemote says that the store of a pipeline's snapshots can't be used as its file says, or holds what a run may
// not go over: nothing ran.
var ErrRemote = errors.New("the store of the snapshots")

// Remote is the mirror that a pipeline file names.
type Remote struct {
	Mirror *mirror.Mirror
	Signer checkpoint.Signer // of manifests; nil: they are not signed
	URL    string            // for people
}

// Secrets is where references of keys and credentials lead.
type Secrets = seal.Sources

// OpenRemote opens the mirror of a job; nothing is asked of it. Errors wrap ErrRemote, all at once.
func OpenRemote(s *operators.StoreSettings, job string, from Secrets) (*Remote, error) {
	if from.Env == nil {
		from.Env = func(string) (string, bool) { return "", false }
	}
	var problems []string
	load := func(what string, refs []string) (keys []seal.Key) {
		for _, ref := range refs {
			k, err := from.Load(ref)
			if err != nil {
				problems = append(problems, what+": "+err.Error())
			}
			keys = append(keys, k)
		}
		return keys
	}
	o := mirror.Options{Job: job, NowMS: clock.Wall{}.NowMS, Random: rand.Reader, Crash: crashpoint.Hit,
		Keys: load("encrypt", s.Encrypt)}
	r := &Remote{URL: s.URL}
	if sign := load("sign", s.Sign); len(sign) > 0 {
		v := seal.Verifier{Shared: sign}
		r.Signer = seal.HMAC(sign[0])
		o.Signer, o.Verifier, o.Manifests = r.Signer, v, v
	}
	var err error
	if o.Store, err = objects(s, from); err != nil {
		problems = append(problems, err.Error())
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("%w %s: %s", ErrRemote, s.URL, strings.Join(problems, "; "))
	}
	r.Mirror = mirror.New(o)
	return r, nil
}

// objects opens what is below a mirror.
func objects(s *operators.StoreSettings, from Secrets) (objectstore.Store, error) {
	if s.Folder != "" {
		return objectstore.NewDir(objectstore.DirOptions{Path: s.Folder, Random: rand.Reader}), nil
	}
	env := func(name string) string {
		text, _ := from.Env(name)
		return text
	}
	o := objectstore.S3Options{Endpoint: "s3.amazonaws.com", Region: s.Region, Bucket: s.Bucket, Prefix: s.Prefix}
	if o.Region == "" {
		o.Region = env("AWS_REGION")
	}
	if s.Endpoint != "" {
		u, err := url.Parse(s.Endpoint)
		if err != nil {
			return nil, err
		}
		o.Endpoint, o.Plain = u.Host, u.Scheme == "http"
	}
	file, named := strings.CutPrefix(s.Credentials, "file:")
	switch {
	case named && from.File == nil:
		return nil, errors.New("credentials: no files can be read here")
	case named:
		if _, err := from.File(file); err != nil {
			return nil, fmt.Errorf("credentials: %w", err)
		}
		o.CredentialsFile = file
	case s.Credentials == operators.CredentialsRole:
		o.Role = true
	default:
		o.AccessKey, o.SecretKey, o.Token = env("AWS_ACCESS_KEY_ID"), env("AWS_SECRET_ACCESS_KEY"), env("AWS_SESSION_TOKEN")
		if o.AccessKey == "" || o.SecretKey == "" {
			return nil, errors.New("credentials: the environment has no AWS_ACCESS_KEY_ID or no AWS_SECRET_ACCESS_KEY; set them, or name credentials: file:PATH or role")
		}
	}
	store, err := objectstore.NewS3(o)
	if err != nil {
		return nil, err
	}
	return objectstore.Retry(store, objectstore.RetryOptions{}), nil
}
