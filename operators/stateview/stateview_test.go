package stateview

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/backend"
	"github.com/millrace-io/millrace/state/ordered"
)

const seed = 7

func schemaOf(t abi.SchemaType) *abi.Schema { return &abi.Schema{Type: t} }

var refs = []checkpoint.StateRef{
	{Operator: "op", State: abi.StateDescriptor{Name: "v", Kind: abi.StateValue, MaxBytes: 8, Schema: schemaOf(abi.SchemaI64)}},
	{Operator: "op", State: abi.StateDescriptor{Name: "m", Kind: abi.StateMap, Schema: schemaOf(abi.SchemaUTF8), KeySchema: schemaOf(abi.SchemaKeyI64)}},
	{Operator: "op", State: abi.StateDescriptor{Name: "l", Kind: abi.StateList, Schema: schemaOf(abi.SchemaJSON)}},
}

// fixture is a store with one snapshot of two tasks.
type fixture struct {
	t     *testing.T
	store *snapstore.Store
	m     *checkpoint.Manifest
}

func key(k string) state.Key {
	return state.Key{Bytes: []byte(k), Hash: state.Hasher{Seed: seed}.Hash([]byte(k))}
}

func le(n int64) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(n)) }

func keyI64(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)^1<<63) }

// newFixture fills the states by fill, which gets the task of a key.
func newFixture(t *testing.T, fill func(task func(state.Key) state.Keyed)) *fixture {
	t.Helper()
	f := &fixture{t: t}
	dir := t.TempDir()
	store, err := snapstore.Open(filepath.Join(dir, "snapshots"), snapstore.Options{})
	f.ok(err)
	t.Cleanup(func() { f.ok(store.Close()) })
	f.store = store
	var ds []state.Descriptor
	for _, r := range refs {
		ds = append(ds, state.Descriptor{Name: r.State.Name, Kind: r.State.Kind, MaxBytes: r.State.MaxBytes})
	}
	var tasks []state.Keyed
	for i := range 2 {
		k, err := backend.Open(backend.Config{Operator: "op", Descriptors: ds, Range: state.TaskRange(i, 2), Hasher: state.Hasher{Seed: seed},
			Dir: filepath.Join(dir, fmt.Sprint(i)), Objects: store,
			NewOrdered: func(c state.PartConfig) (backend.OrderedPart, error) { return ordered.Open(c, nil) },
			NewTimers:  func(c state.PartConfig) (backend.TimersPart, error) { return ordered.OpenTimers(c, nil) }})
		f.ok(err)
		defer k.Close()
		tasks = append(tasks, k)
	}
	fill(func(k state.Key) state.Keyed { return tasks[state.TaskOf(k.Hash, 2)] })
	pipeline, _, err := store.Put(context.Background(), []byte("name: job\n"))
	f.ok(err)
	id, err := store.Reserve(1)
	f.ok(err)
	f.m = &checkpoint.Manifest{Format: checkpoint.FormatVersion, ID: id, Job: "job", Seed: seed, Slots: state.Slots, States: refs, Pipeline: pipeline, CreatedMS: 1}
	for i, k := range tasks {
		fr, err := k.Freeze()
		f.ok(err)
		for done := false; !done; {
			_, err := k.Step()
			f.ok(err)
			select {
			case <-fr.Done():
				done = true
			case <-time.After(time.Millisecond):
			}
		}
		s, err := fr.Result()
		f.ok(err)
		f.m.Tasks = append(f.m.Tasks, checkpoint.TaskSnapshot{Vertex: "op", Task: i, Parallelism: 2, Operators: []checkpoint.OperatorSnapshot{{Operator: "op", Keyed: &s}}})
	}
	f.ok(store.WriteManifest(context.Background(), f.m))
	return f
}

func (f *fixture) ok(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// rows are all rows of a snapshot, sorted, without the operator.
func (f *fixture) rows(m *checkpoint.Manifest, q Query) (out []string) {
	f.t.Helper()
	_, err := Open(m, f.store).Scan(context.Background(), q, func(row []byte) error {
		out = append(out, strings.Replace(string(row), `"operator":"op",`, "", 1))
		return nil
	})
	f.ok(err)
	slices.Sort(out)
	return out
}

func (f *fixture) expect(m *checkpoint.Manifest, q Query, want ...string) {
	f.t.Helper()
	slices.Sort(want)
	if got := f.rows(m, q); !slices.Equal(got, want) {
		f.t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// guestList appends elements as operators/guestop keeps them.
func guestList(f *fixture, o state.Ordered, k state.Key, elements ...string) {
	for i, e := range elements {
		f.ok(o.Put(k, listKey(uint64(i)), []byte(e)))
	}
	f.ok(o.Put(k, []byte{listNext}, binary.BigEndian.AppendUint64(nil, uint64(len(elements)))))
}

func filled(t *testing.T) *fixture {
	f := &fixture{t: t}
	return newFixture(t, func(task func(state.Key) state.Keyed) {
		for i, k := range []string{"a", "b", "c\x00d"} {
			f.ok(task(key(k)).Value(0).Store(state.NoPos, key(k), le(int64(i)-1)))
			f.ok(task(key(k)).Ordered(1).Put(key(k), keyI64(int64(-i)), []byte("t"+k)))
			f.ok(task(key(k)).Ordered(1).Put(key(k), keyI64(100), []byte("more")))
		}
		guestList(f, task(key("a")).Ordered(2), key("a"), `{"x":1}`, `[2]`)
		f.ok(task(key("a")).Timers().Set(abi.DomainEvent, key("a"), []byte("end"), 1000))
		f.ok(task(key("b")).Timers().Set(abi.DomainProcessing, key("b"), nil, -5))
	})
}

func TestRowsOfEveryKind(t *testing.T) {
	f := filled(t)
	f.expect(f.m, Query{},
		`{"state":"v","key":"a","value":-1}`, `{"state":"v","key":"b","value":0}`, `{"state":"v","key":{"hex":"630064"},"value":1}`,
		`{"state":"m","key":"a","entry":0,"value":"ta"}`, `{"state":"m","key":"a","entry":100,"value":"more"}`,
		`{"state":"m","key":"b","entry":-1,"value":"tb"}`, `{"state":"m","key":"b","entry":100,"value":"more"}`,
		`{"state":"m","key":{"hex":"630064"},"entry":-2,"value":"tc\u0000d"}`, `{"state":"m","key":{"hex":"630064"},"entry":100,"value":"more"}`,
		`{"state":"l","key":"a","index":0,"value":{"x":1}}`, `{"state":"l","key":"a","index":1,"value":[2]}`,
		`{"state":"timers","key":"a","timer":{"domain":"event","name":"end","at":"1970-01-01T00:00:01.000Z"}}`,
		`{"state":"timers","key":"b","timer":{"domain":"processing","name":"","at":"1969-12-31T23:59:59.995Z"}}`)
	k, e := `{"hex":"630064"}`, "-2"
	f.expect(f.m, Query{State: "m", Key: &k, Entry: &e}, `{"state":"m","key":{"hex":"630064"},"entry":-2,"value":"tc\u0000d"}`)
	f.expect(f.m, Query{State: "m", KeyPrefix: "b"}, `{"state":"m","key":"b","entry":-1,"value":"tb"}`, `{"state":"m","key":"b","entry":100,"value":"more"}`)
	for _, q := range []Query{{State: "v", Entry: &e}, {State: "m", Key: &k, KeyPrefix: "x"}, {State: "nothere"}} {
		if _, err := Open(f.m, f.store).Scan(context.Background(), q, func([]byte) error { return nil }); err == nil {
			t.Errorf("%+v: no error", q)
		}
	}
}

// Pages of any size, put together, are the whole.
func TestPages(t *testing.T) {
	f := filled(t)
	for size := 1; size < 15; size++ {
		var got []string
		q := Query{Limit: size}
		for {
			p, err := Open(f.m, f.store).Page(context.Background(), q)
			f.ok(err)
			for _, r := range p.Rows {
				got = append(got, strings.Replace(string(r), `"operator":"op",`, "", 1))
			}
			if q.After = p.Next; q.After == "" {
				break
			}
		}
		if slices.Sort(got); !slices.Equal(got, f.rows(f.m, Query{})) {
			t.Errorf("pages of %d: %d rows", size, len(got))
		}
	}
}

func (f *fixture) patch(text string) *checkpoint.Manifest {
	f.t.Helper()
	ctx := context.Background()
	p, err := Open(f.m, f.store).ReadPatch(ctx, "patch", strings.NewReader(text))
	f.ok(err)
	m, err := p.Write(ctx, f.store, WriteOptions{Dir: f.t.TempDir(), Engine: "test", NowMS: 2})
	f.ok(err)
	m, err = f.store.Load(m.ID)
	f.ok(err)
	return m
}

func TestPatchOfEveryKind(t *testing.T) {
	f := filled(t)
	before := f.rows(f.m, Query{})
	m := f.patch(`{"operator":"op","state":"v","key":"a","value":5}
{"operator":"op","state":"v","key":"new","value":6}
{"operator":"op","state":"v","key":{"hex":"630064"},"delete":true}
{"operator":"op","state":"m","key":"a","entry":100,"delete":true}
{"operator":"op","state":"m","key":"a","entry":-7,"value":"seven"}
{"operator":"op","state":"m","key":"b","delete":true}
{"operator":"op","state":"m","key":"b","entry":3,"value":"three"}
{"operator":"op","state":"l","key":"a","index":0,"value":"first"}
{"operator":"op","state":"l","key":"a","value":"third"}
{"operator":"op","state":"l","key":"a","value":"fourth"}
{"operator":"op","state":"l","key":"z","value":0}
{"operator":"op","state":"timers","key":"a","timer":{"domain":"event","name":"end","at":1000},"delete":true}
{"operator":"op","state":"timers","key":"z","timer":{"domain":"event","name":"x","at":"1970-01-01T00:00:02Z"}}
`)
	if m.Kind != checkpoint.KindSavepoint || m.Parent != f.m.ID || m.ID <= f.m.ID {
		t.Errorf("snapshot %d, %s, parent %d", m.ID, m.Kind, m.Parent)
	}
	f.expect(m, Query{},
		`{"state":"v","key":"a","value":5}`, `{"state":"v","key":"b","value":0}`, `{"state":"v","key":"new","value":6}`,
		`{"state":"m","key":"a","entry":0,"value":"ta"}`, `{"state":"m","key":"a","entry":-7,"value":"seven"}`, `{"state":"m","key":"b","entry":3,"value":"three"}`,
		`{"state":"m","key":{"hex":"630064"},"entry":-2,"value":"tc\u0000d"}`, `{"state":"m","key":{"hex":"630064"},"entry":100,"value":"more"}`,
		`{"state":"l","key":"a","index":0,"value":"first"}`, `{"state":"l","key":"a","index":1,"value":[2]}`, `{"state":"l","key":"a","index":2,"value":"third"}`,
		`{"state":"l","key":"a","index":3,"value":"fourth"}`, `{"state":"l","key":"z","index":0,"value":0}`,
		`{"state":"timers","key":"b","timer":{"domain":"processing","name":"","at":"1969-12-31T23:59:59.995Z"}}`,
		`{"state":"timers","key":"z","timer":{"domain":"event","name":"x","at":"1970-01-01T00:00:02.000Z"}}`)
	if after := f.rows(f.m, Query{}); !slices.Equal(after, before) {
		t.Error("the old snapshot changed")
	}
	if latest, err := f.store.Latest(context.Background()); err != nil || latest.ID != f.m.ID {
		t.Errorf("a start goes on from %v, %v", latest, err)
	}
	f.ok(f.store.Verify(context.Background(), m.ID, true))
	// What was read can be written back, and is the same again.
	var all bytes.Buffer
	_, err := Open(m, f.store).Export(context.Background(), Query{}, FormatNDJSON, &all)
	f.ok(err)
	p, err := Open(m, f.store).ReadPatch(context.Background(), "patch", &all)
	f.ok(err)
	again, err := p.Write(context.Background(), f.store, WriteOptions{Dir: t.TempDir()})
	f.ok(err)
	f.expect(again, Query{}, f.rows(m, Query{})...)
}

// Everything that is wrong, at once.
func TestPatchProblems(t *testing.T) {
	f := filled(t)
	lines := map[string]string{
		`{"operator":"op","state":"v","key":"a","value":"x"}`:                                            "is no i64",
		`{"operator":"op","state":"v","key":"a"}`:                                                        "no value",
		`{"operator":"op","state":"v","value":1}`:                                                        "no key",
		`{"operator":"op","state":"v","key":"a","entry":1,"value":1}`:                                    "have no entries",
		`{"operator":"op","state":"v","key":"q","delete":true}`:                                          `no key "q" to delete`,
		`{"operator":"op","state":"m","key":"a","value":"x"}`:                                            "which entry",
		`{"operator":"op","state":"m","key":"a","entry":"x","value":"x"}`:                                "key_i64",
		`{"operator":"op","state":"m","key":"a","entry":5,"delete":true}`:                                "no such entry",
		`{"operator":"op","state":"l","key":"a","index":9,"value":1}`:                                    "no element 9",
		`{"operator":"op","state":"timers","key":"a","timer":{"domain":"evnt","at":1}}`:                  "evnt",
		`{"operator":"op","state":"timers","key":"a","timer":{"domain":"event","at":7},"delete":true}`:   "no such timer",
		`{"operator":"op","state":"timers","key":"a","value":1}`:                                         "has timers there",
		`{"operator":"op","state":"v","key":"a","timer":{"domain":"event","at":1},"value":1}`:            "a timer for the value",
		`{"operator":"op","state":"v","key":"` + strings.Repeat("k", abi.MaxKeyBytes+1) + `","value":1}`: "a key of",
		`{"operator":"op","state":"v","key":"a","value":1} {}`:                                           "more than one",
	}
	var text, wants []string
	for l, w := range lines {
		text, wants = append(text, l), append(wants, w)
	}
	_, err := Open(f.m, f.store).ReadPatch(context.Background(), "p", strings.NewReader(strings.Join(text, "\n")))
	var pe *PatchError
	if !errors.As(err, &pe) || len(pe.Problems) != len(lines) || !errors.Is(err, ErrQuery) {
		t.Fatalf("%v", err)
	}
	for i, p := range pe.Problems {
		if p.Line != i+1 || !strings.Contains(p.Text, wants[i]) {
			t.Errorf("line %d: %s, want %q of %.100s", p.Line, p.Text, wants[i], text[i])
		}
	}
	if _, err := Open(f.m, f.store).ReadPatch(context.Background(), "p", strings.NewReader("\n")); !errors.As(err, &pe) {
		t.Errorf("an empty patch: %v", err)
	}
}

func TestStats(t *testing.T) {
	f := newFixture(t, func(task func(state.Key) state.Keyed) {
		for i := range 1000 {
			k := key(fmt.Sprintf("k%d", i))
			for j := range 1 + i/500 {
				if err := task(k).Ordered(1).Put(k, keyI64(int64(j)), bytes.Repeat([]byte("x"), i)); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
	all, err := Open(f.m, f.store).Stats(context.Background(), Query{State: "m"}, 3)
	f.ok(err)
	s := all[0]
	if s.Live != 1500 || s.Keys != 1000 || s.ValueSizes.Most != 999 || s.ValueSizes.Median != 624 || len(s.Largest) != 3 ||
		string(s.Largest[0].Key) != `"k999"` || s.Largest[0].Entries != 2 || s.Slots.Used < 900 || s.Slots.Skew < 1 || s.KeySizes.Most != 4 {
		t.Errorf("%+v", s)
	}
	var sum int64
	for i := range 1000 {
		sum += int64(1+i/500) * int64(len(fmt.Sprintf("k%d", i))+8+i)
	}
	if s.LiveBytes != sum {
		t.Errorf("%d bytes, want %d", s.LiveBytes, sum)
	}
}

func TestParquetExport(t *testing.T) {
	f := filled(t)
	var a, b bytes.Buffer
	x, err := Open(f.m, f.store).Export(context.Background(), Query{}, FormatParquet, &a)
	f.ok(err)
	_, err = Open(f.m, f.store).Export(context.Background(), Query{}, FormatParquet, &b)
	f.ok(err)
	if !bytes.Equal(a.Bytes(), b.Bytes()) || x.Rows != 13 {
		t.Errorf("%d rows; the same: %t", x.Rows, bytes.Equal(a.Bytes(), b.Bytes()))
	}
	rows, err := parquet.Read[ParquetRow](bytes.NewReader(a.Bytes()), int64(a.Len()))
	f.ok(err)
	timers := 0
	for _, r := range rows {
		if r.State == "timers" {
			timers++
			if r.At == nil || r.Value != nil || r.RawValue != nil {
				t.Errorf("%+v", r)
			}
		} else if r.Value == nil || r.RawValue == nil || (r.State == "m") != (r.RawEntry != nil && r.Entry != nil && r.State != "l") {
			t.Errorf("%+v", r)
		}
	}
	if timers != 2 || len(rows) != 13 {
		t.Errorf("%d rows, %d timers", len(rows), timers)
	}
}
