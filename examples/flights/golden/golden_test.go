// Package golden checks that the golden output belongs to the committed sample.
package golden

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"
	"testing"
	"time"
)

type day struct{ flights, delay int64 }

// line is one golden line; the mean is rounded half away from zero in integers.
func (d day) line(origin, date string) string {
	abs, sign := d.delay, ""
	if abs < 0 {
		abs, sign = -abs, "-"
	}
	mean := (2000*abs + d.flights) / (2 * d.flights)
	if mean == 0 {
		sign = ""
	}
	return fmt.Sprintf(`{"origin":"%s","day":"%s","flights":%d,"mean_delay":%s%d.%03d}`, origin, date, d.flights, sign, mean/1000, mean%1000)
}

func TestSampleIsTheResultOfBothOrders(t *testing.T) {
	want, err := os.ReadFile("sample.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"../data/flights.ndjson", "../data/flights-by-report.ndjson"} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		days := map[[2]string]day{}
		for in := json.NewDecoder(bytes.NewReader(data)); in.More(); {
			var f struct {
				Date, Delay int64
				Origin      string
			}
			if err := in.Decode(&f); err != nil {
				t.Fatal(err)
			}
			k := [2]string{f.Origin, time.UnixMilli(f.Date).UTC().Format(time.DateOnly)}
			d := days[k]
			days[k] = day{d.flights + 1, d.delay + f.Delay}
		}
		var lines []string
		for k, d := range days {
			lines = append(lines, d.line(k[0], k[1])+"\n")
		}
		sort.Strings(lines)
		if got := strings.Join(lines, ""); got != string(want) {
			t.Errorf("%s gives %d lines that differ from the %d of sample.ndjson: the sample was changed without its golden output", file, len(lines), bytes.Count(want, []byte("\n")))
		}
	}
}
