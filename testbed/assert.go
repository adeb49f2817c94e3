package testbed

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Assertion is a claim about the results in one line, such as
//
//	p90Ms(policy=clairvoyant) <= 300
//	costUnits(policy=joint) <= 0.85 * costUnits(policy=hpa60) where users >= 100
//	sum sloViolationMinutes(policy=joint) < sum sloViolationMinutes(policy=hpa60)
//
// A measure means its mean over the trials. It must hold at every level of load, or at those that
// where leaves; sum, mean, min and max put a policy's levels together first. A measure with users=
// or scenario= is read at that level only.
type Assertion struct {
	text        string
	left, right term
	op          string
	where       Where
}

// term is one side: a number, or a measure of a policy times a factor.
type term struct {
	factor  float64
	fold    string // sum, mean, min, max, or "" for one level at a time
	measure string // "" for a number
	policy  string
	at      *Level
}

// Where narrows the levels down: users <= 60, or users >= 20 and users < 200, or scenario == flash.
type Where []condition

type condition struct{ key, op, value string }

// UnmarshalText reads the conditions.
func (w *Where) UnmarshalText(text []byte) error {
	p := assertionParser{tokens: assertionToken.FindAllString(string(text), -1)}
	out := p.conditions()
	if p.fault == "" && len(p.tokens) > 0 {
		p.fail("the end", p.tokens[0])
	}
	if p.fault != "" {
		return fmt.Errorf("must be conditions like users <= 60 and users > 10: %s, was %q", p.fault, text)
	}
	*w = out
	return nil
}

// MarshalText writes the conditions as they are read.
func (w Where) MarshalText() ([]byte, error) {
	all := make([]string, len(w))
	for i, c := range w {
		all[i] = c.key + " " + c.op + " " + c.value
	}
	return []byte(strings.Join(all, " and ")), nil
}

// among returns the levels for which all conditions hold.
func (w Where) among(levels []Level) []Level {
	return slices.DeleteFunc(slices.Clone(levels), func(l Level) bool {
		return slices.ContainsFunc(w, func(c condition) bool { return !c.holds(l) })
	})
}

// UnmarshalText reads an assertion.
func (a *Assertion) UnmarshalText(text []byte) error {
	p := assertionParser{tokens: assertionToken.FindAllString(string(text), -1)}
	if rest := strings.TrimSpace(assertionToken.ReplaceAllString(string(text), "")); rest != "" {
		return fmt.Errorf("must be an assertion like p90Ms(policy=hpa60) <= 300; %q is no part of one, was %q", rest, text)
	}
	out := Assertion{text: strings.TrimSpace(string(text))}
	out.left = p.term()
	out.op = p.oneOf("a comparison", comparisons...)
	out.right = p.term()
	if len(p.tokens) > 0 {
		p.expect("where")
		out.where = p.conditions()
	}
	if p.fault == "" && len(p.tokens) > 0 {
		p.fail("the end", p.tokens[0])
	}
	if p.fault != "" {
		return fmt.Errorf("must be an assertion like p90Ms(policy=hpa60) <= 300: %s, was %q", p.fault, text)
	}
	*a = out
	return nil
}

// MarshalText writes the assertion as it was read.
func (a Assertion) MarshalText() ([]byte, error) { return []byte(a.text), nil }

// String is the assertion as it was read.
func (a Assertion) String() string { return a.text }

var (
	assertionToken = regexp.MustCompile(`[A-Za-z][\w-]*|\d+(?:\.\d+)?|[<>=]=|[<>()=,*]`)
	comparisons    = []string{"<=", "<", ">=", ">", "=="}
	folds          = []string{"sum", "mean", "min", "max"}
)

// assertionParser takes tokens one by one. After the first fault it takes none.
type assertionParser struct {
	tokens []string
	fault  string
}

func (p *assertionParser) fail(want, got string) string {
	if p.fault == "" {
		p.fault = fmt.Sprintf("%q is where %s should be", got, want)
		if got == "" {
			p.fault = "it ends where " + want + " should be"
		}
	}
	p.tokens = nil
	return ""
}

func (p *assertionParser) peek() string {
	if len(p.tokens) == 0 {
		return ""
	}
	return p.tokens[0]
}

func (p *assertionParser) next() string {
	t := p.peek()
	p.tokens = p.tokens[min(1, len(p.tokens)):]
	return t
}

func (p *assertionParser) accept(token string) bool {
	if p.peek() != token {
		return false
	}
	p.next()
	return true
}

func (p *assertionParser) expect(token string) {
	if !p.accept(token) {
		p.fail(strconv.Quote(token), p.peek())
	}
}

func (p *assertionParser) oneOf(what string, allowed ...string) string {
	if t := p.peek(); !slices.Contains(allowed, t) {
		return p.fail(what, t)
	}
	return p.next()
}

func (p *assertionParser) term() term {
	t := term{factor: 1}
	if v, err := strconv.ParseFloat(p.peek(), 64); err == nil {
		p.next()
		t.factor = v
		if !p.accept("*") {
			return t
		}
	}
	if slices.Contains(folds, p.peek()) {
		t.fold = p.next()
	}
	t.measure = p.next()
	if measure(t.measure) == nil {
		p.fail("a measure"+meant(t.measure, measureNames())+" of "+strings.Join(measureNames(), ", "), t.measure)
		return t
	}
	p.expect("(")
	p.expect("policy")
	p.expect("=")
	t.policy = p.next()
	if p.accept(",") {
		t.at = p.level()
	}
	p.expect(")")
	return t
}

func (p *assertionParser) level() *Level {
	key := p.oneOf("users or scenario", "users", "scenario")
	p.expect("=")
	if value := p.next(); key == "scenario" {
		return &Level{Scenario: value}
	} else if n, err := strconv.Atoi(value); err == nil {
		return &Level{Users: n}
	} else {
		p.fail("a number of users", value)
	}
	return nil
}

func (p *assertionParser) conditions() (all Where) {
	for more := true; more; more = p.accept("and") {
		all = append(all, p.condition())
	}
	return all
}

func (p *assertionParser) condition() condition {
	c := condition{key: p.oneOf("users or scenario", "users", "scenario")}
	if c.key == "scenario" {
		c.op, c.value = p.oneOf("==", "=="), p.next()
		return c
	}
	c.op, c.value = p.oneOf("a comparison", comparisons...), p.next()
	if _, err := strconv.Atoi(c.value); err != nil {
		p.fail("a number of users", c.value)
	}
	return c
}

func (c condition) holds(l Level) bool {
	if c.key == "scenario" {
		return l.Scenario == c.value
	}
	n, err := strconv.Atoi(c.value)
	return err == nil && compare(float64(l.Users), c.op, float64(n))
}

// Compare compares as assertions do.
func Compare(a float64, op string, b float64) bool { return compare(a, op, b) }

// compare leaves what differs by less than rounding does equal.
func compare(a float64, op string, b float64) bool {
	const slack = 1e-9
	switch op {
	case "<":
		return a < b-slack
	case "<=":
		return a <= b+slack
	case ">":
		return a > b+slack
	case ">=":
		return a >= b-slack
	}
	return math.Abs(a-b) <= slack
}

// Verdict is what became of an assertion.
type Verdict struct {
	Assertion string
	// Held is whether it held wherever it was looked at; Checks are the places. Without any,
	// the runs that it is about were not made.
	Held   bool
	Checks []Check
}

// Check is an assertion at one level of load, or over all of them together.
type Check struct {
	At          string
	Left, Right float64
	Held        bool
}

// String prints the verdict as a line, with the values that it rests on.
func (v Verdict) String() string {
	switch {
	case len(v.Checks) == 0:
		return "– " + v.Assertion + "  (not run)"
	case v.Held:
		return "✓ " + v.Assertion + "  (" + v.Numbers() + ")"
	}
	return "✗ " + v.Assertion + "  (" + v.Numbers() + ")"
}

// Numbers are the values that were compared: those of the levels where the assertion was
// missed, or of all where it held everywhere.
func (v Verdict) Numbers() string {
	var out []string
	for _, c := range v.Checks {
		if c.Held && !v.Held {
			continue
		}
		text := Show(c.Left, 2) + " and " + Show(c.Right, 2)
		if c.At != "" {
			text = c.At + ": " + text
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

// Judge looks whether the experiment's assertions hold in the results.
func (e *Experiment) Judge(r *Results) []Verdict {
	out := make([]Verdict, len(e.Assertions))
	var all []Level
	for _, j := range e.loads() {
		all = append(all, j.Level)
	}
	for i := range e.Assertions {
		out[i] = e.Assertions[i].judge(r, all)
	}
	return out
}

// judge looks whether the assertion holds in the results. One that puts levels together is
// about all of the experiment's: over some of them it would be another assertion.
func (a *Assertion) judge(r *Results, all []Level) Verdict {
	v := Verdict{Assertion: a.text, Held: true}
	levels := a.where.among(r.Levels())
	if (a.left.fold != "" || a.right.fold != "") && !slices.Equal(levels, a.where.among(all)) {
		return v
	}
	places, once := levels, a.left.fixed() && a.right.fixed()
	if once {
		places = levels[:min(1, len(levels))]
	}
	for _, l := range places {
		c := Check{At: l.String(), Left: a.left.value(r, l, levels), Right: a.right.value(r, l, levels)}
		if once {
			c.At = ""
		}
		if !a.left.ran(r, l, levels) || !a.right.ran(r, l, levels) {
			continue
		}
		c.Held = compare(c.Left, a.op, c.Right)
		v.Held = v.Held && c.Held
		v.Checks = append(v.Checks, c)
	}
	return v
}

// ran reports whether the runs that the term is about were made. One that was made and whose
// measure is unknown, such as a quantile of no answers, misses every assertion; but one that ended
// before the experiment's span did was not made as far as the span goes.
func (t *term) ran(r *Results, here Level, all []Level) bool {
	switch {
	case t.measure == "":
		return true
	case t.fold == "":
		return t.ranAt(r, r.find(t.at, here))
	}
	return !slices.ContainsFunc(all, func(l Level) bool { return !t.ranAt(r, l) })
}

func (t *term) ranAt(r *Results, l Level) bool {
	cut := slices.Contains(ofSpan, t.measure) && math.IsNaN(r.Mean(t.policy, l, t.measure))
	return r.At(t.policy, l) != nil && !cut
}

// fixed reports whether the term is the same at every level.
func (t *term) fixed() bool { return t.measure == "" || t.fold != "" || t.at != nil }

func (t *term) value(r *Results, here Level, all []Level) float64 {
	if t.measure == "" {
		return t.factor
	}
	if t.fold == "" {
		return t.factor * r.Mean(t.policy, r.find(t.at, here), t.measure)
	}
	values := make([]float64, len(all))
	sum := 0.0
	for i, l := range all {
		values[i] = r.Mean(t.policy, l, t.measure)
		sum += values[i]
	}
	switch t.fold {
	case "sum":
		return t.factor * sum
	case "mean":
		return t.factor * sum / float64(len(all))
	case "min":
		return t.factor * slices.Min(values)
	}
	return t.factor * slices.Max(values)
}

// find returns the level that at names, or here without one. Scenarios are named without the
// number of users that goes with them.
func (r *Results) find(at *Level, here Level) Level {
	if at == nil {
		return here
	}
	for _, l := range r.Levels() {
		if at.Scenario != "" && l.Scenario == at.Scenario || at.Scenario == "" && l == *at {
			return l
		}
	}
	return *at
}

func measureNames() []string {
	names := make([]string, len(Measures))
	for i := range Measures {
		names[i] = Measures[i].Name
	}
	return names
}
