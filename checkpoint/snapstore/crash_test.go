package snapstore_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/checkpoint/snapstore/faultfs"
	"github.com/millrace-io/millrace/state"
)

// notes are what a crash must not undo.
type notes struct {
	used, promised checkpoint.ID
	kept           []checkpoint.ID // savepoints and tagged ones that were promised and not asked to go
	tags           map[string]checkpoint.ID
}

// keep notes a snapshot that must stay until gone.
func (n *notes) keep(id checkpoint.ID) { n.kept = append(n.kept, id) }
func (n *notes) gone(id checkpoint.ID) {
	n.kept = slices.DeleteFunc(slices.Clone(n.kept), func(k checkpoint.ID) bool { return k == id })
}

// script is a job's life with a store: some checkpoints and savepoints, tags, local files, retention,
// deletion. It notes each id when it is first used and when its snapshot was promised, and stops at the
// first error.
func script(fs snapstore.FS, mem *faultfs.Mem, rng *rand.Rand, note *notes, point func(string)) error {
	s, err := snapstore.Open("/job/store", snapstore.Options{FS: fs, Crash: point})
	if err != nil {
		return err
	}
	defer s.Close()
	var live []state.Run
	if m, err := s.Latest(ctx); err == nil {
		live = m.Tasks[0].Operators[0].Keyed.States[0].Runs
	} else if !errors.Is(err, snapstore.ErrNoCheckpoint) {
		return err
	}
	id, err := s.Reserve(8)
	if err != nil {
		return err
	}
	for range 7 {
		s.Begin(id)
		note.used = id
		text := fmt.Sprint("run of ", id, rng.Uint64())
		local := fmt.Sprintf("/local/%d", rng.Uint64())
		if err := writeUnsynced(mem, local, text); err != nil {
			return err
		}
		digest, size, err := s.AddFile(ctx, local)
		if err != nil {
			return err
		}
		live = append([]state.Run{{Object: digest, Size: size, Count: 1}}, live[:min(len(live), 2)]...)
		m := manifest(id, live...)
		if id%3 == 0 {
			m.Kind = checkpoint.KindSavepoint
		}
		if err := s.WriteManifest(ctx, m); err != nil {
			return err
		}
		if note.promised = id; id%3 == 0 {
			note.keep(id)
		}
		if _, err := s.Retain(ctx, 2); err != nil {
			return err
		}
		if err := curate(s, id, note); err != nil {
			return err
		}
		id++
	}
	return nil
}

// curate tags every fourth snapshot, and deletes the oldest of three savepoints.
func curate(s *snapstore.Store, id checkpoint.ID, note *notes) error {
	if id%4 == 0 {
		tag := fmt.Sprint("v", id)
		if err := s.Tag(id, tag, false); err != nil {
			return err
		}
		if note.tags == nil {
			note.tags = map[string]checkpoint.ID{}
		}
		note.tags[tag] = id
		note.keep(id)
	}
	infos, err := s.List()
	if err != nil {
		return err
	}
	var savepoints []checkpoint.ID
	for _, i := range infos {
		if i.Err != nil {
			return i.Err
		}
		if i.Kind == checkpoint.KindSavepoint && len(i.Tags) == 0 {
			savepoints = append(savepoints, i.ID)
		}
	}
	if len(savepoints) < 3 {
		return nil
	}
	note.gone(savepoints[0])
	_, err = s.DeleteSnapshot(ctx, savepoints[0])
	return err
}

// writeUnsynced leaves a local file that a power failure would lose: the store has to make it durable.
func writeUnsynced(mem *faultfs.Mem, path, text string) error {
	if err := mem.Mkdir("/local"); err != nil {
		return err
	}
	f, err := mem.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte(text))
	return errors.Join(err, f.Close())
}

// checkAfterCrash opens what a crash left: the newest promised checkpoint or a later one is there and
// whole, ids go on rising, and a sweep leaves exactly what is referenced.
func checkAfterCrash(t *testing.T, mem *faultfs.Mem, note notes) {
	t.Helper()
	promised, used := note.promised, note.used
	for _, id := range note.kept {
		s, err := snapstore.Open("/job/store", snapstore.Options{FS: mem, ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Verify(ctx, id, true); err != nil {
			t.Fatalf("snapshot %d is to stay: %v", id, err)
		}
	}
	s, err := snapstore.Open("/job/store", snapstore.Options{FS: mem})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	defer s.Close()
	m, err := s.Latest(ctx)
	switch {
	case errors.Is(err, snapstore.ErrNoCheckpoint) && promised == 0:
	case err != nil:
		t.Fatalf("checkpoint %d was promised: %v", promised, err)
	case m.ID < promised:
		t.Fatalf("checkpoint %d was promised, %d is the newest", promised, m.ID)
	default:
		if err := s.Verify(ctx, m.ID, true); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Retain(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	for _, id := range note.kept {
		if err := s.Verify(ctx, id, true); err != nil {
			t.Fatalf("snapshot %d is to stay: %v", id, err)
		}
	}
	for tag, id := range note.tags {
		if got, err := s.Resolve(tag); err != nil || got != id {
			t.Fatalf("tag %s is on %d, want %d; %v", tag, got, id, err)
		}
	}
	if got, want := onDisk(t, mem, "/job/store"), referenced(t, s); !slices.Equal(got, want) {
		t.Fatalf("on disk %v\nreferenced %v", got, want)
	}
	if next, err := s.Reserve(1); err != nil || next <= used {
		t.Fatalf("next id %d, %d was used, %v", next, used, err)
	}
}

// TestT6CrashAtEveryFileOperation crashes before each file operation of the script, keeping all, half or
// nothing of what was not synced, then runs the script again on what is left and crashes that too.
func TestT6CrashAtEveryFileOperation(t *testing.T) {
	clones := 0
	for seed := range uint64(6) {
		keep := []float64{0, 0.5, 1}[seed%3]
		rng := rand.New(rand.NewPCG(seed, 6))
		var left []*faultfs.Mem
		round := func(mem *faultfs.Mem, each int) {
			var note notes
			ops := 0
			hook := func(op faultfs.Op, path string) error {
				if ops++; ops%each == 0 {
					clones++
					checkAfterCrash(t, mem.CrashClone(rng, keep), note)
				}
				if rng.IntN(100) == 0 {
					left = append(left, mem.CrashClone(rng, keep))
				}
				return nil
			}
			if err := script(faultfs.Inject(mem, hook), mem, rng, &note, nil); err != nil {
				t.Fatalf("seed %d keep %v: %v", seed, keep, err)
			}
		}
		round(faultfs.New(), 1)
		for _, mem := range left[:min(len(left), 4)] {
			round(mem, 7)
		}
	}
	if clones < 500 {
		t.Errorf("only %d crashes: the script does too little", clones)
	}
	t.Logf("%d crashes", clones)
}

// TestEveryFailedOperationIsReportedOrHarmless fails each file operation of the script once, with a full
// disk and with an I/O error. What was promised stays; a failure ends in an error that names the fault.
func TestEveryFailedOperationIsReportedOrHarmless(t *testing.T) {
	for _, fault := range []error{syscall.ENOSPC, syscall.EIO} {
		for nth, done := 1, false; !done; nth++ {
			mem := faultfs.New()
			rules := faultfs.NewRules(&faultfs.Rule{Nth: nth, Err: fault})
			var note notes
			rng := rand.New(rand.NewPCG(1, uint64(nth)))
			err := script(faultfs.Inject(mem, rules.Hook), mem, rng, &note, nil)
			if done = rules.Fired() == 0; done && nth < 50 {
				t.Fatalf("only %d operations", nth)
			}
			if err != nil && !errors.Is(err, fault) {
				t.Fatalf("operation %d: %v hides %v", nth, err, fault)
			}
			checkAfterCrash(t, mem.CrashClone(rng, 0), note)
		}
	}
}

// TestFailedCheckpointLeavesNothing is C024's share of the store: writes are refused for checkpoint 3, the
// next ones complete, and after them nothing of 3 is left.
func TestFailedCheckpointLeavesNothing(t *testing.T) {
	mem := faultfs.New()
	refuse := false
	s := open(t, faultfs.Inject(mem, func(op faultfs.Op, path string) error {
		if refuse && (op == faultfs.OpWrite || op == faultfs.OpSyncDir && strings.Contains(path, "objects/")) {
			return syscall.ENOSPC
		}
		return nil
	}), "/store")
	for id := checkpoint.ID(1); id <= 6; id++ {
		s.Begin(id)
		refuse = id == 3
		local := fmt.Sprintf("/local/%d", id)
		mem.WriteFile(local, []byte(local))
		digest, size, err := s.AddFile(ctx, local)
		_, _, errPut := s.Put(ctx, []byte(fmt.Sprint("put by ", id)))
		if refuse {
			if !errors.Is(err, syscall.ENOSPC) || !errors.Is(errPut, syscall.ENOSPC) {
				t.Fatalf("%v, %v", err, errPut)
			}
			s.Abandon(id)
			continue
		}
		if err != nil || errPut != nil {
			t.Fatal(err, errPut)
		}
		complete(t, s, manifest(id, state.Run{Object: digest, Size: size}))
	}
	if list, _ := mem.ReadDir("/store/tmp"); len(list) != 0 {
		t.Errorf("left in tmp: %v", list)
	}
	if _, err := s.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	if got, want := onDisk(t, mem, "/store"), referenced(t, s); !slices.Equal(got, want) {
		t.Errorf("on disk %v\nreferenced %v", got, want)
	}
}

// TestManifestInDoubt: where the name of a manifest cannot be made durable it is taken away again; where
// that fails too, the outcome is called uncertain.
func TestManifestInDoubt(t *testing.T) {
	for _, both := range []bool{false, true} {
		mem := faultfs.New()
		armed := false
		s := open(t, faultfs.Inject(mem, func(op faultfs.Op, path string) error {
			if armed && (op == faultfs.OpSyncDir || op == faultfs.OpRemove) && strings.Contains(path, "manifests") {
				armed = both
				return syscall.EIO
			}
			return nil
		}), "/store")
		run := put(t, s, "a")
		armed = true
		err := s.WriteManifest(ctx, manifest(1, run))
		var uncertain *snapstore.UncertainError
		if !errors.Is(err, syscall.EIO) || errors.As(err, &uncertain) != both {
			t.Errorf("both=%v: %v", both, err)
		}
		if list, _ := mem.ReadDir("/store/manifests"); (len(list) > 0) != both {
			t.Errorf("both=%v: %v", both, list)
		}
	}
}

func TestCrashPointsAreReached(t *testing.T) {
	hits := map[string]int{}
	mem := faultfs.New()
	rng := rand.New(rand.NewPCG(1, 1))
	err := script(mem, mem, rng, new(notes), func(point string) { hits[point]++ })
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"K7", "K8", "K9", "K11", "K12", "K23", "K24"} {
		if hits[p] < 4 {
			t.Errorf("%s: %d times", p, hits[p])
		}
	}
}

// TestCrashInWithdrawIsAllOrNothing: a restart goes on from the old newest snapshot with all others there, or
// from the one asked for with the later checkpoints gone, and never from one between.
func TestCrashInWithdrawIsAllOrNothing(t *testing.T) {
	outcomes := map[checkpoint.ID]int{}
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 1))
		mem := faultfs.New()
		armed := false
		s := open(t, faultfs.Inject(mem, func(faultfs.Op, string) error {
			if armed {
				after := open(t, mem.CrashClone(rng, []float64{0, 0.5, 1}[seed%3]), "/store")
				m, err := after.Latest(ctx)
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				outcomes[m.ID]++
				switch m.ID {
				case 6:
					wantIDs(t, after, 1, 2, 3, 4, 5, 6)
				case 2:
					wantIDs(t, after, 1, 2, 4)
				default:
					t.Fatalf("seed %d: it starts from %d", seed, m.ID)
				}
			}
			return nil
		}), "/store")
		if _, err := s.Reserve(8); err != nil {
			t.Fatal(err)
		}
		for id := checkpoint.ID(1); id <= 6; id++ {
			m := manifest(id, put(t, s, fmt.Sprint(id)))
			if id == 4 {
				m.Kind = checkpoint.KindSavepoint
			}
			complete(t, s, m)
		}
		armed = true
		if _, err := s.Withdraw(2); err != nil {
			t.Fatal(err)
		}
		armed = false
	}
	if outcomes[2] == 0 || outcomes[6] == 0 {
		t.Errorf("not both were seen: %v", outcomes)
	}
}
