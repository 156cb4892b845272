// Command chart draws what the pipelines of this example wrote: a row per country, a bar per hour.
//
//	chart [-html picture.html] NAME=FOLDER[+FOLDER...] ...
//
// Of several folders the later one counts where both have an hour.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// hours of a day.
const hours = 24

// picture is one set of results.
type picture struct {
	Name  string
	Cents map[string]*[hours]int64 // by country
	Seen  map[string]*[hours]bool
}

func main() {
	page := flag.String("html", "", "write a page with all pictures too")
	flag.Parse()
	if err := run(os.Stdout, *page, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, page string, args []string) error {
	var all []*picture
	for _, a := range args {
		name, folders, ok := strings.Cut(a, "=")
		if !ok {
			return fmt.Errorf("%q, expected NAME=FOLDER", a)
		}
		p := &picture{Name: name, Cents: map[string]*[hours]int64{}, Seen: map[string]*[hours]bool{}}
		for _, f := range strings.Split(folders, "+") {
			if err := p.read(f); err != nil {
				return err
			}
		}
		all = append(all, p)
	}
	for _, p := range all {
		p.draw(w)
	}
	if page == "" {
		return nil
	}
	return os.WriteFile(page, []byte(html(all)), 0o644)
}

// read adds the published lines of a folder.
func (p *picture) read(folder string) error {
	parts, err := filepath.Glob(filepath.Join(folder, "*.ndjson"))
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		return fmt.Errorf("nothing is published in %s", folder)
	}
	for _, part := range parts {
		f, err := os.Open(part)
		if err != nil {
			return err
		}
		err = p.lines(f)
		f.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
	}
	return nil
}

func (p *picture) lines(r io.Reader) error {
	for s := bufio.NewScanner(r); s.Scan(); {
		var row struct {
			Country string
			Hour    int
			Cents   int64
		}
		if err := json.Unmarshal(s.Bytes(), &row); err != nil {
			return err
		}
		if row.Hour < 0 || row.Hour >= hours {
			return fmt.Errorf("hour %d", row.Hour)
		}
		if p.Cents[row.Country] == nil {
			p.Cents[row.Country], p.Seen[row.Country] = new([hours]int64), new([hours]bool)
		}
		p.Cents[row.Country][row.Hour], p.Seen[row.Country][row.Hour] = row.Cents, true
	}
	return nil
}

func (p *picture) countries() []string {
	var names []string
	for c := range p.Cents {
		names = append(names, c)
	}
	slices.Sort(names)
	return names
}

// bars are eighths of a line's height.
var bars = []rune("\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588")

// draw writes the picture for a terminal: "." is an hour without a result, "0" one of nothing.
func (p *picture) draw(w io.Writer) {
	fmt.Fprintf(w, "%s\n", p.Name)
	for _, c := range p.countries() {
		most := slices.Max(p.Cents[c][:])
		var b strings.Builder
		sum := int64(0)
		for h, n := range p.Cents[c] {
			sum += n
			switch {
			case !p.Seen[c][h]:
				b.WriteByte('.')
			case n == 0:
				b.WriteByte('0')
			default:
				b.WriteRune(bars[n*int64(len(bars)-1)/most])
			}
		}
		fmt.Fprintf(w, "  %s %s %9.2f EUR\n", c, b.String(), float64(sum)/100)
	}
}

const (
	barWidth  = 18
	rowHeight = 60
)

// html is one page that needs nothing else.
func html(all []*picture) string {
	var b strings.Builder
	b.WriteString("<!doctype html>\n<meta charset=\"utf-8\">\n<title>Payments per country and hour</title>\n" +
		"<style>body{font:14px sans-serif;margin:2em}rect{fill:#3a6ea5}rect.none{fill:#c0392b}text{font-size:11px}</style>\n")
	for _, p := range all {
		names := p.countries()
		fmt.Fprintf(&b, "<h2>%s</h2>\n<svg width=\"%d\" height=\"%d\" role=\"img\">\n", p.Name, 60+hours*barWidth, len(names)*rowHeight+20)
		for i, c := range names {
			base := (i + 1) * rowHeight
			fmt.Fprintf(&b, "<text x=\"0\" y=\"%d\">%s</text>\n", base, c)
			most := max(1, slices.Max(p.Cents[c][:]))
			for h, n := range p.Cents[c] {
				if !p.Seen[c][h] {
					continue
				}
				class, height := "", int(n*(rowHeight-12)/most)
				if n == 0 {
					class, height = " class=\"none\"", 2
				}
				fmt.Fprintf(&b, "<rect%s x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"><title>%s %02d:00, %.2f EUR</title></rect>\n",
					class, 40+h*barWidth, base-height, barWidth-3, height, c, h, float64(n)/100)
			}
		}
		for h := 0; h < hours; h += 6 {
			fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\">%02d:00</text>\n", 40+h*barWidth, len(names)*rowHeight+14, h)
		}
		b.WriteString("</svg>\n")
	}
	return b.String()
}
