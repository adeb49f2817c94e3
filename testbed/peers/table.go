package main

import (
	"fmt"
	"strings"

	"github.com/plimsoll/plimsoll/pricing"
)

// What ours is to come to: at most so many times Karpenter's machines, and at least so many times
// its pods per second of CPU, from so many pods on.
const (
	mostMachines = 1.3
	leastSpeed   = 20
	speedFrom    = 1000
)

// pair is Karpenter's result and ours.
type pair [2]*result

func (p *pair) theirs() *result { return p[0] }
func (p *pair) ours() *result   { return p[1] }

const (
	layout = "| %-13s | %5s | %6s | %11s | %10s | %9s | %15s | %15s | %5s | %8s | %6s | %s |\n"
	ruler  = "|%s|------:|-------:|------------:|-----------:|----------:|----------------:|----------------:|------:|---------:|-------:|------|\n"
)

// header heads the columns: of pairs the first is Karpenter's, and the ratios are ours to it.
var header = fmt.Sprintf(layout, "row", "pods", "shapes", "placed", "violations", "machines", "cost/h", "CPU s", "cost", "machines", "speed", "aims") +
	fmt.Sprintf(ruler, strings.Repeat("-", 15))

// aim is one that a line may miss.
type aim string

const (
	clean    aim = "violations"
	complete aim = "placed"
	cheap    aim = "cost"
	few      aim = "machines"
	fast     aim = "speed"
)

var aims = []aim{clean, complete, cheap, few, fast}

// missed are the aims that ours misses. Where one of the two places more pods, or does not finish,
// their costs and machines are of different things and are not held against each other.
func (p *pair) missed(s setting) (missed []aim) {
	theirs, ours := p.theirs(), p.ours()
	if ours.Unfinished {
		return []aim{complete}
	}
	miss := func(a aim, is bool) {
		if is {
			missed = append(missed, a)
		}
	}
	miss(clean, ours.Violations > 0)
	miss(complete, ours.Placed < theirs.Placed || theirs.Unfinished && ours.Placed < s.Pods)
	if p.comparable() {
		miss(cheap, ours.Cost > theirs.Cost)
		miss(few, float64(ours.Machines) > mostMachines*float64(theirs.Machines))
	}
	miss(fast, s.Pods >= speedFrom && p.speed() < leastSpeed)
	return missed
}

func (p *pair) comparable() bool {
	return !p.theirs().Unfinished && !p.ours().Unfinished && p.ours().Placed == p.theirs().Placed
}

// speed is our pods per second of CPU, in Karpenter's. Where that did not finish, it is faster by
// at least this.
func (p *pair) speed() float64 { return p.theirs().CPU.Seconds() / p.ours().CPU.Seconds() }

// tally counts what lines come to.
type tally struct {
	lines, violations, unfinished int
	missed                        map[aim]int
}

// line counts and prints a line of the table.
func (t *tally) line(s setting, p *pair) string {
	missed := p.missed(s)
	if t.missed == nil {
		t.missed = map[aim]int{}
	}
	t.lines++
	t.violations += p.ours().Violations
	says := "pass"
	if len(missed) > 0 {
		says = "miss:"
		for _, a := range missed {
			t.missed[a]++
			says += " " + string(a)
		}
	}
	speed := fmt.Sprintf("%.0f×", p.speed())
	if p.theirs().Unfinished {
		t.unfinished++
		says, speed = says+"; Karpenter did not finish", "≥ "+speed
	}
	cost, machines := "–", "–"
	if p.comparable() {
		cost = fmt.Sprintf("%.3f", float64(p.ours().Cost)/float64(p.theirs().Cost))
		machines = fmt.Sprintf("%.2f", float64(p.ours().Machines)/float64(p.theirs().Machines))
	}
	return strings.TrimSuffix(fmt.Sprintf(layout, s.Row, fmt.Sprint(s.Pods), fmt.Sprint(s.Shapes),
		p.each(func(r *result) string { return fmt.Sprint(r.Placed) }),
		p.each(func(r *result) string { return fmt.Sprint(r.Violations) }),
		p.each(func(r *result) string { return fmt.Sprint(r.Machines) }),
		p.each(func(r *result) string { return fmt.Sprintf("%.2f", float64(r.Cost)/float64(pricing.Unit)) }),
		fmt.Sprintf("%.2f / %.3f", p.theirs().CPU.Seconds(), p.ours().CPU.Seconds()),
		cost, machines, speed, says), "\n")
}

// each shows a number of both.
func (p *pair) each(show func(*result) string) string {
	var shown [2]string
	for i, r := range p {
		if shown[i] = "–"; !r.Unfinished {
			shown[i] = show(r)
		}
	}
	return shown[0] + " / " + shown[1]
}

// String says which aims are reached.
func (t *tally) String() string {
	words := map[aim]string{
		clean:    "no pod of ours is where the scheduler would not have it",
		complete: "we place as many pods as Karpenter",
		cheap:    "our machines cost no more than Karpenter's",
		few:      fmt.Sprintf("we order at most %g times Karpenter's machines", mostMachines),
		fast:     fmt.Sprintf("we plan at least %d times as many pods per second of CPU, from %d pods on", leastSpeed, speedFrom),
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%d lines, of which Karpenter did not finish %d\n", t.lines, t.unfinished)
	for _, a := range aims {
		says := "pass"
		if n := t.missed[a]; n > 0 {
			says = fmt.Sprintf("miss in %d", n)
		}
		fmt.Fprintf(&b, "%-12s %s\n", says, words[a])
	}
	return b.String()
}
