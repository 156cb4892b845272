package millrace

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestTTLsAreDescribed(t *testing.T) {
	seen, cart, total := NewValue("seen", Int64Value), NewMap("cart", TextKey, Int64Value), NewValue("total", Int64Value)
	m := &Module{Name: "m", Functions: []Function{{Name: "f", Kind: Process, Keyed: true, OnRecord: func(*Ctx, Record) error { return nil },
		States: []State{Expiring(seen, TTL{MS: 7_200_000_000}), Expiring(cart, TTL{MS: 1800, Domain: ProcessingTime, OnRead: true}), total}}}}
	m.bind()
	text := string(m.Describe())
	for _, part := range []string{`"name":"seen","kind":"value","max_bytes":8,"ttl":{"ms":7200000000},"schema":`,
		`"ttl":{"ms":1800,"domain":"processing","refresh":"read"},"schema":`, `"name":"total","kind":"value","max_bytes":8,"schema":{"type":"i64"}}`} {
		if !strings.Contains(text, part) {
			t.Errorf("%s is not in %s", part, text)
		}
	}
	if total.index != 2 || !seen.prefetch {
		t.Errorf("states are not bound: %+v %+v", seen, total)
	}
}

func TestWatermarkFunction(t *testing.T) {
	m := &Module{Name: "m", Functions: []Function{{Name: "marks", Watermark: func(_ *Ctx, rec Record) (int64, bool, error) {
		switch string(rec.Value()) {
		case "none":
			return 0, false, nil
		case "bad":
			return 0, true, errors.New("bad")
		}
		return rec.Time(), true, nil
	}}}}
	m.bind()
	if text := string(m.Describe()); !strings.Contains(text, `{"name":"marks","kind":"watermark"}`) {
		t.Errorf("described as %s", text)
	}
	h := NewHarness(m, "marks")
	h.OutputSpace = 8 << 10
	var records []Input
	var want []Said
	for i := range int64(300) {
		records, want = append(records, In("k", "v", i)), append(want, Said{i, true})
	}
	records[7].Value, records[8].Value = []byte("none"), []byte("bad")
	want[7], want[8] = Said{}, Said{}
	if got := h.Watermarks(records...); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if f := h.Failures(); len(f) != 1 || f[0].Message != "bad" {
		t.Errorf("failures: %v", f)
	}
	if got := h.Watermarks(); len(got) != 0 {
		t.Errorf("of no record: %v", got)
	}
}
