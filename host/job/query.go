package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/millrace-io/millrace/checkpoint/snapread"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/host/task"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/stateview"
	"github.com/millrace-io/millrace/state"
)

// ErrNotYet says that there is no complete checkpoint, or no running task, to ask.
var ErrNotYet = errors.New("there is no state to ask for yet")

// Query gives a page of rows of the job's state. Without Live they are those of the newest complete checkpoint:
// read from its files, consistent with its barrier, and the tasks do not notice. With Live the task that has
// the key looks into its tables between two batches: what it finds is newer, and a crash may undo it.
//
// Errors: stateview.ErrQuery; snapread.ErrNoState; ErrNotYet; ErrEnded; damage.
func (j *Job) Query(ctx context.Context, r stateview.Request) (stateview.Page, error) {
	if r.Live {
		return j.look(ctx, r.Query)
	}
	for range 10 {
		p, err := j.queryNewest(ctx, r.Query)
		if !errors.Is(err, snapstore.ErrNoCheckpoint) {
			return p, err
		}
		if _, lerr := j.store.Resolve("latest"); lerr != nil {
			break // else it went between being found and leased: there is a newer one
		}
	}
	return stateview.Page{}, fmt.Errorf("%w: no checkpoint is complete", ErrNotYet)
}

func (j *Job) queryNewest(ctx context.Context, q stateview.Query) (p stateview.Page, err error) {
	id, err := j.store.Resolve("latest")
	if err != nil {
		return p, err
	}
	lease, err := j.store.Lease("query", id)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, lease.Release()) }()
	m, err := j.store.Load(id)
	if err != nil {
		return p, err
	}
	return stateview.Open(m, j.store).Page(ctx, q)
}

// look asks the task that has the key.
func (j *Job) look(ctx context.Context, q stateview.Query) (stateview.Page, error) {
	j.mu.Lock()
	a, newest := j.current, j.coord.LastComplete
	j.mu.Unlock()
	if a == nil {
		return stateview.Page{}, fmt.Errorf("%w: no task runs", ErrNotYet)
	}
	v := stateview.Declared(newest, a.seed, StateRefs(j.Running().Graph))
	l, err := v.Live(q)
	if err != nil {
		return stateview.Page{}, err
	}
	t := a.taskOfKey(l)
	if t == nil {
		return stateview.Page{}, fmt.Errorf("%w: operator %s does not run", snapread.ErrNoState, l.Operator)
	}
	type answer struct {
		page stateview.Page
		err  error
	}
	done := make(chan answer, 1)
	t.Control(task.Control{Look: func(find func(string) operators.Operator) {
		p := stateview.Page{Snapshot: newest, Rows: []json.RawMessage{}}
		err := readLive(find(l.Operator), l, &p)
		done <- answer{p, err}
	}})
	select {
	case x := <-done:
		return x.page, x.err
	case <-a.over:
		return stateview.Page{}, ErrEnded
	case <-ctx.Done():
		return stateview.Page{}, ctx.Err()
	}
}

// errPageFull ends a look.
var errPageFull = errors.New("page is full")

// readLive fills a page; by the task's goroutine.
func readLive(op operators.Operator, l *stateview.Live, p *stateview.Page) error {
	s, ok := op.(operators.LiveState)
	if !ok {
		return fmt.Errorf("%w: %s", operators.ErrNoLive, l.Operator)
	}
	err := s.EachLive(l.State, l.Key, func(ukey, value []byte) error {
		if l.Row(p, ukey, value) {
			return errPageFull
		}
		return nil
	})
	if errors.Is(err, errPageFull) {
		return nil
	}
	return err
}

// taskOfKey is the task that owns a key of an operator; nil: there is none.
func (a *attempt) taskOfKey(l *stateview.Live) *task.Task {
	var all []*task.Task
	for _, t := range a.tasks {
		if t.Runs(l.Operator) {
			all = append(all, t)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[state.TaskOf(l.Key.Hash, len(all))]
}
