package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/abi/abitest"
	"github.com/millrace-io/millrace/guests/cases"
)

const keys = 24

// pipelineText is a text over the parallelism of the function.
const pipelineText = `name: upgrades
linger: 0ms
checkpoint: {interval: 20ms, retain: 4}
operators:
  - {id: in, source: file, path: in.ndjson, follow: true, fields: {key: string, n: int64}}
  - {id: by, key_by: key}
  - id: count
    process: {module: count.wasm, function: count, check: off}  # the version that traps counts in its own memory
    parallelism: %d
  - {id: out, sink: file, path: out/}
`

// trial is one pipeline with changes until it has had its share.
type trial struct {
	tally
	o    *options
	dir  string
	rng  *rand.Rand
	good map[string]bool // versions that may have made output
	eras []era           // of a trial of canaries

	version     int // number of the newest version tried
	schema      int // of its state
	module      []byte
	parallelism int

	mu   sync.Mutex // the input
	sent int
	stop chan struct{}
	fed  sync.WaitGroup

	cmd  *exec.Cmd
	talk *bytes.Buffer
	done chan struct{}
}

// trial runs one pipeline through changes: at most swaps and scales of each kind.
func (o *options) trial(number uint64, swaps, scales int) (*tally, error) {
	t, err := o.begin("trial", number)
	if err != nil {
		return nil, err
	}
	for i := 0; i < o.perRun && len(t.Failures) == 0 && (t.Swaps < swaps || t.Scales < scales); i++ {
		if t.Swaps < swaps && (t.Scales >= scales || t.rng.IntN(2) == 0) {
			t.swapCycle()
			t.Swaps++
		} else {
			t.scaleCycle()
			t.Scales++
		}
	}
	t.end()
	fmt.Fprintf(os.Stderr, "%s: %d swaps, %d scales, %d kills, %d records, %d failures\n", filepath.Base(t.dir), t.Swaps, t.Scales, t.Kills, t.Records, len(t.Failures))
	return t.result()
}

// begin starts a pipeline whose input never rests.
func (o *options) begin(kind string, number uint64) (*trial, error) {
	dir, err := os.MkdirTemp(o.scratch, fmt.Sprintf("%s-%d-", kind, number))
	if err != nil {
		return nil, err
	}
	t := &trial{o: o, dir: dir, rng: rand.New(rand.NewPCG(o.seed, number)), good: map[string]bool{}, parallelism: 1, stop: make(chan struct{})}
	t.module = t.next(cases.UpgradeCounts, 0)
	t.good[t.tag()] = true
	if err := t.write(); err != nil {
		return nil, err
	}
	if err := t.feed(100); err != nil {
		return nil, err
	}
	t.fed.Go(t.flow)
	t.start("")
	return t, nil
}

// result leaves the folder of what went wrong.
func (t *trial) result() (_ *tally, err error) {
	if !t.wrong() && !t.o.keep {
		err = os.RemoveAll(t.dir)
	}
	return &t.tally, err
}

func (t *trial) tag() string { return fmt.Sprintf("v%d", t.version) }

// next is the next version's module.
func (t *trial) next(behaviour byte, number int) []byte {
	t.version++
	wasm := cases.Upgrade(t.tag(), behaviour, number)
	return abitest.Redescribe(wasm, func(d *abi.Descriptor) { d.Functions[0].States[0].Version = t.schema })
}

// write makes the pipeline file and its module what they are to be.
func (t *trial) write() error {
	if err := os.WriteFile(filepath.Join(t.dir, "count.wasm"), t.module, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(t.dir, "p.yaml"), fmt.Appendf(nil, pipelineText, t.parallelism), 0o644)
}

// feed appends records.
func (t *trial) feed(n int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b bytes.Buffer
	for range n {
		fmt.Fprintf(&b, "{\"key\":\"k%d\",\"n\":%d}\n", t.sent%keys, t.sent)
		t.sent++
	}
	f, err := os.OpenFile(filepath.Join(t.dir, "in.ndjson"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.Write(b.Bytes()); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// flow never lets the input rest.
func (t *trial) flow() {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-t.stop:
			return
		case <-tick.C:
			if err := t.feed(20); err != nil {
				return
			}
		}
	}
}

func (t *trial) fail(format string, args ...any) {
	t.Failures = append(t.Failures, filepath.Base(t.dir)+": "+fmt.Sprintf(format, args...))
}

// environment has the plan of a crash, "" for none.
func (t *trial) environment(plan string) []string {
	return append(os.Environ(), "MILLRACE_CRASH="+plan, "XDG_CACHE_HOME="+filepath.Join(t.o.scratch, "cache"))
}

// start starts the pipeline's process and waits until it answers, or has died of its plan.
func (t *trial) start(plan string) {
	t.cmd = exec.Command(t.o.binary, "run", "p.yaml")
	t.talk, t.done = &bytes.Buffer{}, make(chan struct{})
	t.cmd.Stdout, t.cmd.Stderr, t.cmd.Dir, t.cmd.Env = t.talk, t.talk, t.dir, t.environment(plan)
	if err := t.cmd.Start(); err != nil {
		t.fail("start: %v", err)
		close(t.done)
		return
	}
	cmd, done := t.cmd, t.done
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if t.dead() || t.command("status", "p.yaml").code == 0 {
			return
		}
	}
	t.fail("the pipeline does not answer")
}

func (t *trial) dead() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// killed says whether the process died of a kill; after anything else the trial has failed.
func (t *trial) killed() bool {
	<-t.done
	ws, ok := t.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && ws.Signal() == syscall.SIGKILL {
		t.Kills++
		return true
	}
	t.fail("the pipeline ended with %v: %s", t.cmd.ProcessState, tail(t.talk.String()))
	return false
}

// answer is how a command ended.
type answer struct {
	code int
	text string
}

// command runs a command about the pipeline.
func (t *trial) command(args ...string) answer {
	cmd := exec.Command(t.o.binary, args...)
	cmd.Dir, cmd.Env = t.dir, t.environment("")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		return answer{-1, err.Error()}
	}
	return answer{cmd.ProcessState.ExitCode(), string(out)}
}

// armed lets the running process die at a point: it is stopped with a checkpoint and started with a plan.
func (t *trial) armed(plan string) {
	if a := t.command("stop", "p.yaml"); a.code != 0 {
		t.fail("stop: exit %d: %s", a.code, tail(a.text))
		return
	}
	<-t.done
	t.start(plan)
}

// end waits until everything sent is published, stops the process and checks.
func (t *trial) end() {
	close(t.stop)
	t.fed.Wait()
	out := filepath.Join(t.dir, "out")
	for end := time.Now().Add(time.Minute); len(t.Failures) == 0; time.Sleep(20 * time.Millisecond) {
		n, err := published(out)
		if err == nil && n == t.sent {
			break
		}
		if t.dead() || time.Now().After(end) {
			t.fail("%d of %d lines are published, %v: %s", n, t.sent, err, tail(t.talk.String()))
		}
	}
	if a := t.command("stop", "p.yaml"); a.code != 0 && len(t.Failures) == 0 {
		t.fail("stop: exit %d: %s", a.code, tail(a.text))
	}
	if !t.dead() {
		select {
		case <-t.done:
		case <-time.After(10 * time.Second):
			_ = t.cmd.Process.Kill()
			<-t.done
		}
	}
	order := rising(t.good)
	if t.eras != nil {
		order = t.byEras
	}
	if err := t.check(out, t.sent, keys, order); err != nil {
		t.fail("check: %v", err)
	}
}

func tail(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-6):], " | ")
}

var planLine = regexp.MustCompile(`plan ([0-9a-f]{12})`)
