package job

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/storechange"
)

// SavepointRequest asks for a savepoint. It is serialisable.
type SavepointRequest struct {
	Tag  string `json:"tag,omitempty"`  // empty: none
	Note string `json:"note,omitempty"` // for people
	Stop bool   `json:"stop,omitempty"` // the job ends with it, without a last watermark
}

// Savepoint is a complete one. It is serialisable.
type Savepoint struct {
	ID          checkpoint.ID `json:"id"`
	CreatedMS   int64         `json:"created_ms"`   // since 1970
	Bytes       int64         `json:"bytes"`        // of its objects, each once
	StoredBytes int64         `json:"stored_bytes"` // that it added
}

// ErrUnlabeled says that a savepoint is complete, but without the tag or note it was to have.
var ErrUnlabeled = errors.New("the savepoint is there, its tag or note is not")

// Savepoint makes a savepoint that starts after the call, and returns when it is complete. Who asks at the same
// time is served by the same one. With Stop it is the last checkpoint: the job ends with it, and if it
// fails it is tried again as often as any last checkpoint. Errors: those of Checkpoint; why the tag can't be
// had, before anything is done; ErrUnlabeled, with Savepoint.
func (j *Job) Savepoint(ctx context.Context, r SavepointRequest) (Savepoint, error) {
	if r.Tag != "" {
		if err := j.store.TagFree(r.Tag); err != nil {
			return Savepoint{}, err
		}
	}
	id, err := j.snapshot(ctx, &request{savepoint: &r, done: make(chan answer, 1)})
	if err != nil && !errors.Is(err, ErrUnlabeled) {
		return Savepoint{}, err
	}
	sp := Savepoint{ID: id}
	m, lerr := j.store.Load(id)
	if lerr != nil {
		return sp, errors.Join(err, lerr)
	}
	sp.CreatedMS, sp.Bytes, sp.StoredBytes = m.CreatedMS, m.TotalBytes(), m.StoredBytes
	return sp, err
}

// ChangeSnapshots changes what the snapshot store holds, beside the running tasks.
func (j *Job) ChangeSnapshots(ctx context.Context, c storechange.Change) (storechange.Changed, error) {
	select {
	case <-j.ended:
		return storechange.Changed{}, ErrEnded
	default:
		return storechange.Apply(ctx, j.store, c)
	}
}

// trigger is what the coordinator is told of a request.
func (r *request) trigger() checkpoint.Event {
	if r.ends() {
		return checkpoint.Stop{Savepoint: true}
	}
	return checkpoint.Trigger{Savepoint: r.savepoint != nil}
}

// ends says that the job is to end with the checkpoint.
func (r *request) ends() bool { return r.savepoint != nil && r.savepoint.Stop }

// named lists those who want checkpoint id to have a tag or a note.
func (d *driver) named(id checkpoint.ID) (rs []*request) {
	for _, r := range d.asked {
		if r.id == id && r.savepoint != nil && r.savepoint.Tag+r.savepoint.Note != "" {
			rs = append(rs, r)
		}
	}
	return rs
}

// label writes a savepoint's tag and note down.
func (j *Job) label(id checkpoint.ID, r *SavepointRequest) error {
	var errs []error
	if r.Tag != "" {
		errs = append(errs, j.store.Tag(id, r.Tag, false))
	}
	if r.Note != "" {
		errs = append(errs, j.store.Note(id, r.Note))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w (%d): %w", ErrUnlabeled, id, err)
	}
	return nil
}
