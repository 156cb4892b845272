package file

import (
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"path/filepath"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/crashpoint"
	"github.com/millrace-io/millrace/operators"
)

// single is a sink's one output file: staged, appended to, published at the end of input.
type single struct {
	sink  *Sink
	final string
	stage string // the staged file
	file  writeFile
	hash  hash.Hash
	state singleState
	ends  checkpoint.ID // first barrier behind the end of input
	done  bool          // published
}

// singleState is what a checkpoint keeps of it.
type singleState struct {
	Size    int64  `json:"size"` // bytes of the staged file that belong to the checkpoint
	Records int64  `json:"records"`
	Hash    []byte `json:"hash"` // state of the running SHA-256
	End     bool   `json:"end"`  // the file is whole
}

func (o *single) open() error {
	s := o.sink
	if s.ctx.Parallelism != 1 {
		return fmt.Errorf("a single file can't be written by %d tasks; give a folder (a path that ends in /)", s.ctx.Parallelism)
	}
	folder := filepath.Dir(o.final)
	if err := s.checkFolder(folder); err != nil {
		return err
	}
	dir, err := stageDir(s.ctx, folder)
	if err != nil {
		return err
	}
	o.stage = filepath.Join(dir, filepath.Base(o.final)+".staged")
	o.hash = sha256.New()
	if len(s.ctx.Restored) == 0 {
		return o.fresh()
	}
	r := s.ctx.Restored[0]
	if err := json.Unmarshal(r.Data, &o.state); err != nil {
		return fmt.Errorf("state of the single output file: %w", err)
	}
	if err := o.hash.(encoding.BinaryUnmarshaler).UnmarshalBinary(o.state.Hash); err != nil {
		return fmt.Errorf("state of the single output file: %w", err)
	}
	s.sum = r.Numbers["records"]
	return o.restore(dir, r.Staged)
}

func (o *single) fresh() (err error) {
	if st, err := o.sink.disk.stat(o.final); err == nil {
		return fmt.Errorf("%w: %s (a %s) is there before this job has written anything; move it away, or name another path",
			operators.ErrNotOurs, o.final, kindName(st.Mode().IsRegular(), kindOf(st.Mode())))
	}
	o.file, err = o.sink.disk.openAt(o.stage, 0)
	return err
}

func (o *single) restore(dir string, staged []checkpoint.StagedFile) (err error) {
	if o.state.End && len(staged) > 0 && o.sink.held(staged[0]) {
		if err := o.sink.stillStaged(o.stage, o.state.Size); err != nil {
			return err
		}
		o.sink.end, o.ends = true, staged[0].Cut
		o.file, err = o.sink.disk.openAt(o.stage, o.state.Size)
		return err
	}
	if o.state.End {
		for _, f := range staged {
			if err := o.sink.republish(dir, f, o.final); err != nil {
				return err
			}
		}
		o.sink.end, o.done = true, true
		return o.sink.disk.syncDir(filepath.Dir(o.final))
	}
	if _, err := o.sink.disk.stat(o.final); err == nil && o.sink.ctx.Withdraw {
		if _, err := o.sink.disk.stat(o.stage); err != nil { // its beginning is what the checkpoint had staged
			if err := o.sink.withdraw(o.final, o.stage); err != nil {
				return err
			}
		}
	} else if err == nil {
		return fmt.Errorf("%w: %s is there, but this job has not finished writing it", operators.ErrNotOurs, o.final)
	}
	st, err := o.sink.disk.stat(o.stage)
	if err != nil {
		return fmt.Errorf("%w: %s is not there, it had %d bytes", operators.ErrOutputLost, o.stage, o.state.Size)
	}
	if st.Size() < o.state.Size {
		return fmt.Errorf("%w: %s has %d bytes, it had %d", operators.ErrOutputLost, o.stage, st.Size(), o.state.Size)
	}
	o.file, err = o.sink.disk.openAt(o.stage, o.state.Size)
	return err
}

func (o *single) write(b []byte, records int64) error {
	if o.file == nil {
		return fmt.Errorf("%s is already published, but there are more records", o.final)
	}
	if err := o.sink.writeHalves(o.file, b); err != nil {
		return fmt.Errorf("staging %s: %w", o.stage, err)
	}
	o.hash.Write(b)
	o.state.Size += int64(len(b))
	o.state.Records += records
	return nil
}

func (o *single) cut(id checkpoint.ID, end bool) (func(*checkpoint.OperatorSnapshot) error, error) {
	st := o.state
	st.End = end
	var err error
	if st.Hash, err = o.hash.(encoding.BinaryMarshaler).MarshalBinary(); err != nil {
		return nil, err
	}
	if end && o.ends == 0 {
		o.ends = id
	}
	sum := hex.EncodeToString(o.hash.Sum(nil))
	file, ends := o.file, o.ends
	return func(snap *checkpoint.OperatorSnapshot) (err error) {
		if file != nil {
			o.sink.ctx.Crash(crashpoint.AfterWrite)
			if err := file.Sync(); err != nil {
				return fmt.Errorf("staging %s: %w", o.stage, err)
			}
			if err := o.sink.disk.syncDir(filepath.Dir(o.stage)); err != nil {
				return err
			}
			o.sink.ctx.Crash(crashpoint.AfterSync)
		}
		if end {
			snap.Staged = []checkpoint.StagedFile{{Staged: o.stage, Final: o.final, Size: st.Size, SHA256: sum, Records: st.Records, Cut: ends}}
		}
		snap.Data, err = json.Marshal(st)
		return err
	}, nil
}

func (o *single) publish(id checkpoint.ID) error {
	if o.done || o.ends == 0 || id < o.ends {
		return nil
	}
	if err := notOurs(o.sink.disk.rename(o.stage, o.final), o.final); err != nil {
		return err
	}
	o.done = true
	o.sink.ctx.Crash(crashpoint.AfterRename)
	return o.sink.disk.syncDir(filepath.Dir(o.final))
}

func (o *single) close() error {
	if o.file == nil {
		return nil
	}
	return o.file.Close()
}
