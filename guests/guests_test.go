package guests_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/guestop"
)

const day = 24 * 60 * 60 * 1000

var effects = []step{
	rec("k", "value; set abc; value; unset; value; set", 1),
	rec("k", "value; biglen; big 70000; biglen", 2),
	rec("k", "put b 2; put a 1; put c 3; del a; get b; get a; scan; scan c", 3),
	rec("k", "append x; append y; list; unlist; list", 4),
	rec("j", "set old; put a 1; timer 50 t; append x", 5),
	rec("j", "set new; put a 2; put b 3; untimer 50 t; timer 60 u; append y; empty; log l; count c 5; out o; large 300000; fail no", 6),
	rec("j", "value; scan; list", 7),
	rec("m", "timer 20 do timer 5 late; timer 10 do timer 15 between; timer 10 do timer 15 between; timer 30 gone; untimer 30 gone", 8),
	watermark(100),
	rec("m", "wm; side s; forward; tombstone; header h v", 9),
	rec("m", "out a; large 250000; out b; large 400000; out c", 10),
	rec("m", "trap", 11),
	rec("m", "random", 11),
	rec("m", "ptimer 1000 p", 12),
	rec("k", "no such command", 13),
	watermark(abi.MaxWatermark),
	processing(1000),
}

var effectsWant = []string{
	"0 k=no value @1", "0 k=value abc @1", "0 k=no value @1",
	"0 k=value  @2", "0 k=no big @2", "0 k=big 70000 @2",
	"0 k=b = 2 @3", "0 k=no a @3", "0 k=map b=2 c=3 @3", "0 k=map c=3 @3",
	"0 k=list x y @4", "0 k=list  @4",
	"0 j=value old @7", "0 j=map a=1 @7", "0 j=list x @7",
	"0 m=fired 10 do timer 15 between at watermark 100 @10",
	"0 j=fired 50 t at watermark 100 @50",
	"0 m=fired 15 between at watermark 100 @15",
	"0 m=fired 20 do timer 5 late at watermark 100 @20",
	"0 m=fired 5 late at watermark 100 @5",
	"0 m=watermark 100 @9", "0 m=wm; side s; forward; tombstone; header h v @9", "0 m=null @9 op3", "0 m=headers @9 h:v null:null",
	"0 m=a @10", "0 m=250000 bytes of 'y' @10", "0 m=b @10", "0 m=400000 bytes of 'y' @10", "0 m=c @10",
	"0 m=random 0123456789abcdef 0123456789abcdef @11",
	"0 m=fired 1000 p at watermark 9223372036854775807",
	"1 m=s @9",
}

// cases: function by module, what goes in and what must come out, of every language.
var cases = []struct {
	module, function string
	in               []step
	want             []string
}{
	{"wordcount", "split", []step{rec("", "To be, or nöt to BE", 3), rec("", "\xff", 4), rec("", "x", 5)},
		[]string{"0 to=to @3", "0 be=be @3", "0 or=or @3", "0 nöt=nöt @3", "0 to=to @3", "0 be=be @3", "0 x=x @5"}},
	{"wordcount", "count", []step{rec("to", "to", 1), rec("be", "be", 2), rec("to", "to", 3)},
		[]string{`0 to={"word":"to","count":1} @1`, `0 be={"word":"be","count":1} @2`, `0 to={"word":"to","count":2} @3`}},
	{"dedup", "dedup", []step{rec("a", "1", 0), rec("b", "2", 0), rec("a", "3", 1000), watermark(601_000), rec("a", "4", 601_001)},
		[]string{"0 a=1 @0", "0 b=2 @0", "0 a=4 @601001", "1 a=3 @1000"}},
	{"fraud", "fraud", []step{row("c1", 1000, 80), row("c2", 2000, 60_000), row("c1", 2500, -1), row("c1", 61_000, 70_000), watermark(61_000), row("c1", 61_001, 70_000)},
		[]string{`0 c1={"card":"c1","small":80,"large":70000,"after_ms":60000,"time":61000} @61000`, `1 c1={"card":"c1","time":61000} @61000`}},
	{"flights", "flights", []step{row("ATL", 2*day, 7, 2*day), row("ATL", day, -3, day), row("JFK", day, 1, day), row("ATL", day+1, 4, day+1), watermark(2*day - 1), row("ATL", day+2, 99, day+2), watermark(abi.MaxWatermark)},
		[]string{`0 ATL={"origin":"ATL","day":"1970-01-02","flights":2,"mean_delay":0.500} @172799999`,
			`0 JFK={"origin":"JFK","day":"1970-01-02","flights":1,"mean_delay":1.000} @172799999`,
			`0 ATL={"origin":"ATL","day":"1970-01-03","flights":1,"mean_delay":7.000} @259199999`, "1 ATL=" + string(row("ATL", 0, 99, day+2).rec.Value) + fmt.Sprint(" @", day+2)}},
	{"count", "count_row", []step{row("k", 1, 5), row("k", 2, nil), row("k", 3, -2)},
		[]string{`0 k={"key":"k","count":1,"sum":5} @1`, `0 k={"key":"k","count":2,"sum":5} @2`, `0 k={"key":"k","count":3,"sum":3} @3`}},
	{"crashseq", "crashseq", []step{rec("a", "a 1", 1), rec("a", "a x", 2), rec("a", "a 2", 3)},
		[]string{`0 a={"key":"a","count":1,"n":1,"xor":1} @1`, `0 a={"key":"a","count":2,"n":2,"xor":3} @3`}},
	{"crashseq", "count", []step{row("a", 1, "a", 1), row("a", 2, "a", 2)},
		[]string{`0 a={"key":"a","count":1,"n":1,"xor":1} @1`, `0 a={"key":"a","count":2,"n":2,"xor":3} @2`}},
	{"effects", "effects", effects, effectsWant},
	{"identity", "identity", []step{{rec: &abi.Record{Key: []byte("k1"), Time: 1}}, {rec: &abi.Record{Key: []byte("k2"), Value: []byte{}, Time: abi.NoTime,
		Headers: []abi.Header{{Key: []byte("h")}, {Key: []byte("h"), Value: []byte{}}}}}, {rec: &abi.Record{Value: []byte("v"), Op: abi.OpDelete}}},
		[]string{"0 k1=null @1", "0 k2= h:null h:", "0 null=v @0 op3"}},
	{"stateless", "filter_map", []step{rec("k", "\x01\x00\x00\x00\x00\x00\x00\x00p", 1), rec("k", "\x04\x00\x00\x00\x01\x00\x00\x00p", 1)},
		[]string{"0 k=\x04\x00\x00\x00\x00\x00\x00\x00p @1"}},
}

func TestModulesGiveTheSameInEveryLanguageAndBatch(t *testing.T) {
	e := newEngine(t)
	for _, c := range cases {
		for language, path := range modules(c.module) {
			t.Run(fmt.Sprintf("%s/%s/%s", c.module, c.function, language), func(t *testing.T) {
				m := compile(t, e, path)
				for _, n := range []int{1, 3, 64} {
					got := byOutput(play(t, m, c.function, n, c.in))
					if want := byOutput(c.want); !slices.EqualFunc(got, want, matches) {
						t.Errorf("batches of %d:\n%s\nexpected\n%s", n, strings.Join(got, "\n"), strings.Join(want, "\n"))
					}
				}
			})
		}
	}
}

func TestPanicSaysWhatAndWhere(t *testing.T) {
	e := newEngine(t)
	for language, path := range modules("effects") {
		t.Run(language, func(t *testing.T) {
			op, done := operatorWith(t, compile(t, e, path), "effects", &manualClock{now: 1}, operators.PolicyStop)
			defer done()
			var b abi.Batch
			for i, v := range []string{"log before", "out x", "trap"} {
				b.Append(&abi.Record{Key: []byte("k"), Value: []byte(v), Time: 1, Pos: abi.Position{Offset: uint64(i)}})
			}
			var f *guestop.Fault
			if err := op.Batch(0, &b, &collected{}); !errors.As(err, &f) {
				t.Fatalf("error %v", err)
			}
			if !strings.Contains(f.Stderr, "trap on demand") || language == "rust" && !strings.Contains(f.Stderr, "src/lib.rs:") {
				t.Errorf("stderr %q", f.Stderr)
			}
		})
	}
}

// byOutput puts each output's lines together: between outputs there is no order.
func byOutput(lines []string) []string {
	lines = slices.Clone(lines)
	slices.SortStableFunc(lines, func(a, b string) int { return int(a[0]) - int(b[0]) })
	return lines
}

// matches compares all but random numbers.
func matches(got, want string) bool {
	if at := strings.Index(want, "random "); at >= 0 {
		return len(got) == len(want) && got[:at] == want[:at]
	}
	return got == want
}
