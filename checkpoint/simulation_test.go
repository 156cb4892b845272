package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// The simulated job: two sources send numbered records to two counting tasks, and these to one sink, over
// queues. Everything that can go wrong between coordinator, tasks and disk does, in an order drawn from a
// seed. simMsg is a record, a barrier or the end.
type simMsg struct {
	record  int // > 0
	barrier Barrier
	end     bool
}

type simTask struct {
	id       TaskID
	p        int
	in       []*[]simMsg
	out      []*[]simMsg
	align    *Aligner
	offset   int          // of a source: records sent
	limit    int          // of a source: its records; an idle one never ends
	idle     bool         // sends nothing and never ends
	count    int          // records handled
	staged   map[ID][]int // of the sink: what each cut closed and no notice has published
	buffer   []int        // of the sink: since the last cut
	lastCut  ID           // of the sink
	finished bool
}

// snapshot is what the task acknowledges; all its state is in Data, as JSON.
func (s *simTask) snapshot() TaskSnapshot {
	data, err := json.Marshal(map[string]any{"offset": s.offset, "count": s.count, "staged": s.staged})
	if err != nil {
		panic(err)
	}
	return TaskSnapshot{Vertex: s.id.Vertex, Task: s.id.Task, Parallelism: s.p,
		Operators: []OperatorSnapshot{{Operator: s.id.Vertex, Data: data}}}
}

type simState struct {
	Offset, Count int
	Staged        map[ID][]int
}

// world outlives crashes: the disk and what was published.
type world struct {
	t         *testing.T
	seed      uint64
	rng       *rand.Rand
	manifests []*Manifest
	reserved  ID
	used      map[ID]bool
	published map[ID][]int // by the id in its name, so that publishing twice is one
	limits    [2]int
	idle      bool
	now       int64
	quiet     bool // the second part of a run: no more faults, so that it has to end
	seen      map[string]int
}

// job is one life between crashes.
type job struct {
	*world
	c         *Coordinator
	tasks     []*simTask
	events    []Event  // on their way to the coordinator
	orders    []func() // on their way to tasks
	done      bool
	failed    bool
	stopAsked bool
}

func (w *world) chance(n int) bool { return !w.quiet && w.rng.IntN(n) == 0 }

func (w *world) hit(what string) { w.seen[what]++ }

func (w *world) start() *job {
	j := &job{world: w}
	opt := CoordinatorOptions{Template: Manifest{Job: "sim"}, IntervalMS: 20, TimeoutMS: 300,
		Vertices: []Vertex{{"in", 2, true}, {"count", 2, false}, {"out", 1, false}}}
	for _, v := range opt.Vertices {
		for t := range v.Parallelism {
			j.tasks = append(j.tasks, &simTask{id: TaskID{v.ID, t}, p: v.Parallelism, staged: map[ID][]int{}})
		}
	}
	connect := func(from, to *simTask) {
		q := new([]simMsg)
		from.out, to.in = append(from.out, q), append(to.in, q)
	}
	for i := range 2 {
		j.tasks[i].limit, j.tasks[i].idle = w.limits[i], w.idle && i == 1
		connect(j.tasks[i], j.tasks[2])
		connect(j.tasks[i], j.tasks[3])
	}
	connect(j.tasks[2], j.tasks[4])
	connect(j.tasks[3], j.tasks[4])
	restored := ID(0)
	if n := len(w.manifests); n > 0 {
		opt.Restored = w.manifests[n-1]
		restored = opt.Restored.ID
		j.restore(opt.Restored)
	}
	for _, task := range j.tasks[2:] {
		task.align, task.lastCut = NewAligner(2, restored), restored
	}
	c, err := NewCoordinator(opt)
	if err != nil {
		w.t.Fatal(err)
	}
	j.c = c
	j.step(Tick{})
	return j
}

func (j *job) restore(m *Manifest) {
	r, err := PlanRestore(m, Target{Job: "sim", Operators: []string{"in", "count", "out"}})
	if err != nil {
		j.fatal("restore %d: %v", m.ID, err)
	}
	for _, task := range j.tasks {
		var s simState
		if err := json.Unmarshal(r.Operator(task.id.Vertex)[task.id.Task].Data, &s); err != nil {
			j.fatal("restore: %v", err)
		}
		task.offset, task.count = s.Offset, s.Count
		for id, records := range s.Staged { // the commit that the manifest promised
			j.publish(id, records)
		}
	}
}

func (w *world) publish(id ID, records []int) {
	if old, ok := w.published[id]; ok && !slices.Equal(old, records) {
		w.fatal("part %d is published with %d records, then with %d", id, len(old), len(records))
	}
	w.published[id] = records
}

func (w *world) fatal(format string, args ...any) {
	w.t.Fatalf("seed %d: %s", w.seed, fmt.Sprintf(format, args...))
}

// step gives the coordinator an event and carries its effects out, later and with losses.
func (j *job) step(ev Event) {
	for _, e := range j.c.Step(Instant{MonoMS: j.now, WallMS: j.now}, ev) {
		switch e := e.(type) {
		case ReserveIDs:
			j.events = append(j.events, IDsReserved{First: j.reserved + 1, N: e.N})
			j.reserved += ID(e.N)
		case InjectBarrier:
			if j.used[e.Barrier.ID] {
				j.fatal("id %d is used twice", e.Barrier.ID)
			}
			j.used[e.Barrier.ID] = true
			for _, task := range j.tasks[:2] {
				j.orders = append(j.orders, func() { j.inject(task, e.Barrier) })
			}
		case AbortCheckpoint:
			j.hit("abort")
			for _, task := range j.tasks[2:] {
				if !j.chance(4) { // an abort may get lost
					j.orders = append(j.orders, func() { task.align.Abort(e.ID) })
				}
			}
		case WriteManifest:
			j.write(e.Manifest)
		case NotifyComplete:
			j.hit("complete")
			switch sink := j.tasks[4]; {
			case j.chance(3):
				j.hit("notice lost")
			case j.chance(3):
				j.orders = append(j.orders, func() { j.complete(sink, e.ID) })
				fallthrough
			default:
				j.orders = append(j.orders, func() { j.complete(sink, e.ID) })
			}
		case JobDone:
			j.done = true
			j.complete(j.tasks[4], e.ID)
		case FailJob:
			j.hit("fail")
			j.failed = true
		}
	}
}

// write is the disk: it works, refuses, or loses its answer.
func (j *job) write(m *Manifest) {
	data, err := Encode(m)
	if err != nil {
		j.fatal("manifest %d: %v", m.ID, err)
	}
	j.checkCut(m)
	durable := func() {
		back, err := Decode(data)
		if err != nil {
			j.fatal("manifest %d: %v", m.ID, err)
		}
		if n := len(j.manifests); n > 0 && j.manifests[n-1].ID >= m.ID {
			j.fatal("manifest %d after %d", m.ID, j.manifests[n-1].ID)
		}
		j.manifests = append(j.manifests, back)
	}
	switch {
	case j.chance(8):
		j.events = append(j.events, ManifestWritten{ID: m.ID, Err: errors.New("disk full")})
	case j.chance(20):
		if j.rng.IntN(2) == 0 {
			durable()
		}
		j.events = append(j.events, ManifestWritten{ID: m.ID, Err: errors.New("no answer"), Uncertain: true})
	default:
		durable()
		j.events = append(j.events, ManifestWritten{ID: m.ID})
	}
}

// checkCut: what the sources sent before the cut was counted before it, and staged or published (I2).
func (j *job) checkCut(m *Manifest) {
	total := map[string]int{}
	for _, t := range m.Tasks {
		var s simState
		if err := json.Unmarshal(t.Operators[0].Data, &s); err != nil {
			j.fatal("%v", err)
		}
		total[t.Vertex] += s.Offset + s.Count
	}
	if total["in"] != total["count"] || total["count"] != total["out"] || len(m.Tasks) != len(j.tasks) {
		j.fatal("checkpoint %d is no consistent cut: %v", m.ID, total)
	}
}

func (j *job) inject(task *simTask, b Barrier) {
	if !task.finished {
		j.cut(task, b)
	}
}

// cut makes a task's snapshot, sends the barrier on, and acknowledges unless something goes wrong.
func (j *job) cut(task *simTask, b Barrier) {
	if task.id.Vertex == "out" {
		task.staged[b.ID] = task.buffer
		task.buffer = nil
	}
	task.lastCut = b.ID
	for _, q := range task.out {
		*q = append(*q, simMsg{barrier: b})
	}
	switch {
	case j.chance(25):
		j.hit("ack lost")
	case j.chance(25):
		j.hit("decline")
		j.events = append(j.events, Decline{b.ID, task.id, errors.New("no")})
	default:
		j.events = append(j.events, Ack{b.ID, task.snapshot()})
	}
}

// complete publishes everything staged up to id (C028).
func (j *job) complete(sink *simTask, id ID) {
	for part, records := range sink.staged {
		if part <= id {
			j.publish(part, records)
			delete(sink.staged, part)
		}
	}
}

func (j *job) finish(task *simTask) {
	task.finished = true
	if task.id.Vertex == "out" {
		// Its last part closes with no barrier: the first complete checkpoint above its last cut has it.
		task.staged[task.lastCut+1] = task.buffer
		task.buffer = nil
	}
	for _, q := range task.out {
		*q = append(*q, simMsg{end: true})
	}
	j.events = append(j.events, TaskFinished{task.snapshot(), task.lastCut})
}

// run lets a source send or a task read one message.
func (j *job) run(task *simTask) {
	if task.finished {
		return
	}
	if task.id.Vertex == "in" {
		switch {
		case task.idle:
		case task.offset == task.limit:
			j.finish(task)
		default:
			task.offset++
			q := task.out[j.rng.IntN(2)]
			*q = append(*q, simMsg{record: task.id.Task*1_000_000 + task.offset})
		}
		return
	}
	c := j.rng.IntN(2)
	if task.align.Blocked(c) || len(*task.in[c]) == 0 {
		return
	}
	msg := (*task.in[c])[0]
	*task.in[c] = (*task.in[c])[1:]
	var d Decision
	switch {
	case msg.record > 0:
		task.count++
		if task.id.Vertex == "out" {
			task.buffer = append(task.buffer, msg.record)
		} else {
			*task.out[0] = append(*task.out[0], msg)
		}
	case msg.end:
		d = task.align.End(c)
	default:
		var err error
		if d, err = task.align.Barrier(c, msg.barrier); err != nil {
			j.fatal("%v", err)
		}
	}
	if d.Cut.ID != 0 {
		j.cut(task, d.Cut)
	}
	if d.AllEnded {
		j.finish(task)
	}
}

// turn does one thing.
func (j *job) turn() {
	switch k := j.rng.IntN(10); {
	case k < 6:
		j.run(j.tasks[j.rng.IntN(len(j.tasks))])
	case k < 8 && len(j.events) > 0: // events come in any order
		i := j.rng.IntN(len(j.events))
		ev := j.events[i]
		j.events = slices.Delete(j.events, i, i+1)
		j.step(ev)
	case k < 9 && len(j.orders) > 0:
		i := j.rng.IntN(len(j.orders))
		order := j.orders[i]
		j.orders = slices.Delete(j.orders, i, i+1)
		order()
	default:
		j.now += int64(j.rng.IntN(4))
		j.step(Tick{})
	}
}

// TestSimulation runs whole jobs with crashes and checks that each record is published exactly once.
func TestSimulation(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(400) {
		simulate(t, seed, seen)
	}
	for _, what := range []string{"abort", "notice lost", "ack lost", "decline", "fail", "crash", "stop", "complete"} {
		if seen[what] < 20 {
			t.Errorf("%q came %d times: the simulation does not test it", what, seen[what])
		}
	}
	t.Log(seen)
}

func simulate(t *testing.T, seed uint64, seen map[string]int) {
	w := &world{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 5)), used: map[ID]bool{},
		published: map[ID][]int{}, seen: seen}
	w.limits = [2]int{w.rng.IntN(300), w.rng.IntN(300)}
	if w.rng.IntN(5) == 0 {
		w.limits[0] = 0 // an empty source
	}
	w.idle = w.rng.IntN(5) == 0
	stopAt, stopped := -1, false
	if w.idle || w.rng.IntN(3) == 0 {
		stopAt = 200 + w.rng.IntN(6000)
	}
	j := w.start()
	for turn := 0; !j.done; turn++ {
		if turn > 200_000 {
			w.fatal("does not end: %+v", j.c.Stats())
		}
		w.quiet = turn > 5000
		if j.failed || w.chance(700) {
			w.hit("crash")
			j = w.start()
		}
		if turn == stopAt {
			stopped = true
			w.hit("stop")
		}
		if stopped && !j.stopAsked {
			j.stopAsked = true
			j.step(Stop{})
		}
		j.turn()
	}
	w.checkOutput(j)
}

func (w *world) checkOutput(j *job) {
	var got, want []int
	for _, records := range w.published {
		got = append(got, records...)
	}
	last := w.manifests[len(w.manifests)-1]
	for i, task := range j.tasks[:2] {
		var s simState
		if err := json.Unmarshal(last.Tasks[i].Operators[0].Data, &s); err != nil {
			w.fatal("%v", err)
		}
		if !j.stopAsked && s.Offset != task.limit || last.Finished && s.Offset != task.limit {
			w.fatal("source %d ended at %d of %d", i, s.Offset, task.limit)
		}
		for n := range s.Offset {
			want = append(want, i*1_000_000+n+1)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		w.fatal("%d records published, %d sent", len(got), len(want))
	}
	if open := len(j.tasks[4].staged); open != 0 {
		w.fatal("%d parts are left unpublished", open)
	}
}
