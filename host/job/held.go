package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/operators/spec"
)

// The pipeline file names a canary's candidate from before its first step on, and still after it was reverted. So
// that a start of the same command does not give it all keys, the state folder remembers that it is held back: what
// the newest checkpoint has in force runs instead, from the snapshot store.

// heldFile is written before a canary's first step.
const heldFile = "held.json"

// held is a module that a canary brought and that was not put in force.
type held struct {
	Operator string `json:"operator"`
	Digest   string `json:"digest"`
}

func readHeld(stateDir string) (hs []held, err error) {
	path := filepath.Join(stateDir, heldFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &hs)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w; remove it to run what the pipeline file names", path, err)
	}
	return hs, nil
}

// writeHeld writes the list to disk, by rename.
func writeHeld(stateDir string, hs []held) error {
	path := filepath.Join(stateDir, heldFile)
	if len(hs) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	b, err := json.MarshalIndent(hs, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.Create(path + ".tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}

// hold adds a canary's modules to the list.
func (j *Job) hold(ms []checkpoint.ModuleRef) error {
	hs, err := readHeld(j.opts.StateDir)
	if err != nil {
		return err
	}
	n := len(hs)
	for _, m := range ms {
		if h := (held{m.Operator, m.Digest}); !slices.Contains(hs, h) {
			hs = append(hs, h)
		}
	}
	if len(hs) == n {
		return nil
	}
	return writeHeld(j.opts.StateDir, hs)
}

// release takes what is in force off the list.
func (j *Job) release() {
	hs, err := readHeld(j.opts.StateDir)
	rest := slices.DeleteFunc(slices.Clone(hs), func(h held) bool {
		m := j.modules[h.Operator]
		return m != nil && m.Digest() == h.Digest
	})
	if err == nil && len(rest) < len(hs) {
		err = writeHeld(j.opts.StateDir, rest)
	}
	if err != nil {
		j.warn("modules that are held back: " + err.Error())
	}
}

// behind is the code that a start from a checkpoint goes on with: what is in force behind its barrier, or, where
// somebody chose an older one, what left it.
func (j *Job) behind(m *checkpoint.Manifest) checkpoint.Next {
	if m.ID == j.restore {
		return m.Before()
	}
	return m.InForce()
}

// holdBack runs what the newest checkpoint has in force where the pipeline file names a module that only a canary
// runs, or ran.
func (j *Job) holdBack(ctx context.Context) error {
	m, err := j.store.Latest(ctx)
	if j.restore != 0 {
		m, err = j.store.Load(j.restore)
	}
	if err != nil {
		return nil // there is none, or the start says what is wrong with it
	}
	hs, err := readHeld(j.opts.StateDir)
	if err != nil {
		return err
	}
	code := j.behind(m)
	digests := map[string]string{}
	for _, ref := range code.Modules {
		is := j.modules[ref.Operator]
		if is == nil || is.Digest() == ref.Digest {
			continue
		}
		c, on := code.Canary.Module(ref.Operator)
		if on && c.Digest == is.Digest() || slices.Contains(hs, held{ref.Operator, is.Digest()}) {
			digests[ref.Operator] = ref.Digest
		}
	}
	if len(digests) == 0 {
		return nil
	}
	v, err := j.storedRevision(ctx, digests)
	if err != nil {
		return err
	}
	gone := Revision{Modules: j.modules}
	for id, digest := range digests {
		if _, on := code.Canary.Module(id); !on {
			j.note(fmt.Sprintf("operator %s: module %.12s of the pipeline file is held back since its canary ended, %.12s runs; millrace upgrade puts it in", id, j.modules[id].Digest(), digest))
		}
	}
	j.opts.Graph, j.modules, j.plan = v.Graph, v.Modules, NewPlan(v.Graph)
	return gone.Discard(v.Modules)
}

// storedRevision is the pipeline that runs, with modules of the snapshot store for some operators.
func (j *Job) storedRevision(ctx context.Context, digests map[string]string) (v *Revision, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w: modules of the snapshot store in this pipeline file: %w", ErrUnfit, err)
		}
	}()
	if j.opts.Compile == nil {
		return nil, errors.New("there is nothing that compiles them")
	}
	g := j.opts.Graph
	s := &storedInfo{byPath: map[string]guestop.Module{}, path: func(n *operators.Node) string {
		if filepath.IsAbs(n.Guest.Module) {
			return filepath.Clean(n.Guest.Module)
		}
		return filepath.Join(filepath.Dir(g.File), n.Guest.Module)
	}, described: map[string]bool{}}
	v = &Revision{Modules: map[string]guestop.Module{}}
	var fresh []guestop.Module
	defer func() {
		if err != nil {
			err = errors.Join(err, closeModules(fresh))
		}
	}()
	for _, n := range g.GuestNodes() {
		m := j.modules[n.ID]
		if digest := digests[n.ID]; digest != "" && digest != m.Digest() {
			wasm, err := j.store.Read(ctx, digest)
			if err != nil {
				return nil, fmt.Errorf("operator %s: module %.12s: %w", n.ID, digest, err)
			}
			if m, err = j.opts.Compile(ctx, wasm, n.Guest.Describe); err != nil {
				return nil, fmt.Errorf("operator %s: module %.12s: %w", n.ID, digest, err)
			}
			fresh = append(fresh, m)
		}
		if err := s.add(n, m); err != nil {
			return nil, err
		}
		v.Modules[n.ID] = m
	}
	file, err := filepath.Abs(g.File)
	if err != nil {
		return nil, err
	}
	if v.Graph, err = spec.Parse(file, g.Text, spec.Options{Modules: s}); err != nil {
		return nil, err
	}
	v.Graph.File = g.File
	return v, nil
}

// storedInfo tells a pipeline file of modules that are compiled already. It implements spec.Modules.
type storedInfo struct {
	byPath    map[string]guestop.Module
	described map[string]bool // by the pipeline file
	path      func(n *operators.Node) string
}

// add is the module of a node; two nodes of one file can't have different ones.
func (s *storedInfo) add(n *operators.Node, m guestop.Module) error {
	p := s.path(n)
	if was := s.byPath[p]; was != nil && was.Digest() != m.Digest() {
		return fmt.Errorf("file %s would be module %.12s for operator %s and %.12s for another: give each a file of its own", n.Guest.Module, m.Digest(), n.ID, was.Digest())
	}
	s.byPath[p], s.described[p] = m, n.Guest.Describe != nil
	return nil
}

// ModuleInfo implements spec.Modules.
func (s *storedInfo) ModuleInfo(path string) (*abi.Descriptor, string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, "", err
	}
	for p, m := range s.byPath {
		if q, err := filepath.Abs(p); err != nil || q != abs {
			continue
		}
		if s.described[p] {
			return nil, m.Digest(), nil
		}
		return m.Descriptor(), m.Digest(), nil
	}
	return nil, "", fmt.Errorf("no module %s is in use", path)
}

// resumeCanary goes on with the canary that a checkpoint has, or without. again: the checkpoint has put the canary's
// code in force, so that what was read of the pipeline is that of the code before.
func (j *Job) resumeCanary(ctx context.Context, m *checkpoint.Manifest) (ref *checkpoint.Canary, again bool, err error) {
	code, on := j.behind(m), j.canaryOn()
	c := code.Canary
	if c != nil {
		if why := j.unresumable(&code, c); why != "" {
			j.note(fmt.Sprintf("the canary of checkpoint %d (%v) ends: %s", m.ID, c, why))
			c = nil
		}
	}
	switch {
	case c == nil && on == nil:
		return nil, false, nil
	case c == nil:
		promoted := on.runs(code.Modules) && !on.runs(j.moduleRefs())
		j.setCanary(nil)
		if promoted {
			j.enforce(&on.rev)
		}
		return nil, promoted, nil
	case on != nil && on.runs(c.Modules):
		next := *on
		next.ref = *c
		j.setCanary(&next)
		return c, false, nil
	}
	digests := map[string]string{}
	for _, ref := range c.Modules {
		digests[ref.Operator] = ref.Digest
	}
	v, err := j.storedRevision(ctx, digests)
	if err != nil {
		return nil, false, err
	}
	j.setCanary(nil)
	j.setCanary(&canary{rev: *v, ref: *c, errors: c.Errors})
	return c, false, nil
}

// runs says that its operators run these modules.
func (c *canary) runs(ms []checkpoint.ModuleRef) bool {
	for _, m := range c.ref.Modules {
		if !slices.ContainsFunc(ms, func(o checkpoint.ModuleRef) bool { return o.Operator == m.Operator && o.Digest == m.Digest }) {
			return false
		}
	}
	return true
}

// unresumable says why a canary can't go on; empty: it can.
func (j *Job) unresumable(code *checkpoint.Next, c *checkpoint.Canary) string {
	rs, err := RefusedModules(j.opts.StateDir)
	if err != nil {
		return err.Error()
	}
	var why []string
	for _, m := range c.Modules {
		is := j.modules[m.Operator]
		if slices.ContainsFunc(rs, func(r Refused) bool { return r.Digest == m.Digest }) {
			why = append(why, fmt.Sprintf("module %.12s of operator %s failed", m.Digest, m.Operator))
		} else if is == nil || !slices.ContainsFunc(code.Modules, func(o checkpoint.ModuleRef) bool { return o.Operator == m.Operator && o.Digest == is.Digest() }) {
			why = append(why, "the pipeline file names another module for operator "+m.Operator)
		}
	}
	if len(why) == 0 && j.opts.Compile == nil && j.canaryOn() == nil {
		why = append(why, "there is nothing that compiles its module")
	}
	return strings.Join(why, ", ")
}
