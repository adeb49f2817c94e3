package hpaplus

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/testbed"
)

// Assertion is a claim about the results in one line, such as
//
//	lostChange(row=hpa-plus, pods=5, excess=0.9) <= -15
//	lost(row=hpa-plus, trace=mmpp) < 0.9 * lost(row=hpa, trace=mmpp)
//
// A measure is its median over the traces, or for its mean over the trials on the one that
// is named. It must hold in every case that both sides leave open.
type Assertion struct {
	text        string
	left, right term
	op          string
}

// term is one side: a number, or a measure times a factor.
type term struct {
	factor              float64
	measure             string // "" for a number
	row, against, trace string
	fixed               map[string]float64 // of the case
}

var (
	assertionShape = regexp.MustCompile(`^(.+?)\s*(<=|>=|==|<|>)\s*(.+)$`)
	termShape      = regexp.MustCompile(`^(?:(-?\d+(?:\.\d+)?)\s*\*\s*)?([A-Za-z][\w.]*)\(([^()]*)\)$`)
)

// UnmarshalText reads an assertion.
func (a *Assertion) UnmarshalText(text []byte) error {
	line := strings.TrimSpace(string(text))
	parts := assertionShape.FindStringSubmatch(line)
	if parts == nil {
		return fmt.Errorf("must be an assertion like lostChange(row=hpa-plus, excess=0.9) <= -15, was %q", line)
	}
	left, err := parseTerm(parts[1])
	if err != nil {
		return err
	}
	right, err := parseTerm(parts[3])
	if err != nil {
		return err
	}
	*a = Assertion{text: line, left: left, right: right, op: parts[2]}
	return nil
}

func parseTerm(text string) (term, error) {
	t := term{factor: 1, fixed: map[string]float64{}}
	if v, err := strconv.ParseFloat(text, 64); err == nil {
		t.factor = v
		return t, nil
	}
	parts := termShape.FindStringSubmatch(text)
	if parts == nil {
		return t, fmt.Errorf("must have a number or a measure like lost(row=hpa) on each side, was %q", text)
	}
	if parts[1] != "" {
		t.factor, _ = strconv.ParseFloat(parts[1], 64) // the shape is that of a number
	}
	t.measure = parts[2]
	for part := range strings.SplitSeq(parts[3], ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if err := t.set(key, value); err != nil {
			return t, err
		}
	}
	return t, nil
}

func (t *term) set(key, value string) error {
	switch key {
	case "row":
		t.row = value
	case "against":
		t.against = value
	case "trace":
		t.trace = value
	default:
		v, err := strconv.ParseFloat(value, 64)
		if err != nil || !slices.Contains(Dimensions(), key) {
			return fmt.Errorf("must name row, against, trace or one of %s with its value, was %q", strings.Join(Dimensions(), ", "), key+"="+value)
		}
		t.fixed[key] = v
	}
	return nil
}

// MarshalText writes the assertion as it was read.
func (a Assertion) MarshalText() ([]byte, error) { return []byte(a.text), nil }

// validate wants names that are there, and a case at least.
func (a *Assertion) validate(f *testbed.Faults, path string, e *Experiment) {
	for _, t := range []*term{&a.left, &a.right} {
		if t.measure == "" {
			continue
		}
		names := e.measureNames()
		if e.Replay.Compare == Scalers && strings.HasPrefix(t.measure, "active.") {
			names = append(names, t.measure)
		}
		f.OneOf(path, t.measure, names)
		f.OneOf(path+": row", t.row, e.RowNames())
		if e.Replay.Compare == Equal {
			f.OneOf(path+": against", t.against, e.Replay.Against)
		} else {
			f.Must(t.against == "", path+": against", "must be omitted but for comparisons at equal pod-minutes", t.against)
		}
		if t.trace != "" {
			f.OneOf(path+": trace", t.trace, e.Replay.Traces)
		}
		f.Must(slices.ContainsFunc(e.Cases(), t.about), path, "must be about some case", a.text)
	}
}

// about reports whether a case is one of those the term leaves open.
func (t *term) about(c Case) bool {
	for _, d := range dimensions {
		if want, fixed := t.fixed[d.key]; fixed && math.Abs(d.of(&c)-want) > 1e-9 {
			return false
		}
	}
	return true
}

// at is the case that a term means beside one that the other side is at: the same, but for what it
// fixes.
func (t *term) at(c Case) Case {
	for key, v := range t.fixed {
		switch key {
		case "pods":
			c.Pods = v
		case "tolerance":
			c.Tolerance = v
		case "timeout":
			c.Timeout = int(v)
		case "window":
			c.Window = int(v)
		case "threshold":
			c.Threshold = v
		case "excess":
			c.Excess = v
		}
	}
	return c
}

// value is what the term comes to at a case, and whether there is anything of it.
func (t *term) value(r *Results, c Case) (v float64, ran bool) {
	if t.measure == "" {
		return t.factor, true
	}
	s := r.At(t.row, t.against, t.at(c))
	if s == nil {
		return 0, false
	}
	over := s.Measures[t.measure]
	if who, is := strings.CutPrefix(t.measure, "active."); is {
		over = s.Active[who]
	}
	if t.trace != "" {
		at, has := over.Traces[t.trace]
		return t.factor * float64(at.Mean), has
	}
	return t.factor * float64(over.Median), true
}

// Judge looks whether the experiment's assertions hold in the results. They are about its own
// traces, and not looked at on others.
func (e *Experiment) Judge(r *Results) []testbed.Verdict {
	out := make([]testbed.Verdict, len(e.Assertions))
	for i := range e.Assertions {
		a := &e.Assertions[i]
		out[i] = testbed.Verdict{Assertion: a.text, Held: true}
		if r.Own {
			out[i].Checks, out[i].Held = a.checks(r, e.Cases())
		}
	}
	return out
}

func (a *Assertion) checks(r *Results, cases []Case) (out []testbed.Check, held bool) {
	differ := varying(cases)
	held = true
	for _, c := range cases {
		if !a.left.about(c) || a.right.measure != "" && a.left.measure == "" && !a.right.about(c) {
			continue
		}
		left, ran := a.left.value(r, c)
		right, ranToo := a.right.value(r, c)
		if !ran || !ranToo {
			continue
		}
		check := testbed.Check{At: named(&c, differ), Left: left, Right: right, Held: testbed.Compare(left, a.op, right)}
		out, held = append(out, check), held && check.Held
	}
	return out, held
}
