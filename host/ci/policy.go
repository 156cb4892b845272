package ci

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/host/replay"
)

// Policy says what may differ. The zero Policy allows nothing but fuel.
type Policy struct {
	Limits `yaml:",inline"`
	// Operators overrides it for single ones.
	Operators map[string]Limits `yaml:"operators"`
}

// Limits of one operator, as text; empty: that of the policy above it, or the default.
type Limits struct {
	// MaxDiff is how many records and timers may differ in what Allow does not name: a number ("10"), or a share of
	// those compared ("0.1%"). Default: 0.
	MaxDiff string `yaml:"max_diff"`
	// MaxFuel is how much more fuel the new module may take ("+10%"). Default: any.
	MaxFuel string `yaml:"max_fuel"`
	// Allow names kinds of differences that are not counted: fault, output, state, timer. Fuel: MaxFuel does not count.
	Allow []string `yaml:"allow"`
}

// ReadPolicy reads a policy file. Errors name the line.
func ReadPolicy(name string, text []byte) (*Policy, error) {
	p := &Policy{}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(p); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("policy %s: %w", name, err)
	}
	if err := p.Check(); err != nil {
		return nil, fmt.Errorf("policy %s: %w", name, err)
	}
	return p, nil
}

// Check says everything that is wrong with a policy.
func (p *Policy) Check() error {
	problems := []error{p.check("")}
	for _, id := range sortedKeys(p.Operators) {
		l := p.Operators[id]
		problems = append(problems, l.check("operator "+id+": "))
	}
	return errors.Join(problems...)
}

func sortedKeys[V any](m map[string]V) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (l *Limits) check(where string) error {
	var problems []error
	if _, _, err := parseDiff(l.MaxDiff); err != nil {
		problems = append(problems, fmt.Errorf("%smax-diff %w", where, err))
	}
	if _, err := parseFuel(l.MaxFuel); err != nil {
		problems = append(problems, fmt.Errorf("%smax-fuel %w", where, err))
	}
	for _, a := range l.Allow {
		if kindNamed(a) == 0 {
			problems = append(problems, fmt.Errorf("%sallow %q: expected fault, output, state, timer or fuel", where, a))
		}
	}
	return errors.Join(problems...)
}

// parseDiff reads a number, or a share of 1.
func parseDiff(s string) (number int64, share float64, err error) {
	if s == "" {
		return 0, 0, nil
	}
	if text, ok := strings.CutSuffix(s, "%"); ok {
		share, err = strconv.ParseFloat(text, 64)
		if err != nil || !(share >= 0 && share <= 100) {
			return 0, 0, fmt.Errorf("%q: expected a share such as 0.1%%", s)
		}
		return 0, share / 100, nil
	}
	if number, err = strconv.ParseInt(s, 10, 64); err != nil || number < 0 {
		return 0, 0, fmt.Errorf("%q: expected a number of records such as 10, or a share such as 0.1%%", s)
	}
	return number, 0, nil
}

// parseFuel reads "+10%" as 0.1; -1: no limit.
func parseFuel(s string) (float64, error) {
	if s == "" {
		return -1, nil
	}
	text, ok := strings.CutSuffix(strings.TrimPrefix(s, "+"), "%")
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !ok || !(v >= 0 && v <= 1e6) {
		return 0, fmt.Errorf("%q: expected how much more, such as +10%%", s)
	}
	return v / 100, nil
}

// limits of an operator.
func (p *Policy) limits(operator string) Limits {
	l := p.Limits
	o := p.Operators[operator]
	if o.MaxDiff != "" {
		l.MaxDiff = o.MaxDiff
	}
	if o.MaxFuel != "" {
		l.MaxFuel = o.MaxFuel
	}
	if o.Allow != nil {
		l.Allow = o.Allow
	}
	return l
}

// compared is how many records and timers were.
func (r *Report) compared() (n int64) {
	for _, o := range r.Operators {
		n += o.Records + o.Timers + o.NotCompared
	}
	return n
}

// Judge says what of a report is beyond a checked policy.
func (r *Report) Judge(p *Policy) {
	r.Beyond = nil
	if r.compared() == 0 && len(r.Operators) > 0 {
		r.Beyond = append(r.Beyond, "nothing was compared: no record of the slice reaches what changed")
	}
	beyond := func(format string, args ...any) { r.Beyond = append(r.Beyond, fmt.Sprintf(format, args...)) }
	for _, d := range r.Change {
		if d.Kind == job.ChangeBreaking && !d.Drop {
			beyond("%v", d)
		}
	}
	for _, f := range r.Findings {
		if f.Grave {
			beyond("%s: %s", f.Operator, f.Text)
		}
	}
	for _, id := range sortedKeys(p.Operators) {
		if !slices.ContainsFunc(r.Operators, func(o *Operator) bool { return o.ID == id }) {
			beyond("the policy has limits for %s, which was not compared", id)
		}
	}
	for _, o := range r.Operators {
		o.settle()
		l := p.limits(o.ID)
		allowed := replay.KindFuel
		for _, a := range l.Allow {
			allowed |= kindNamed(a)
		}
		number, share, _ := parseDiff(l.MaxDiff) // checked
		if share > 0 {
			number = int64(share * float64(o.Records+o.Timers))
		}
		if n := o.differing(allowed); n > number {
			beyond("%s: %s differ%s, %s may", o.ID, count(n, "record or timer", "records or timers"), singular(n), thousands(number))
		}
		if o.Stopped != "" || o.NotCompared > 0 {
			beyond("%s: the new version could not go on, %s not compared: %s", o.ID, count(o.NotCompared, "record was", "records were"), o.Stopped)
		}
		more, _ := parseFuel(l.MaxFuel)
		if more >= 0 && !slices.Contains(l.Allow, "fuel") && o.Ratio() > 1+more {
			beyond("%s: fuel %s, at most %s is allowed", o.ID, percent(o.Ratio()), l.MaxFuel)
		}
	}
	r.Within = len(r.Beyond) == 0
}
