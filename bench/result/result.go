// Package result is what measuring programs share: the RESULT line, CPU time of the process, the median
// of several runs and the scaling of absolute bounds by this machine's native baseline.
package result

import (
	"fmt"
	"io"
	"math"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
)

// Out is where RESULT lines go.
var Out io.Writer = os.Stdout

var failed atomic.Int64

// Report prints one figure: RESULT <name> <value> <unit> <bound> PASS|FAIL. The name and unit have no
// spaces; bound is what the value had to satisfy, such as ">=0.42", or "-" for a figure without one.
func Report(name string, value float64, unit, bound string, pass bool) {
	verdict := "PASS"
	if !pass {
		verdict = "FAIL"
		failed.Add(1)
	}
	fmt.Fprintf(Out, "RESULT %s %s %s %s %s\n", word(name), number(value), word(unit), word(bound), verdict)
}

// AtLeast reports a value that must reach bound and says whether it does. NaN does not.
func AtLeast(name string, value float64, unit string, bound float64) bool {
	ok := value >= bound
	Report(name, value, unit, ">="+number(bound), ok)
	return ok
}

// AtMost reports a value that must not exceed bound and says whether it keeps to it. NaN does not.
func AtMost(name string, value float64, unit string, bound float64) bool {
	ok := value <= bound
	Report(name, value, unit, "<="+number(bound), ok)
	return ok
}

// Note reports a figure that has no bound.
func Note(name string, value float64, unit string) { Report(name, value, unit, "-", true) }

// Failed is the number of FAIL lines so far.
func Failed() int { return int(failed.Load()) }

// Exit ends the program: status 1 if any figure failed.
func Exit() {
	if n := Failed(); n > 0 {
		fmt.Fprintf(os.Stderr, "%d figures failed\n", n)
		os.Exit(1)
	}
	os.Exit(0)
}

func word(s string) string {
	s = strings.Join(strings.Fields(s), "_")
	if s == "" {
		return "-"
	}
	return s
}

// number prints four significant digits, and whole numbers whole.
func number(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return strconv.FormatFloat(v, 'g', -1, 64)
	case v == math.Trunc(v) && math.Abs(v) < 1e15:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case math.Abs(v) >= 1000:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// Median is the middle value; of an even number the lower of the two in the middle. NaN for none.
func Median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	s := append([]float64(nil), v...)
	sort.Float64s(s)
	return s[(len(s)-1)/2]
}
