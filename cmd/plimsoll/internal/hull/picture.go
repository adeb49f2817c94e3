package hull

import (
	"fmt"
	"math"
	"strings"

	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/demo"
)

// The smallest screen that the hulls fit on.
const (
	minWidth  = 60
	minHeight = 16
)

// Draw makes the picture of a frame, for a screen of the given size.
func Draw(f *Frame, width, height int, with Paint) string {
	if width < minWidth || height < minHeight {
		return screen(tiny(f, width, height), width, height, with)
	}
	l := layoutOf(height - len(f.Services))
	rows := []row{f.title(width)}
	rows = append(rows, f.Day.draw(width, l.strip)...)
	rows = append(rows, f.services()...)
	rows = append(rows, f.money())
	rows = append(rows, f.ships(width, l.hull)...)
	rows = append(rows, legend(), nil)
	rows = append(rows, f.news(l.news)...)
	for len(rows) < height-1 {
		rows = append(rows, nil)
	}
	return screen(append(rows, f.foot()), width, height, with)
}

// layout is how many rows each part of the picture has.
type layout struct{ strip, hull, news int }

// layoutOf shares out the rows of a screen that are not the services'. Eight of them are always
// taken: title, hours, money, hulls' heads and keels, legend, a blank, and the foot.
func layoutOf(height int) layout {
	l := layout{strip: 1}
	if height >= 30 {
		l.strip = 3
	}
	left := height - 8 - l.strip
	l.hull = min(max(left/2+2, 4), 17)
	l.news = max(left-l.hull, 0)
	return l
}

// Page makes a screen of text under a title, from a line on: for help and explanations. Lines
// that are too long are cut.
func Page(title string, lines []string, from int, foot string, width, height int, with Paint) string {
	room := max(0, height-4)
	from = min(from, max(0, len(lines)-room))
	rows := []row{{{Strong, title}}, nil}
	for _, l := range lines[from:min(from+room, len(lines))] {
		rows = append(rows, text(l))
	}
	for len(rows) < height-2 {
		rows = append(rows, nil)
	}
	if rest := len(lines) - from - room; rest > 0 {
		foot = fmt.Sprintf("%d more lines below · %s", rest, foot)
	}
	return screen(append(rows, nil, row{{Faint, foot}}), width, height, with)
}

// tiny is what is left of the picture where it has no room.
func tiny(f *Frame, width, height int) []row {
	rows := append([]row{f.title(width)}, f.services()...)
	return append(rows, f.money(), nil, text(fmt.Sprintf("The hulls need %d × %d, this is %d × %d.", minWidth, minHeight, width, height)), nil, f.foot())
}

func (f *Frame) title(width int) row {
	clock := f.Time.Format("Mon 15:04:05") + "  " + f.Pace
	title := row{{Strong, f.Title}}
	gap := width - title.width() - len([]rune(clock))
	if gap < 1 {
		title, gap = title.fit(max(0, width-len([]rune(clock))-1)), 1
	}
	return append(title, piece{Plain, strings.Repeat(" ", gap)}, piece{Strong, clock})
}

// services says how each workload does.
func (f *Frame) services() []row {
	names := 0
	for i := range f.Services {
		names = max(names, len(f.Services[i].Name))
	}
	var rows []row
	for i := range f.Services {
		s := &f.Services[i]
		r := text(fmt.Sprintf("%-*s ", names, s.Name))
		if v, ok := s.Arrivals.Number(); ok {
			r = r.and(Strong, fmt.Sprintf("%4s", Rate(v))).and(Plain, " req/s  ")
		} else {
			r = r.and(Doubt, "   ? req/s  ")
		}
		r = append(append(r, latency(s)...), piece{Plain, fmt.Sprintf("  %2d of %d pods  %d min over", s.Ready, s.Replicas, s.Over)})
		rows = append(rows, r)
	}
	return rows
}

// Rate prints requests a second: whole ones, or tenths where there are few.
func Rate(v float64) string {
	if v < 9.95 {
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

func latency(s *demo.Service) row {
	name := fmt.Sprintf("p%.4g ", 100*s.Objective.Quantile)
	limit := fmt.Sprintf(" ≤ %-4d", s.Objective.Target.Milliseconds())
	v, ok := s.Latency.Number()
	switch {
	case !ok:
		return row{{Plain, name}, {Doubt, "unknown ?"}, {Plain, limit}}
	case v > s.Objective.Target.Seconds():
		return row{{Plain, name}, {Bad, fmt.Sprintf("%4.0f ms !", 1000*v)}, {Plain, limit}}
	}
	return row{{Plain, name}, {Good, fmt.Sprintf("%4.0f ms ✓", 1000*v)}, {Plain, limit}}
}

// money says what it costs, against the fleet that no one scales.
func (f *Frame) money() row {
	r := row{{Strong, f.Rate.Display(f.Unit)}}
	if f.Dear {
		r = r.and(Bad, " (×2 !)")
	}
	r = r.and(Plain, fmt.Sprintf(", static %s   spent %s of %s", f.Static.Display(f.Unit), f.Spent.Display(f.Unit), f.StaticSpent.Display(f.Unit)))
	if s := Saved(f.Spent, f.StaticSpent); s != "" {
		r = r.and(Strong, " "+s)
	}
	if f.Pending > 0 {
		r = r.and(Doubt, fmt.Sprintf("   %d pending", f.Pending))
	}
	return r
}

// Saved compares a bill with another in percent: −43 %. It is empty if there is no other bill.
func Saved(spent, of pricing.Micros) string {
	if of <= 0 {
		return ""
	}
	p := math.Round(100 * (spent.Units()/of.Units() - 1))
	switch {
	case p < 0:
		return fmt.Sprintf("−%.0f %%", -p)
	case p > 0:
		return fmt.Sprintf("+%.0f %%", p)
	}
	return "0 %"
}

func legend() row {
	return row{
		{Water, "▓"}, {Plain, " (n) pods ask for  "}, {Free, "~"}, {Plain, " paid and free  "}, {Doubt, "·"},
		{Plain, " not a node  ⊖ load line: the host's room"},
	}
}

// news shows the latest lines that there is room for.
func (f *Frame) news(room int) []row {
	var rows []row
	for _, n := range f.News[max(0, len(f.News)-room):] {
		r := row{{Faint, n.At.Format("15:04:05") + " "}, {n.Style, n.Mark + " "}, {Plain, n.Text}}
		if n.Why != "" {
			r = r.and(Faint, "  "+n.Why)
		}
		rows = append(rows, r)
	}
	return rows
}

func (f *Frame) foot() row {
	if f.Notice != "" {
		return row{{Strong, f.Notice}}
	}
	return row{{Faint, f.Keys}}
}

// bars are eighths of a cell.
var bars = []rune(" ▁▂▃▄▅▆▇█")

// draw makes the strip, some rows high, and the hours under it. What is still to come is dots.
func (d *Day) draw(width, height int) []row {
	known := min(width*len(d.Rates)/max(d.Minutes, 1), width)
	rows := make([]row, height)
	for y := range rows {
		var b strings.Builder
		for x := range known {
			b.WriteRune(bars[d.eighths(x, width, height, height-1-y)])
		}
		rows[y] = row{{Water, b.String()}}
		if y == height-1 {
			rows[y] = rows[y].and(Faint, strings.Repeat("·", width-known))
		}
	}
	return append(rows, row{{Faint, d.hours(width)}})
}

// eighths is how much of the cell in column x and row y, from below, is filled.
func (d *Day) eighths(x, width, height, y int) int {
	from, to := x*d.Minutes/width, max((x+1)*d.Minutes/width, x*d.Minutes/width+1)
	top := 0.0
	for _, v := range d.Rates[min(from, len(d.Rates)-1):min(to, len(d.Rates))] {
		top = max(top, v)
	}
	level := int(math.Ceil(top / max(d.Top, 1) * float64(8*height)))
	return min(max(level-8*y, 0), 8)
}

// hours is the strip's axis.
func (d *Day) hours(width int) string {
	line := []rune(strings.Repeat(" ", width))
	every := max(1, (d.Minutes/60+11)/12)
	for h := 0; h*60 < d.Minutes; h += every {
		label := []rune("╷" + fmt.Sprintf("%02d", (d.Start.Hour()+h)%24))
		if x := h * 60 * width / d.Minutes; x+len(label) <= width {
			copy(line[x:], label)
		}
	}
	return string(line)
}
