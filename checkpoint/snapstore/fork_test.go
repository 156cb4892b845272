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
)

// TestForkStandsByItself: its objects outlive the parent's retention, its name and origin are its own, and it
// goes on with checkpoints.
func TestForkStandsByItself(t *testing.T) {
	stores(t, func(t *testing.T, fs snapstore.FS, dir string) {
		s := open(t, fs, dir)
		m := manifest(1, put(t, s, "a"), put(t, s, "b"))
		m.Tasks[0].Operators[0].Staged = []checkpoint.StagedFile{{Staged: "s/1", Final: "out/1"}}
		complete(t, s, m)
		reader, err := snapstore.Open(dir, snapstore.Options{FS: fs, ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		fork := open(t, fs, dir+"-fork")
		got, err := fork.Fork(ctx, reader, 1, "experiment")
		if err != nil {
			t.Fatal(err)
		}
		infos, _ := s.List()
		if got.Job != "experiment" || got.ID != 1 || *got.Origin != (checkpoint.Origin{Job: "j", ID: 1, SHA256: infos[0].SHA256}) || len(got.Tasks[0].Operators[0].Staged) != 0 {
			t.Errorf("%+v", got)
		}
		if again, err := s.Load(1); err != nil || len(again.Tasks[0].Operators[0].Staged) != 1 {
			t.Errorf("the parent changed: %+v %v", again, err)
		}
		if _, err := fork.Fork(ctx, reader, 1, ""); !errors.Is(err, snapstore.ErrNotEmpty) {
			t.Errorf("a second fork: %v", err)
		}
		for id := checkpoint.ID(2); id <= 4; id++ {
			s.Begin(id)
			complete(t, s, manifest(id, put(t, s, fmt.Sprint(id))))
			if _, err := s.Retain(ctx, 1); err != nil {
				t.Fatal(err)
			}
		}
		wantIDs(t, s, 4)
		fork.Close()
		fork = open(t, fs, dir+"-fork")
		if latest, err := fork.Latest(ctx); err != nil || latest.ID != 1 || fork.Verify(ctx, 1, true) != nil {
			t.Fatalf("%v %v", latest, err)
		}
		first, err := fork.Reserve(1)
		if err != nil || first < 2 {
			t.Fatal(first, err)
		}
		complete(t, fork, manifest(first, put(t, fork, "c")))
		if _, err := fork.Retain(ctx, 1); err != nil {
			t.Fatal(err)
		}
		exactly(t, fs, dir+"-fork", fork)
		exactly(t, fs, dir, s)
	})
}

func TestForkAcrossDevicesCopies(t *testing.T) {
	mem := faultfs.New()
	s := open(t, mem, "/a")
	complete(t, s, manifest(1, put(t, s, "text")))
	rules := faultfs.NewRules(&faultfs.Rule{Op: faultfs.OpLink, Times: -1, Err: syscall.EXDEV})
	fork := open(t, faultfs.Inject(mem, rules.Hook), "/b")
	if _, err := fork.Fork(ctx, s, 1, ""); err != nil {
		t.Fatal(err)
	}
	if err := fork.Verify(ctx, 1, true); err != nil || rules.Fired() == 0 {
		t.Error(err, rules.Fired())
	}
}

// TestForkOfDamageNamesIt and leaves no fork.
func TestForkOfDamageNamesIt(t *testing.T) {
	mem := faultfs.New()
	s := open(t, mem, "/a")
	run := put(t, s, "text")
	complete(t, s, manifest(1, run))
	mem.WriteFile("/a/objects/"+run.Object[:2]+"/"+run.Object, []byte("tex"))
	fork := open(t, mem, "/b")
	if _, err := fork.Fork(ctx, s, 1, ""); !errors.Is(err, snapstore.ErrDamaged) || !strings.Contains(err.Error(), run.Object) {
		t.Errorf("got %v", err)
	}
	wantIDs(t, fork)
}

// TestCrashInForkIsHarmless crashes before each file operation of a fork: there is a whole fork or none, and
// forking again works.
func TestCrashInForkIsHarmless(t *testing.T) {
	outcomes := map[int]int{}
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 2))
		mem := faultfs.New()
		s := open(t, mem, "/a")
		complete(t, s, manifest(1, put(t, s, "x"), put(t, s, "y"), put(t, s, "z")))
		s.Close()
		crash := func(faultfs.Op, string) error {
			after := mem.CrashClone(rng, float64(seed)/2)
			parent := open(t, after, "/a")
			fork := open(t, after, "/b")
			n := len(ids(t, fork))
			if outcomes[n]++; n == 0 {
				if _, err := fork.Fork(ctx, parent, 1, ""); err != nil {
					t.Fatal(err)
				}
			}
			if err := fork.Verify(ctx, 1, true); err != nil {
				t.Fatal(err)
			}
			exactly(t, after, "/b", fork)
			exactly(t, after, "/a", parent)
			return nil
		}
		parent, err := snapstore.Open("/a", snapstore.Options{FS: mem, ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		fork := open(t, faultfs.Inject(mem, crash), "/b")
		if _, err := fork.Fork(ctx, parent, 1, ""); err != nil {
			t.Fatal(err)
		}
	}
	if outcomes[0] == 0 || outcomes[1] == 0 {
		t.Errorf("not both were seen: %v", outcomes)
	}
}

// TestInsertKeepsTheLine: what comes from elsewhere is kept, beside the line; into an empty store it is the
// start; an id that is taken is refused or replaced.
func TestInsertKeepsTheLine(t *testing.T) {
	mem := faultfs.New()
	from := open(t, mem, "/a")
	complete(t, from, manifest(20, put(t, from, "x")))
	file, err := from.Manifest(20)
	if err != nil {
		t.Fatal(err)
	}
	to := open(t, mem, "/b")
	if _, err := to.Insert(ctx, file, false); err == nil || !strings.Contains(err.Error(), "not in the store") {
		t.Errorf("without its objects: %v", err)
	}
	to.Close()
	to = open(t, mem, "/b")
	put(t, to, "x")
	for range 2 {
		if id, err := to.Insert(ctx, file, false); err != nil || id != 20 {
			t.Fatal(id, err)
		}
	}
	if m, err := to.Latest(ctx); err != nil || m.ID != 20 {
		t.Fatal(m, err)
	}
	line := open(t, mem, "/c")
	put(t, line, "x")
	if first, err := line.Reserve(8); err != nil || first != 1 {
		t.Fatal(first, err)
	}
	complete(t, line, manifest(1, put(t, line, "1")))
	if id, err := line.Insert(ctx, file, false); err != nil || id != 20 {
		t.Fatal(id, err)
	}
	complete(t, line, manifest(2, put(t, line, "2"))) // ids of the line go on below
	other := manifest(20, put(t, line, "2"))
	data, err := checkpoint.Encode(other)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := line.Insert(ctx, data, false); !errors.Is(err, snapstore.ErrIDTaken) {
		t.Errorf("id of another: %v", err)
	}
	small := manifest(5, put(t, line, "2"))
	if data, err = checkpoint.Encode(small); err != nil {
		t.Fatal(err)
	}
	if _, err := line.Insert(ctx, data, false); !errors.Is(err, snapstore.ErrIDTaken) {
		t.Errorf("id that the job may use: %v", err)
	}
	id, err := line.Insert(ctx, data, true)
	if err != nil || id <= 20 {
		t.Fatal(id, err)
	}
	if m, err := line.Load(id); err != nil || m.Origin == nil || m.Origin.ID != 5 {
		t.Fatal(m, err)
	}
	for range 2 {
		if _, err := line.Retain(ctx, 1); err != nil {
			t.Fatal(err)
		}
		wantIDs(t, line, 2, 20, id)
		if m, err := line.Latest(ctx); err != nil || m.ID != 2 {
			t.Fatal(m, err)
		}
		infos, _ := line.List()
		if i := slices.IndexFunc(infos, func(i snapstore.Info) bool { return i.ID == 20 }); !infos[i].Withdrawn || !infos[i].Kept {
			t.Errorf("%+v", infos[i])
		}
		line.Close()
		line = open(t, mem, "/c")
	}
}
