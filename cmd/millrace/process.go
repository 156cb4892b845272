package main

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"sync"

	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/host/worker"
)

// process is a worker in a process of its own: this program again.
type process struct {
	*worker.Remote
	cmd  *exec.Cmd
	once sync.Once
}

// startWorker starts one. Its pipeline's stdin and stdout are this process's; it ends with this process,
// since its control pipe does.
func startWorker(s streams, event func(job.Event)) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, inR.Close(), inW.Close())
	}
	cmd := exec.Command(self, "worker")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.in, s.out, s.err
	cmd.ExtraFiles = []*os.File{inR, outW} // descriptors workerIn and workerOut
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, inR.Close(), inW.Close(), outR.Close(), outW.Close())
	}
	inR.Close()
	outW.Close()
	log := slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	p := &process{cmd: cmd}
	p.Remote = worker.NewRemote(outR, inW, func() error { return errors.Join(inW.Close(), outR.Close()) },
		worker.Options{Log: log, Event: event})
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// kill ends the process as kill -9 does, and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	p.end()
}

// end closes the control pipe, on which the worker ends, and waits for the process.
func (p *process) end() {
	p.once.Do(func() {
		_ = p.Close()
		_ = p.cmd.Wait()
	})
}
