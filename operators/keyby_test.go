package operators_test

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/operatortest"
)

func keyBy(policy string, fields ...string) *operators.Node {
	return &operators.Node{ID: "by", Kind: operators.NodeKeyBy, KeyBy: &operators.KeyByNode{ID: "by", Fields: fields, Null: operators.ErrorPolicy{Policy: policy}}}
}

func TestKeyBy(t *testing.T) {
	h := operatortest.New(t, operators.NewKeyBy(keyBy("", "k")), operatortest.Context(t, "by", ""))
	in := abi.Record{Time: 5, Key: []byte("old"), Value: []byte(`{"k":"new\u0041"}`), Headers: []abi.Header{{Key: []byte("h"), Value: []byte("v")}},
		Op: abi.OpDelete, Pos: abi.Position{Split: 3, Offset: 9}}
	noKey := in
	noKey.Key = nil
	h.Push(in, noKey)
	want := in
	want.Key = []byte("newA")
	out := h.Output(operators.OutputMain)
	if !reflect.DeepEqual(out.Records, []abi.Record{want, want}) {
		t.Errorf("got %+v", out.Records)
	}
	hash := h.Ctx.Hasher.Hash(want.Key)
	if !reflect.DeepEqual(out.Hashes, []uint64{hash, hash}) {
		t.Errorf("hashes %v", out.Hashes)
	}
}

// TestNullKeys: a record without a key goes by policy; an empty key is a key like any other (C017).
func TestNullKeys(t *testing.T) {
	in := []abi.Record{{Value: []byte(`{"k":"k1"}`)}, {Value: nil}, {Value: []byte(`{"k":""}`)}, {Value: []byte(`{"k":null}`)}, {Value: []byte(`{}`)}, {Value: []byte(`{"k":1}`)}}
	for _, policy := range []string{"", operators.PolicyStop, operators.PolicySkip, operators.PolicyDeadLetter} {
		op := operators.NewKeyBy(keyBy(policy, "k"))
		h := operatortest.New(t, op, operatortest.Context(t, "by", ""))
		err := h.TryPush(in...)
		if policy == "" || policy == operators.PolicyStop {
			var re *operators.RecordError
			if !errors.As(err, &re) || re.Operator != "by" || re.Position != "a test record" || !strings.Contains(err.Error(), `"k"`) {
				t.Errorf("policy %q: %v", policy, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		var keys []string
		for _, r := range h.Output(operators.OutputMain).Records {
			if r.Key == nil {
				t.Errorf("policy %s: a null key came through", policy)
			}
			keys = append(keys, string(r.Key))
		}
		if !reflect.DeepEqual(keys, []string{"k1", "", "1"}) {
			t.Errorf("policy %s: keys %q", policy, keys)
		}
		if c := op.Counters(); c["skipped"]+c["dead letters"] != 3 {
			t.Errorf("policy %s: counters %v", policy, c)
		}
		if dead := h.Output(operators.OutputDeadLetter).Records; policy == operators.PolicyDeadLetter {
			if len(dead) != 3 || dead[0].Value != nil || !bytes.Equal(dead[1].Value, in[3].Value) {
				t.Errorf("dead letters %+v", dead)
			}
		} else if len(dead) != 0 {
			t.Errorf("policy %s has dead letters", policy)
		}
	}
}

// TestKeyByKeepsMarks: watermark marks stay between the same records, on both outputs.
func TestKeyByKeepsMarks(t *testing.T) {
	h := operatortest.New(t, operators.NewKeyBy(keyBy(operators.PolicyDeadLetter, "k")), operatortest.Context(t, "by", ""))
	var b abi.Batch
	b.Mark(1)
	for i, v := range []string{`{"k":1}`, `{}`, `{"k":2}`, `{}`} {
		b.Append(&abi.Record{Value: []byte(v)})
		b.Mark(int64(i) * 10)
	}
	b.Mark(99)
	if err := h.Batch(0, &b); err != nil {
		t.Fatal(err)
	}
	if got, want := h.Output(operators.OutputMain).Marks, marks(0, 1, 1, 10, 2, 20, 2, 30, 2, 99); !reflect.DeepEqual(got, want) {
		t.Errorf("main marks %v, want %v", got, want)
	}
	if got, want := h.Output(operators.OutputDeadLetter).Marks, marks(0, 1, 1, 10, 1, 20, 2, 30, 2, 99); !reflect.DeepEqual(got, want) {
		t.Errorf("dead-letter marks %v, want %v", got, want)
	}
}

func TestKeyByAllocatesNothing(t *testing.T) {
	op := operators.NewKeyBy(keyBy("", "a", "b"))
	if err := op.Open(operatortest.Context(t, "by", "")); err != nil {
		t.Fatal(err)
	}
	var b abi.Batch
	for range 256 {
		b.Append(&abi.Record{Value: []byte(`{"a":"x","b":17,"c":[1,2,3]}`)})
	}
	if n := testing.AllocsPerRun(50, func() {
		if err := op.Batch(0, &b, drop{}); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations per batch", n)
	}
}

type drop struct{}

func (drop) Emit(int, *abi.Batch) error { return nil }
