package result

import (
	"bytes"
	"math"
	"runtime"
	"testing"
	"time"
)

func capture(t *testing.T, f func()) string {
	t.Helper()
	var b bytes.Buffer
	old := Out
	Out = &b
	defer func() { Out = old; failed.Store(0) }()
	f()
	return b.String()
}

func TestLinesHaveSixFieldsAndTheRightVerdict(t *testing.T) {
	got := capture(t, func() {
		AtLeast("guest.rust ratio", 0.4312345, "x", 0.42)
		AtLeast("count.100k", 1_999_999.6, "records/s/core", 2e6)
		AtMost("pause", 0.5, "ms", 0.5)
		AtLeast("broken", math.NaN(), "x", 1)
		Note("size", 12, "")
		if Failed() != 2 {
			t.Errorf("Failed() = %d, expected 2", Failed())
		}
	})
	want := "RESULT guest.rust_ratio 0.4312 x >=0.42 PASS\n" +
		"RESULT count.100k 2000000 records/s/core >=2000000 FAIL\n" +
		"RESULT pause 0.5 ms <=0.5 PASS\n" +
		"RESULT broken NaN x >=1 FAIL\n" +
		"RESULT size 12 - - PASS\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestMedianIgnoresOutliers(t *testing.T) {
	if m := Median([]float64{9, 1, 100, 2, 3}); m != 3 {
		t.Errorf("median %v, expected 3", m)
	}
	if m := Median([]float64{4, 1, 3, 2}); m != 2 {
		t.Errorf("median of four %v, expected the lower middle 2", m)
	}
	if !math.IsNaN(Median(nil)) {
		t.Error("median of nothing is a number")
	}
}

func TestBaselineOnlyLowersBounds(t *testing.T) {
	if s := (Baseline{Anchor: 30, Here: 15}).Scale(); s != 0.5 {
		t.Errorf("half as fast: scale %v", s)
	}
	if s := (Baseline{Anchor: 30, Here: 60}).Scale(); s != 1 {
		t.Errorf("twice as fast: scale %v", s)
	}
	got := capture(t, func() { Baseline{"native", 30, 15}.AtLeast("r", 6, "x", 10) })
	if got != "RESULT r 6 x >=5 PASS\n" {
		t.Errorf("got %q", got)
	}
}

func TestCPUCountsWorkNotWaiting(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start, thread := CPU(), ThreadCPU()
	time.Sleep(60 * time.Millisecond)
	idle := CPU() - start
	for end := CPU() + 60*time.Millisecond; CPU() < end; {
	}
	if idle > 40*time.Millisecond {
		t.Errorf("sleeping 60 ms cost %v of CPU", idle)
	}
	if got := ThreadCPU() - thread; got < 30*time.Millisecond {
		t.Errorf("this thread spun for 60 ms of process CPU, its clock says %v", got)
	}
}

func TestRateCountsItems(t *testing.T) {
	r := RateOf(3, func() int {
		for end := CPU() + 5*time.Millisecond; CPU() < end; {
		}
		return 1000
	})
	if r < 50_000 || r > 210_000 {
		t.Errorf("1000 items in 5 ms of CPU: %v items per CPU-second", r)
	}
}
