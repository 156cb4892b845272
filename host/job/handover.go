package job

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/crashpoint"
	"github.com/millrace-io/millrace/host/hostcall"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/state/memimage"
)

// A module can't read the memory of another's instances. handover lets the old one say what its variables mean, and
// the new one take that over, instance by instance.
type handover struct {
	node  *operators.Node
	old   guestop.Module // closed by close
	now   guestop.Module
	snaps []checkpoint.OperatorSnapshot // of all instances
	bytes int64                         // of the streams so far
}

// wayOut says how an operator's variables get to another module.
const wayOut = "the old module has to export " + abi.ExportSave + " (\"save\": true) and the new one " + abi.ExportLoad + " (\"load\": true)"

// handovers finds the operators whose instances a snapshot has as another module left them. Errors: ErrUnfit with
// all that can't go over. The caller closes what is returned.
func (j *Job) handovers(ctx context.Context, r *checkpoint.Restore, v *Revision) (out []*handover, err error) {
	var problems []string
	for _, n := range v.Graph.Nodes {
		snaps, now := r.Operator(n.ID), v.Modules[n.ID]
		if n.Guest == nil || n.Guest.Instances == 0 || now == nil || len(snaps) == 0 || snaps[0].Memory == nil || snaps[0].Memory.Module == now.Digest() {
			continue
		}
		h := &handover{node: n, now: now, snaps: snaps}
		if why := h.open(ctx, j); why != "" {
			problems = append(problems, fmt.Sprintf("operator %s has the memory of instances of module %.12s, and another module (%.12s) can't read it: %s; %s. Else run the old one, or start afresh (--fresh)",
				n.ID, snaps[0].Memory.Module, now.Digest(), why, wayOut))
		}
		if h.old != nil {
			out = append(out, h)
		}
	}
	if len(problems) > 0 {
		return nil, errors.Join(fmt.Errorf("%w: %s", ErrUnfit, strings.Join(problems, "; ")), closeHandovers(out))
	}
	return out, nil
}

// open compiles the old module; what it returns is in the way, empty: nothing.
func (h *handover) open(ctx context.Context, j *Job) string {
	digest := h.snaps[0].Memory.Module
	if !h.now.Descriptor().Load {
		return "the new one does not load"
	}
	if j.opts.Compile == nil {
		return "there is nothing that compiles the old one"
	}
	wasm, err := j.store.Read(ctx, digest)
	if err != nil {
		return fmt.Sprintf("the old one is not in the snapshot store: %v", err)
	}
	if h.old, err = j.opts.Compile(ctx, wasm, h.node.Guest.Describe); err != nil {
		return fmt.Sprintf("the old one does not compile: %v", err)
	}
	if !h.old.Descriptor().Save {
		return "the old one does not save"
	}
	return ""
}

func closeHandovers(hs []*handover) error {
	var errs []error
	for _, h := range hs {
		errs = append(errs, closeModules([]guestop.Module{h.old}))
	}
	return errors.Join(errs...)
}

// tryHandovers lets all go over without keeping it.
func (j *Job) tryHandovers(ctx context.Context, m *checkpoint.Manifest, r *checkpoint.Restore, v *Revision) error {
	return j.handOver(ctx, m, r, v, func(context.Context, *handover, int, guestop.Guest) error { return nil })
}

// handMemoryOver makes new images of what the revision in force runs with other modules than the snapshot: the
// snapshot stays as it is, the next checkpoint names the new ones.
func (j *Job) handMemoryOver(ctx context.Context, m *checkpoint.Manifest, r *checkpoint.Restore) error {
	v := j.Running()
	dir := filepath.Join(j.opts.StateDir, "work", "handover")
	done := map[*handover][]checkpoint.OperatorSnapshot{}
	err := j.handOver(ctx, m, r, &v, func(ctx context.Context, h *handover, i int, g guestop.Guest) error {
		k, err := memimage.New(memimage.Config{Dir: filepath.Join(dir, h.node.ID, fmt.Sprint(i)), FS: j.opts.StateFS, Objects: j.store, Seed: m.Seed})
		if err != nil {
			return err
		}
		cut, err := k.Cut(ctx, g.(guestop.Imager).Capture)
		if err != nil {
			return err
		}
		<-cut.Done()
		snap, err := cut.Result()
		if err != nil {
			return err
		}
		if done[h] == nil {
			done[h] = slices.Clone(h.snaps)
		}
		done[h][i].Memory = &snap
		return nil
	})
	if err != nil || len(done) == 0 {
		return err
	}
	for h, snaps := range done {
		r.Replace(h.node.ID, snaps)
		j.event(Event{Kind: EventNote, Message: fmt.Sprintf("operator %s: the variables of %d instances went from module %.12s to %.12s, in %d bytes",
			h.node.ID, len(snaps), h.old.Digest(), h.now.Digest(), h.bytes)})
	}
	crashpoint.Hit(crashpoint.AfterSwap)
	return os.RemoveAll(dir)
}

// handOver takes every instance of every operator over; keep gets each new one, which is closed behind it.
func (j *Job) handOver(ctx context.Context, m *checkpoint.Manifest, r *checkpoint.Restore, v *Revision, keep func(context.Context, *handover, int, guestop.Guest) error) error {
	hs, err := j.handovers(ctx, r, v)
	if err != nil {
		return err
	}
	for _, h := range hs {
		for i := range h.snaps {
			if err := h.instance(ctx, j, m, i, keep); err != nil {
				return errors.Join(fmt.Errorf("%w %d: operator %s, instance %d of %d: the variables of module %.12s can't go over to %.12s: %w",
					ErrUnfit, m.ID, h.node.ID, i, len(h.snaps), h.old.Digest(), h.now.Digest(), err), closeHandovers(hs))
			}
		}
	}
	return closeHandovers(hs)
}

// instance makes old instance i what it was, and a new one of what it says.
func (h *handover) instance(ctx context.Context, j *Job, m *checkpoint.Manifest, i int, keep func(context.Context, *handover, int, guestop.Guest) error) (err error) {
	old, err := h.guest(h.old)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, old.Close()) }()
	now, err := h.guest(h.now)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, now.Close()) }()
	snap := h.snaps[i].Memory
	if snap == nil {
		return errors.New("the snapshot does not have it")
	}
	err = memimage.Read(ctx, memimage.Config{FS: j.opts.StateFS, Objects: j.store, Seed: m.Seed}, *snap, old.(guestop.Imager).Adopt)
	if err != nil {
		return err
	}
	to := now.(guestop.Saver)
	err = old.(guestop.Saver).Save(func(b []byte) error {
		h.bytes += int64(len(b))
		return to.Load(b)
	})
	if err == nil {
		err = to.Load(nil)
	}
	if err != nil {
		return err
	}
	return keep(ctx, h, i, now)
}

// guest makes an instance outside any task.
func (h *handover) guest(m guestop.Module) (guestop.Guest, error) {
	g, err := m.New(hostcall.NoEnv{}, guestop.InstanceOptions{MemoryBytes: h.node.Guest.Memory})
	if err != nil {
		return nil, err
	}
	_, saves := g.(guestop.Saver)
	if _, images := g.(guestop.Imager); !saves || !images {
		return nil, errors.Join(errors.New("this engine can't capture an instance's memory"), g.Close())
	}
	return g, nil
}
