package operators

import (
	"testing"

	"github.com/millrace-io/millrace/abi"
)

func TestProvenance(t *testing.T) {
	e := NewLineEncoder(&SinkNode{Provenance: true})
	e.Snapshot = 7
	for _, c := range []struct {
		r    abi.Record
		want string
	}{
		{abi.Record{Time: 5, Key: []byte("k"), Value: []byte("v"), Pos: abi.Position{Split: 1, Offset: 40}},
			`{"key":"k","value":"v","time":5,"from":{"snapshot":7,"split":1,"offset":40}}`},
		{abi.Record{Time: abi.NoTime, Value: []byte(""), Pos: abi.NoPosition},
			`{"key":null,"value":"","time":null,"from":{"snapshot":7,"split":null,"offset":null}}`},
	} {
		got, err := e.Append(nil, abi.Frame(abi.AppendRecord(nil, &c.r)))
		if err != nil || string(got) != c.want+"\n" {
			t.Errorf("got %s, %v, expected %s", got, err, c.want)
		}
	}
}
