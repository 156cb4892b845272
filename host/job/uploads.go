package job

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/mirror"
	"github.com/millrace-io/millrace/checkpoint/objectstore"
	"github.com/millrace-io/millrace/operators"
)

const (
	// uploadPatience is how long the end of a run waits for an upload in which nothing moves.
	uploadPatience = 30 * time.Second
	// gcEvery is after how many uploads the mirror's unused files are removed.
	gcEvery = 10
)

// Kinds of events of uploads, which come from a goroutine of their own.
const (
	EventUploaded     EventKind = "uploaded"
	EventUploadFailed EventKind = "upload_failed"
	EventUploading    EventKind = "uploading" // the end of the run waits for it
)

// uploads copies the job's snapshots into its mirror, behind the job. A snapshot goes there once every task has
// committed it: its output is published then, so that it can be gone on from without this state folder.
type uploads struct {
	settings *operators.StoreSettings
	remote   *Remote
	uploader *mirror.Uploader
	end      context.CancelFunc
	ended    chan struct{}
}

// RemoteStats is how far a job's mirror is behind it. It is serialisable.
type RemoteStats struct {
	URL string `json:"url"`
	mirror.Status
}

// openRemote opens the mirror that the pipeline file names; nil: it names none.
func (j *Job) openRemote() (*Remote, error) {
	s := j.opts.Graph.Checkpoint.Store
	if s == nil {
		return nil, nil
	}
	return j.opts.Remote(s, j.opts.Graph.Name)
}

// signer is that of the local manifests, which go into the mirror as they are.
func (j *Job) signer() checkpoint.Signer {
	if j.remote == nil {
		return nil
	}
	return j.remote.Signer
}

// first looks into the mirror before a job starts from nothing. What it has would be overwritten in effect: it is
// refused, or with Fresh passed by.
func (j *Job) first(ctx context.Context) error {
	if j.remote == nil || j.looked {
		return nil
	}
	newest, err := j.remote.Mirror.Newest(ctx)
	switch {
	case err != nil && !objectstoreDown(err):
		return fmt.Errorf("%w %s: %w", ErrRemote, j.remote.URL, err)
	case err != nil:
		return fmt.Errorf("the state folder is empty, and %s can't be asked whether the pipeline has snapshots there: %w", j.remote.URL, err)
	case newest != 0 && !j.opts.Fresh && !j.afresh:
		return fmt.Errorf("%w: %s has snapshots of this pipeline, the newest is %d, and the state folder has none: millrace snapshot pull goes on from there, run --fresh begins anew",
			ErrRemote, j.remote.URL, newest)
	}
	j.looked = true
	return j.store.SkipTo(newest)
}

// objectstoreDown says that an error may go away by itself.
func objectstoreDown(err error) bool {
	for _, e := range []error{mirror.ErrDamaged, mirror.ErrKeys, mirror.ErrOtherJob, mirror.ErrConditional, mirror.ErrRolledBack, objectstore.ErrRefused} {
		if errors.Is(err, e) {
			return false
		}
	}
	return true
}

// follow starts the uploads once the job runs, and anew where a change names another store. from is the snapshot
// that the job started from: an earlier run may not have come to upload it.
func (j *Job) follow(from *checkpoint.Manifest) {
	s := j.opts.Graph.Checkpoint.Store
	if u := j.uploading(); u != nil && !reflect.DeepEqual(u.settings, s) {
		j.stopUploads()
	}
	if s != nil && j.uploading() == nil {
		if err := j.startUploads(s); err != nil {
			j.note("snapshots are not uploaded: " + err.Error())
			return
		}
	}
	if u := j.uploading(); u != nil && from != nil {
		_ = u.uploader.Offer(mirror.Offered{ID: from.ID, Kind: from.Kind})
	}
}

func (j *Job) startUploads(s *operators.StoreSettings) error {
	remote, err := j.openRemote()
	if err != nil {
		return err
	}
	u := &uploads{settings: s, remote: remote, ended: make(chan struct{})}
	u.uploader = mirror.NewUploader(mirror.UploaderOptions{Mirror: remote.Mirror, Local: j.store, Retain: s.Retain, GCEvery: gcEvery,
		Interval: s.Interval, Report: func(r mirror.Uploaded) { j.uploaded(u, r) }})
	run, cancel := context.WithCancel(context.Background()) // Run ends it, an attempt does not
	u.end = cancel
	j.mu.Lock()
	j.remote, j.uploads = remote, u
	j.mu.Unlock()
	go func() {
		defer close(u.ended)
		u.uploader.Run(run)
	}()
	return nil
}

func (j *Job) uploading() *uploads {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.uploads
}

// stopUploads ends the uploads at once, as before the local store is closed.
func (j *Job) stopUploads() {
	u := j.uploading()
	if u == nil {
		return
	}
	u.end()
	<-u.ended
	j.mu.Lock()
	j.uploads = nil
	j.mu.Unlock()
}

// published offers a snapshot that all tasks have committed.
func (j *Job) published(id checkpoint.ID, kind checkpoint.Kind) {
	if u := j.uploading(); u != nil {
		_ = u.uploader.Offer(mirror.Offered{ID: id, Kind: kind})
	}
}

// uploaded tells of an upload: each success, and of failures the first in a row.
func (j *Job) uploaded(u *uploads, r mirror.Uploaded) {
	if errors.Is(r.Err, context.Canceled) {
		return
	}
	failures := u.uploader.Status().Failures
	switch {
	case r.Err != nil && (failures == 1 || !r.Again):
		text := r.Err.Error()
		if !r.Again {
			text += "; it is given up"
		}
		j.event(Event{Kind: EventUploadFailed, Checkpoint: r.ID, Message: text})
	case r.Err == nil && r.Tidy != nil:
		j.event(Event{Kind: EventUploadFailed, Checkpoint: r.ID, Message: "it is there, but older ones can't be removed: " + r.Tidy.Error()})
	case r.Err == nil:
		j.event(Event{Kind: EventUploaded, Checkpoint: r.ID, Bytes: r.Bytes})
	}
}

// finishUploads waits at the end of a run until its snapshots are in the mirror, as long as something moves.
func (j *Job) finishUploads(ctx context.Context) {
	u := j.uploading()
	if u == nil {
		return
	}
	if st := u.uploader.Status(); st.Behind > 0 {
		j.event(Event{Kind: EventUploading, Message: u.remote.URL})
	}
	if err := u.uploader.Finish(ctx, uploadPatience); err != nil {
		st := u.uploader.Status()
		j.warn(fmt.Sprintf("%s is %d snapshots behind: %v; the next run brings them there, or millrace snapshot push", u.remote.URL, st.Behind, err))
	}
	u.end()
	<-u.ended
}

// remoteStats is how the mirror stands; nil: there is none.
func (j *Job) remoteStats() *RemoteStats {
	u := j.uploading()
	if u == nil {
		return nil
	}
	return &RemoteStats{u.remote.URL, u.uploader.Status()}
}
