package crashpoint

import (
	"testing"
	"time"
)

func TestParseAcceptsEveryPointAndAction(t *testing.T) {
	for _, p := range Points {
		for _, action := range []string{"kill", "stop", "delay=20ms"} {
			got, err := parse(p.Name + ":3:" + action)
			if err != nil {
				t.Errorf("%s %s: %v", p.Name, action, err)
				continue
			}
			if got.point != p.Name || got.nth != 3 {
				t.Errorf("%s: got %+v", p.Name, got)
			}
			if action == "delay=20ms" && (got.action != "delay" || got.delay != 20*time.Millisecond) {
				t.Errorf("delay: got %+v", got)
			}
		}
	}
}

func TestParseRefusesWhatWouldNeverFire(t *testing.T) {
	for _, s := range []string{"K1", "K1:1", "K0:1:kill", "K1:0:kill", "K1:x:kill", "K1:1:error", "K1:1:delay=x", "K1:1:kill:2"} {
		if p, err := parse(s); err == nil {
			t.Errorf("%q was accepted as %+v", s, p)
		}
	}
	if p, err := parse(""); err != nil || p != (plan{}) {
		t.Errorf("empty: got %+v, %v", p, err)
	}
}

func TestPointNamesAreDistinctAndExplained(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range append(append([]Point{}, Points...), Absent...) {
		if seen[p.Name] || p.Meaning == "" {
			t.Errorf("%s: listed twice or without a meaning", p.Name)
		}
		seen[p.Name] = true
	}
	for i := 1; i <= 20; i++ {
		name := "K" + string(rune('0'+i))
		if i >= 10 {
			name = "K" + string(rune('0'+i/10)) + string(rune('0'+i%10))
		}
		if !seen[name] {
			t.Errorf("%s of the crash matrix is neither a point nor absent with a reason", name)
		}
	}
}
