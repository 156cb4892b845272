package control

import "github.com/millrace-io/millrace/checkpoint"

// Remote is how far the copies of a pipeline's snapshots are behind it.
type Remote struct {
	URL         string        `json:"url"`
	Uploaded    checkpoint.ID `json:"uploaded"`            // newest of this run that is there; 0: none
	UploadedMS  int64         `json:"uploaded_ms"`         // when, since 1970
	Uploading   checkpoint.ID `json:"uploading,omitempty"` // 0: none
	Behind      int           `json:"behind"`              // snapshots completed since
	Uploads     int           `json:"uploads"`             // of this run
	Bytes       int64         `json:"bytes"`               // stored by them
	Failures    int           `json:"failures"`            // in a row
	LastFailure string        `json:"last_failure,omitempty"`
}
