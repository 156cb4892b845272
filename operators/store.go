package operators

import "time"

// StoreSettings say where copies of a job's snapshots go, and how they are protected. Secrets are in it by
// reference only: env:NAME, or file:PATH with an absolute path.
type StoreSettings struct {
	// URL is as in the pipeline file, for people. It ends in the job's folder there.
	URL string `json:"url"`
	// Folder is an absolute path; empty: a bucket.
	Folder string `json:"folder,omitempty"`
	// Bucket and Prefix are of an S3-compatible server; keys begin with the prefix and the pipeline's name.
	Bucket      string `json:"bucket,omitempty"`
	Prefix      string `json:"prefix,omitempty"`
	Endpoint    string `json:"endpoint,omitempty"` // URL of the server; empty: AWS
	Region      string `json:"region,omitempty"`   // empty: by the environment, else asked of the server
	Credentials string `json:"credentials,omitempty"`
	// Encrypt and Sign are references of keys; the first one seals or signs, all open or verify. Empty: neither.
	Encrypt []string `json:"encrypt,omitempty"`
	Sign    []string `json:"sign,omitempty"`
	// Interval is the least time between the uploads of two checkpoints.
	Interval time.Duration `json:"interval"`
	Retain   int           `json:"retain"` // checkpoints kept there
}

// What Credentials of a StoreSettings may be besides file:PATH, which is a file as the AWS tools have it.
const (
	CredentialsEnv  = "env"  // AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
	CredentialsRole = "role" // of the machine, container or pod, as AWS gives it
)
