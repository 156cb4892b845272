package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/mirror"
	"github.com/millrace-io/millrace/checkpoint/objectstore"
	"github.com/millrace-io/millrace/host/control"
	"github.com/millrace-io/millrace/host/job"
)

// remoteFlag is on verbs that work on the pipeline's store as well as on its state folder.
func remoteFlag() cli.Flag {
	return &cli.BoolFlag{Name: "remote", Usage: "of the store that the pipeline file names, not of the state folder"}
}

const remoteWords = "The store stands in the pipeline file: checkpoint: {store: s3://bucket/prefix}."

// remote opens the store of a command's pipeline.
func (t *target) remote() (*job.Remote, error) {
	if t.graph == nil {
		return nil, refused(errors.New("name the pipeline file: it says where its store is"))
	}
	s := t.graph.Checkpoint.Store
	if s == nil {
		return nil, refused(fmt.Errorf("%s names no store for its snapshots; checkpoint: {store: s3://bucket/prefix} or file:///path would", t.file))
	}
	r, err := job.OpenRemote(s, t.graph.Name, secrets())
	if err != nil {
		return nil, refused(err)
	}
	return r, nil
}

// secrets are where references of keys and credentials lead.
func secrets() job.Secrets { return job.Secrets{Env: os.LookupEnv, File: os.ReadFile} }

// signer is that of the pipeline's manifests, nil without.
func (t *target) signer() (checkpoint.Signer, error) {
	if t.graph == nil || t.graph.Checkpoint.Store == nil || len(t.graph.Checkpoint.Store.Sign) == 0 {
		return nil, nil
	}
	r, err := t.remote()
	if err != nil {
		return nil, err
	}
	return r.Signer, nil
}

// remoteRefusals are what does not go away by trying again.
var remoteRefusals = []error{
	mirror.ErrNoSnapshot, mirror.ErrIDTaken, mirror.ErrInUse, mirror.ErrOtherJob, mirror.ErrKeys, mirror.ErrConditional,
	objectstore.ErrRefused, checkpoint.ErrUnsigned, checkpoint.ErrSignature,
}

// remoteError gives an error of a store its exit code.
func remoteError(r *job.Remote, err error) error {
	var x *exitError
	if err == nil || errors.As(err, &x) {
		return err
	}
	err = fmt.Errorf("%s: %w", r.URL, err)
	if errors.Is(err, mirror.ErrDamaged) || errors.Is(err, mirror.ErrRolledBack) {
		return &exitError{code: exitRefused, kind: "damaged", err: err}
	}
	for _, e := range remoteRefusals {
		if errors.Is(err, e) {
			return refused(err)
		}
	}
	return storeError(err)
}

// resolveRemote finds the snapshot of a store that a word names: an id, latest, or the beginning of a digest.
func resolveRemote(ctx context.Context, r *job.Remote, word string) (checkpoint.ID, error) {
	c, err := r.Mirror.Catalog(ctx)
	if err != nil {
		return 0, remoteError(r, err)
	}
	if word == "latest" {
		s, err := r.Mirror.Latest(ctx)
		return s.ID, remoteError(r, err)
	}
	var ids, begins []string
	var found checkpoint.ID
	for _, s := range c.Snapshots {
		id := strconv.FormatUint(uint64(s.ID), 10)
		if id == word {
			return s.ID, nil
		}
		if len(word) >= leastPrefix && strings.HasPrefix(s.Manifest, word) {
			found = s.ID
			begins = append(begins, id)
		}
		ids = append(ids, id)
	}
	if len(begins) == 1 {
		return found, nil
	}
	if len(begins) > 1 {
		return 0, refused(fmt.Errorf("%s begins the digests of snapshots %s: give more of it", word, strings.Join(begins, ", ")))
	}
	has := "it has none"
	if len(ids) > 0 {
		has = "it has " + strings.Join(ids[max(0, len(ids)-8):], ", ")
	}
	return 0, refused(fmt.Errorf("there is no snapshot %s in %s: %s (tags stay in the state folder)", word, r.URL, has))
}

// resolveAllRemote resolves words, with what is wrong with all of them.
func resolveAllRemote(ctx context.Context, r *job.Remote, words []string) (ids []checkpoint.ID, err error) {
	var problems []error
	for _, word := range words {
		id, err := resolveRemote(ctx, r, word)
		var x *exitError
		if errors.As(err, &x) && x.code != exitRefused {
			return nil, err
		}
		if err != nil {
			problems = append(problems, err)
		} else if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if len(problems) > 0 {
		return nil, refused(errors.Join(problems...))
	}
	return ids, nil
}

// uploadText says how far a store is.
func uploadText(r control.Remote, now time.Time) string {
	text := "nothing yet"
	if r.Uploaded != 0 {
		text = fmt.Sprintf("snapshot %d, %s ago; %d in this run, %s bytes", r.Uploaded, ageText(now.Sub(time.UnixMilli(r.UploadedMS))), r.Uploads, thousands(r.Bytes))
	}
	if r.Behind > 0 {
		text += fmt.Sprintf("; %d behind", r.Behind)
	}
	if r.Failures > 0 {
		text += fmt.Sprintf("; %d failures in a row", r.Failures)
	}
	if r.LastFailure != "" {
		text += ": " + r.LastFailure
	}
	return text + " (" + r.URL + ")"
}
