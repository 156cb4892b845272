package ci

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/host/replay"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// example is a report with something of everything; shuffled, the differences come in another order.
func example(rng *rand.Rand) *Report {
	r := &Report{Slice: Slice{Job: "payments", Snapshot: 12, Records: 100_000, Sources: []string{"payments"}, FromMS: 1728000022284, ToMS: 1728003622284},
		Change:   []job.Difference{{Kind: job.ChangeSwap, Operator: "totals", What: "module 0123456789ab becomes ba9876543210"}},
		Findings: []Finding{{Operator: "totals", Text: "its fuel has no bound: a loop at 0x17"}}}
	totals := &Operator{ID: "totals", Function: "per_country", Records: 99_000, Timers: 1000, OldFuel: 1_000_000, NewFuel: 1_070_000}
	idle := &Operator{ID: "idle", Function: "none", Records: 10}
	var diffs []*replay.Difference
	for i := range 9 {
		at := int64(1728000022284 + i)
		d := &replay.Difference{Operator: "totals", Position: fmt.Sprintf("payments.ndjson:%d", i+1), Pos: abi.Position{Offset: uint64(i)}, Time: &at, KeyRow: "J|P`",
			OldFuel: 100, NewFuel: 110, Kinds: replay.KindFuel}
		if i < 5 {
			d.Kinds = replay.KindState
			d.Details = append(d.Details, replay.Detail{Kind: replay.KindState, Of: "total", Before: "17", After: strings.Repeat("9", 300+i)})
			d.Follow = i > 0
		}
		if i < 2 {
			d.Kinds |= replay.KindOutput | replay.KindFuel
			d.Details = append(d.Details, replay.Detail{Kind: replay.KindOutput, Of: "alerts", Before: `{"cents":17}`})
		}
		diffs = append(diffs, d)
	}
	rng.Shuffle(len(diffs), func(i, j int) { diffs[i], diffs[j] = diffs[j], diffs[i] })
	for _, d := range diffs {
		totals.add(d)
	}
	r.Operators = []*Operator{totals, idle}
	return r
}

// TestReports: the same bytes whatever order the differences came in, as kept in testdata.
func TestReports(t *testing.T) {
	for name, write := range map[string]func(*Report, *bytes.Buffer){"text": func(r *Report, b *bytes.Buffer) { r.Text(b) }, "md": func(r *Report, b *bytes.Buffer) { r.Markdown(b) }} {
		path := "testdata/report." + name
		for seed := range uint64(5) {
			r := example(rand.New(rand.NewPCG(seed, 1)))
			r.Judge(&Policy{Limits: Limits{MaxFuel: "+5%"}})
			var b bytes.Buffer
			write(r, &b)
			if *rewrite && seed == 0 {
				if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(b.Bytes(), want) {
				t.Errorf("%s, seed %d: another report:\n%s", path, seed, b.String())
			}
		}
	}
}

func TestPolicy(t *testing.T) {
	for _, c := range []struct {
		policy string
		beyond []string
	}{
		{"", []string{"totals: 5 records or timers differ, 0 may"}},
		{"max_diff: 5", nil},
		{"max_diff: 4", []string{"totals: 5 records or timers differ, 4 may"}},
		{"max_diff: 0.005%", nil},
		{"max_diff: 0.0049%", []string{"totals: 5 records or timers differ, 4 may"}},
		{"allow: [state]", []string{"totals: 2 records or timers differ, 0 may"}},
		{"allow: [output]", []string{"totals: 5 records or timers differ, 0 may"}},
		{"allow: [output, state]", nil},
		{"allow: [output, state]\nmax_fuel: +7%", nil},
		{"allow: [output, state]\nmax_fuel: +6.9%", []string{"totals: fuel +7.00 %, at most +6.9% is allowed"}},
		{"allow: [output, state, fuel]\nmax_fuel: +1%", nil},
		{"operators: {totals: {max_diff: 5}}", nil},
		{"max_diff: 5\noperators: {totals: {max_diff: 1}, gone: {allow: [state]}}",
			[]string{"the policy has limits for gone, which was not compared", "totals: 5 records or timers differ, 1 may"}},
	} {
		p, err := ReadPolicy("p.yaml", []byte(c.policy))
		if err != nil {
			t.Fatal(err)
		}
		r := example(rand.New(rand.NewPCG(1, 1)))
		r.Judge(p)
		if !reflect.DeepEqual(r.Beyond, c.beyond) || r.Within != (len(c.beyond) == 0) {
			t.Errorf("%q: %q, expected %q", c.policy, r.Beyond, c.beyond)
		}
	}
}

func TestWhatNoPolicyAllows(t *testing.T) {
	r := &Report{Change: []job.Difference{{Kind: job.ChangeBreaking, Operator: "o", What: "state s is a value, the new module declares a map"}},
		Findings: []Finding{{Operator: "o", Text: "keeps results of earlier records", Grave: true}, {Operator: "o", Text: "fine otherwise"}}}
	r.Judge(&Policy{})
	if len(r.Beyond) != 2 || !strings.Contains(r.Beyond[0], "declares a map") || !strings.Contains(r.Beyond[1], "earlier records") {
		t.Errorf("%q", r.Beyond)
	}
}

func TestPoliciesThatMeanNothing(t *testing.T) {
	_, err := ReadPolicy("p.yaml", []byte("max_diff: many\nmax_fuel: 10\nallow: [stat]\noperators: {x: {max_diff: 101%}}"))
	for _, says := range []string{"p.yaml", `max-diff "many"`, `max-fuel "10"`, `allow "stat": expected fault, output, state, timer or fuel`, `operator x: max-diff "101%"`} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q is missing in %v", says, err)
		}
	}
	if _, err := ReadPolicy("p.yaml", []byte("max_dif: 3")); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("an unknown field: %v", err)
	}
}
