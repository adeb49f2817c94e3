package costs

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/pricing"
)

// spentAnswer is what a cluster cost over a time.
type spentAnswer struct {
	From     time.Time   `json:"from"`
	To       time.Time   `json:"to"`
	Step     string      `json:"step"`
	Source   string      `json:"source"`
	Currency string      `json:"currency,omitempty"`
	By       By          `json:"by"`
	Covered  string      `json:"covered"` // of the time between From and To
	Percent  float64     `json:"coveredPercent"`
	Gaps     []spentGap  `json:"gaps"`
	Total    spentLine   `json:"total"`
	Lines    []spentLine `json:"lines"`
	Notes    []string    `json:"notes,omitempty"`
}

type spentGap struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// spentLine is one row. The parts are there if they are known.
type spentLine struct {
	Name      string          `json:"name"`
	Cost      pricing.Micros  `json:"cost"`
	Allocated *pricing.Micros `json:"allocated,omitempty"`
	Idle      *pricing.Micros `json:"idle,omitempty"`
	System    *pricing.Micros `json:"system,omitempty"`
	For       string          `json:"for"` // the time that it was there, as far as that is known

	hours float64
}

func answerSpent(h *History, ask *costQuestion) *spentAnswer {
	whole := h.To.Sub(h.From)
	a := &spentAnswer{
		From: h.From, To: h.To, Step: pricing.Short(h.Step), Source: h.Source, Currency: h.Currency, By: ask.by,
		Covered: pricing.Short(h.Covered), Percent: 100 * h.Covered.Seconds() / whole.Seconds(),
		Gaps: []spentGap{}, Lines: []spentLine{}, Total: newSpentLine(&h.Total),
	}
	a.Total.Name = allRows
	for _, g := range h.Gaps {
		a.Gaps = append(a.Gaps, spentGap(g))
	}
	nameless := Unallocated
	if ask.by == ByPool {
		nameless = noPool
	}
	for i := range h.Lines {
		l := newSpentLine(&h.Lines[i])
		l.Name = cmp.Or(strings.TrimPrefix(l.Name, "/"), nameless)
		a.Lines = append(a.Lines, l)
	}
	slices.SortStableFunc(a.Lines, func(x, y spentLine) int { return cmp.Compare(y.order(ask.sort), x.order(ask.sort)) })
	a.note(h)
	return a
}

func newSpentLine(s *Spent) spentLine {
	l := spentLine{Name: s.Name, Cost: s.Cost, For: pricing.Short(s.For), hours: s.For.Hours()}
	if s.Parted {
		l.Allocated, l.Idle, l.System = &s.Allocated, &s.Idle, &s.System
	}
	return l
}

// note prints what is not in the numbers.
func (a *spentAnswer) note(h *History) {
	if len(h.Gaps) > 0 {
		var gaps []string
		for _, g := range h.Gaps {
			gaps = append(gaps, g.From.UTC().Format(time.RFC3339)+" to "+g.To.UTC().Format(time.RFC3339))
		}
		const most = 3
		if more := len(gaps) - most; more > 0 {
			gaps = append(gaps[:most], fmt.Sprintf("%d more", more))
		}
		a.Notes = append(a.Notes, fmt.Sprintf("%.1f%% of the time is covered; what was spent in the rest is not known, and in no cost: %s", a.Percent, strings.Join(gaps, ", ")))
	}
	if !h.Total.Parted {
		a.Notes = append(a.Notes, "there are no series of Plimsoll's: these are OpenCost's, which have no parts and name no currency, and which on machines of one's own have been seen to divide prices per hour by 730")
	}
}

func (l *spentLine) order(by string) float64 {
	part := func(m *pricing.Micros) float64 {
		if m == nil {
			return 0
		}
		return float64(*m)
	}
	switch by {
	case "cost":
		return float64(l.Cost)
	case "allocated":
		return part(l.Allocated)
	case "idle":
		return part(l.Idle)
	case "system":
		return part(l.System)
	}
	return 0
}

func (a *spentAnswer) table(w io.Writer) {
	fmt.Fprintln(w, strings.Join([]string{strings.ToUpper(string(a.By)), "FOR", "COST", "ALLOCATED", "IDLE", "SYSTEM"}, "\t"))
	unit := cmp.Or(a.Currency, "units")
	for _, l := range append([]spentLine{a.Total}, a.Lines...) {
		row := []string{l.Name, l.For, l.Cost.Display(unit) + cli.InPercent(int64(l.Cost), int64(a.Total.Cost))}
		for _, part := range []*pricing.Micros{l.Allocated, l.Idle, l.System} {
			if part == nil {
				row = append(row, "-")
				continue
			}
			row = append(row, part.Display(unit)+cli.InPercent(int64(*part), int64(l.Cost)))
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
}

// csv is the answer as rows of fixed columns.
func (a *spentAnswer) csv() [][]string {
	rows := [][]string{{
		"from", "to", "by", "name", "currency", "cost", "allocated", "idle", "system", "hours", "covered_percent",
	}}
	from, to := a.From.UTC().Format(time.RFC3339), a.To.UTC().Format(time.RFC3339)
	text := func(m *pricing.Micros) string {
		if m == nil {
			return ""
		}
		return m.String()
	}
	for _, l := range append([]spentLine{a.Total}, a.Lines...) {
		rows = append(rows, []string{
			from, to, string(a.By), l.Name, a.Currency, l.Cost.String(), text(l.Allocated), text(l.Idle), text(l.System),
			fmt.Sprintf("%.4f", l.hours), fmt.Sprintf("%.2f", a.Percent),
		})
	}
	return rows
}
