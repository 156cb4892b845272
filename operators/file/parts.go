package file

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/crashpoint"
	"github.com/millrace-io/millrace/operators"
)

// parts is a sink's folder of part files.
type parts struct {
	sink   *Sink
	folder string
	stage  string
	seq    int64
	cur    *part
	live   []*part // cut or full, not known to be durable under their final names
	wg     sync.WaitGroup
	failed atomic.Pointer[error] // of the background
}

// part is one part file.
type part struct {
	name    string
	file    writeFile
	hash    hash.Hash
	size    int64
	records int64
	id      checkpoint.ID // barrier that cut it; 0: none yet
	sum     string        // SHA-256 in hex of a part of an earlier run; file and hash are nil then
	renamed bool
	synced  bool        // staged bytes are durable; background only
	durable atomic.Bool // the rename is
}

// withdrawnPrefix marks what was taken back, beside what is staged.
const withdrawnPrefix = "withdrawn-"

func partName(task int, seq int64) string { return fmt.Sprintf("part-%04d-%08d.ndjson", task, seq) }

func parsePart(name string) (task int, seq int64, ok bool) {
	n, _ := fmt.Sscanf(name, "part-%d-%d.ndjson", &task, &seq)
	return task, seq, n == 2 && name == partName(task, seq)
}

// open repeats the renames of the checkpoint, removes what was staged after it and refuses parts that
// it does not know.
func (p *parts) open() (err error) {
	s := p.sink
	if err := s.checkFolder(p.folder); err != nil {
		return err
	}
	if p.stage, err = stageDir(s.ctx, p.folder); err != nil {
		return err
	}
	for i, r := range s.ctx.Restored {
		p.seq = max(p.seq, r.Numbers["sequence"])
		if i == s.ctx.Task {
			s.sum = r.Numbers["records"]
		}
		if !s.mine(i) {
			continue
		}
		for _, f := range r.Staged {
			if s.held(f) {
				if err := p.keep(f); err != nil {
					return err
				}
				continue
			}
			if err := s.republish(p.stage, f, filepath.Join(p.folder, filepath.Base(f.Final))); err != nil {
				return err
			}
		}
	}
	if len(s.ctx.Restored) > 0 {
		if err := s.disk.syncDir(p.folder); err != nil {
			return err
		}
	}
	if err := p.sweep(); err != nil {
		return err
	}
	return p.refuseForeign()
}

// keep takes over a staged part that is not to be published yet.
func (p *parts) keep(f checkpoint.StagedFile) error {
	name := filepath.Base(f.Staged)
	if err := p.sink.stillStaged(filepath.Join(p.stage, name), f.Size); err != nil {
		return err
	}
	p.live = append(p.live, &part{name: name, size: f.Size, records: f.Records, id: f.Cut, sum: f.SHA256, synced: true})
	return nil
}

// sweep removes staged parts of this task that no checkpoint speaks of.
func (p *parts) sweep() error {
	names, err := p.sink.disk.list(p.stage)
	if err != nil {
		return err
	}
	for _, n := range names {
		kept := slices.ContainsFunc(p.live, func(f *part) bool { return f.name == n })
		if t, _, ok := parsePart(n); ok && !kept && p.sink.mine(t) {
			if err := p.sink.disk.remove(filepath.Join(p.stage, n)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *parts) refuseForeign() error {
	names, err := p.sink.disk.list(p.folder)
	if err != nil {
		return err
	}
	for _, n := range names {
		t, seq, ok := parsePart(n)
		if !ok || !p.sink.mine(t) {
			continue
		}
		switch {
		case len(p.sink.ctx.Restored) == 0:
			return fmt.Errorf("%w: %s is there before this job has written anything; move it away, or name another path", operators.ErrNotOurs, filepath.Join(p.folder, n))
		case seq >= p.seq && p.sink.ctx.Withdraw:
			if err := p.sink.withdraw(filepath.Join(p.folder, n), p.withdrawnPath(n)); err != nil {
				return err
			}
		case seq >= p.seq:
			return fmt.Errorf("%w: %s was published after the checkpoint to start from; withdraw it, or start from the last checkpoint", operators.ErrNotOurs, filepath.Join(p.folder, n))
		}
	}
	return nil
}

// withdrawnPath is where a part that is withdrawn is kept. The same one may have been withdrawn, and made anew,
// before: each is kept.
func (p *parts) withdrawnPath(name string) string {
	first := filepath.Join(p.stage, withdrawnPrefix+name)
	path := first
	for i := 2; ; i++ {
		if _, err := p.sink.disk.stat(path); errors.Is(err, fs.ErrNotExist) {
			return path
		}
		path = fmt.Sprintf("%s.%d", first, i)
	}
}

func (p *parts) write(b []byte, records int64) error {
	if err := p.background(); err != nil {
		return err
	}
	if p.cur == nil {
		name := partName(p.sink.ctx.Task, p.seq)
		f, err := p.sink.disk.openAt(filepath.Join(p.stage, name), 0)
		if err != nil {
			return err
		}
		p.seq++
		p.cur = &part{name: name, file: f, hash: sha256.New()}
	}
	if err := p.sink.writeHalves(p.cur.file, b); err != nil {
		return fmt.Errorf("staging %s: %w", p.cur.name, err)
	}
	p.cur.hash.Write(b)
	p.cur.size += int64(len(b))
	p.cur.records += records
	limit := p.sink.cfg.PartBytes
	if limit <= 0 {
		limit = defaultPartBytes
	}
	if p.cur.size >= limit {
		p.retire()
	}
	return nil
}

func (p *parts) retire() {
	if p.cur != nil {
		p.live = append(p.live, p.cur)
		p.cur = nil
	}
}

// background is the first error of a background fsync of the folder.
func (p *parts) background() error {
	if e := p.failed.Load(); e != nil {
		return *e
	}
	return nil
}

func (p *parts) cut(id checkpoint.ID, _ bool) (func(*checkpoint.OperatorSnapshot) error, error) {
	if err := p.background(); err != nil {
		return nil, err
	}
	p.retire()
	kept := p.live[:0]
	for _, f := range p.live {
		if f.durable.Load() {
			continue
		}
		if f.id == 0 {
			f.id = id
		}
		kept = append(kept, f)
	}
	clear(p.live[len(kept):])
	p.live = kept
	listed := append([]*part(nil), kept...)
	seq := p.seq
	return func(snap *checkpoint.OperatorSnapshot) error {
		snap.Numbers["sequence"] = seq
		return p.sync(listed, snap)
	}, nil
}

// sync makes the listed parts durable under their staged names.
func (p *parts) sync(listed []*part, snap *checkpoint.OperatorSnapshot) error {
	fresh := false
	for _, f := range listed {
		if !f.synced {
			fresh = true
			p.sink.ctx.Crash(crashpoint.AfterWrite)
			if err := f.file.Sync(); err != nil {
				return fmt.Errorf("staging %s: %w", f.name, err)
			}
			if err := f.file.Close(); err != nil {
				return fmt.Errorf("staging %s: %w", f.name, err)
			}
			f.synced = true
		}
		sum := f.sum
		if sum == "" {
			sum = hex.EncodeToString(f.hash.Sum(nil))
		}
		snap.Staged = append(snap.Staged, checkpoint.StagedFile{
			Staged: filepath.Join(p.stage, f.name), Final: filepath.Join(p.folder, f.name),
			Size: f.size, SHA256: sum, Records: f.records, Cut: f.id})
	}
	if fresh {
		if err := p.sink.disk.syncDir(p.stage); err != nil {
			return err
		}
	}
	p.sink.ctx.Crash(crashpoint.AfterSync)
	return nil
}

// publish renames, and has the folder fsynced in the background: until that is done the parts stay
// in the list of the next checkpoints, whose restore repeats the rename.
func (p *parts) publish(id checkpoint.ID) error {
	var done []*part
	for _, f := range p.live {
		if f.id == 0 || f.id > id || f.renamed {
			continue
		}
		if len(done) > 0 {
			p.sink.ctx.Crash(crashpoint.BetweenRenames)
		}
		final := filepath.Join(p.folder, f.name)
		if err := notOurs(p.sink.disk.rename(filepath.Join(p.stage, f.name), final), final); err != nil {
			return err
		}
		f.renamed = true
		done = append(done, f)
	}
	if len(done) == 0 {
		return nil
	}
	p.sink.ctx.Crash(crashpoint.AfterRename)
	p.wg.Add(1)
	go func() {
		defer p.wg.Done()
		if err := p.sink.disk.syncDir(p.folder); err != nil {
			p.failed.CompareAndSwap(nil, &err)
			return
		}
		for _, f := range done {
			f.durable.Store(true)
		}
	}()
	return nil
}

func (p *parts) close() error {
	p.wg.Wait()
	if p.cur != nil {
		p.cur.file.Close()
	}
	for _, f := range p.live {
		if f.id == 0 {
			f.file.Close()
		}
	}
	return p.background()
}
