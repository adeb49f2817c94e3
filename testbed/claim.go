package testbed

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Comparison is one policy against another, or against bounds, trial by trial under the same luck.
type Comparison struct {
	Policy, Against string
	// At is a level of load; of what is claimed over all users, from where to where they go.
	At          string
	Differences []Difference // one for each of the claim's measures
}

// Difference is by how much a measure of one policy differs from another's, or from a bound.
type Difference struct {
	Measure string
	// Mean is that of the trials, and Low and High bound its 95 % interval, by Student's t over
	// pairs. What is claimed over all users is for a hundred of them.
	Mean, Low, High float64
	// Of is what it is a part of: the other's mean, or the bound.
	Of float64
	// Wanted is lower, alike or within; Room is how far apart is alike still.
	Wanted string
	Room   float64
}

// What is wanted of a difference.
const (
	wantLower  = "lower"  // than the other
	wantAlike  = "alike"  // no further off than the room
	wantWithin = "within" // no more than the bound
)

// Side says on which side of the other a policy is; what the trials cannot distinguish is level.
func (d Difference) Side() string {
	switch {
	case math.IsNaN(d.Low):
		return "unknown"
	case d.Wanted == wantAlike && -d.Room <= d.Low && d.High <= d.Room:
		return wantAlike
	case d.High < -d.Room:
		return wantLower
	case d.Low > d.Room:
		return "higher"
	}
	return "level"
}

// holds reports whether the whole interval is where it is claimed to be.
func (d Difference) holds() bool {
	return d.Side() == d.Wanted || d.Wanted == wantWithin && d.High <= 0
}

// fails reports whether none of the interval is there.
func (d Difference) fails() bool {
	switch d.Wanted {
	case wantAlike:
		return d.Side() == wantLower || d.Side() == "higher"
	case wantWithin:
		return d.Low > 0
	}
	return d.Low >= 0
}

// ComesOut reports whether every measure is as claimed.
func (c *Comparison) ComesOut() bool {
	return !slices.ContainsFunc(c.Differences, func(d Difference) bool { return !d.holds() })
}

// Fails reports whether a measure is not as claimed. What neither comes out nor fails is left open
// by the trials.
func (c *Comparison) Fails() bool { return slices.ContainsFunc(c.Differences, Difference.fails) }

// Outcome puts the comparison in words: p90Ms lower, costUnits higher.
func (c *Comparison) Outcome() string {
	words := make([]string, len(c.Differences))
	for i, d := range c.Differences {
		words[i] = d.Measure + " " + d.Side()
	}
	return strings.Join(words, ", ")
}

// Try looks at every policy of the claim beside every other, wherever both ran in pairs of two
// trials or more.
func (c *Claim) Try(r *Results) []Comparison { return c.try(r, 2) }

// try does so wherever both ran in so many pairs of trials. From one pair comes no interval, and so
// no answer.
func (c *Claim) try(r *Results, least int) []Comparison {
	var out []Comparison
	others := c.Against
	if len(c.Most) > 0 {
		others = []string{""} // bounds are no policy's
	}
	for _, p := range c.Policies {
		for _, against := range others {
			if all := c.between(r, p, against, least); c.overUsers() {
				out = append(out, c.along(all)...)
			} else {
				for i := range all {
					out = append(out, c.at(&all[i]))
				}
			}
		}
	}
	return out
}

// overUsers reports whether the claim is about how something goes with the number of users.
func (c *Claim) overUsers() bool { return len(c.Flatter)+len(c.Gaining) > 0 }

// bout is the runs of two policies at a level, in pairs of the same trial.
type bout struct {
	policy, against string
	level           Level
	ours, theirs    []Trial
}

// between returns the bouts of two policies at the levels that the claim is about, of so many
// trials at least.
func (c *Claim) between(r *Results, policy, against string, least int) []bout {
	var out []bout
	for _, l := range c.Where.among(r.Levels()) {
		other := against
		if other == "" {
			other = policy
		}
		if ours, theirs := r.pairs(policy, other, l); len(ours) >= least {
			out = append(out, bout{policy, against, l, ours, theirs})
		}
	}
	return out
}

// at compares at one level.
func (c *Claim) at(b *bout) Comparison {
	out := Comparison{Policy: b.policy, Against: b.against, At: b.level.String()}
	for i := range Measures {
		m := &Measures[i]
		ours, theirs := values(b.ours, m), values(b.theirs, m)
		if most, bound := c.Most[m.Name]; bound {
			out.Differences = append(out.Differences, difference(m, wantWithin, ours, slices.Repeat([]float64{most}, len(ours))))
		}
		if slices.Contains(c.Lower, m.Name) {
			out.Differences = append(out.Differences, difference(m, wantLower, ours, theirs))
		}
		if room, has := c.Alike[m.Name]; has {
			d := difference(m, wantAlike, ours, theirs)
			d.Room = float64(room) * math.Abs(d.Of)
			out.Differences = append(out.Differences, d)
		}
	}
	return out
}

// along compares how measures go with the number of users: the slope of the straight line that is
// nearest to each trial's values.
func (c *Claim) along(all []bout) []Comparison {
	if len(all) < 2 {
		return nil
	}
	first, last := &all[0], &all[len(all)-1]
	out := Comparison{Policy: first.policy, Against: first.against, At: first.level.String() + " to " + last.level.String()}
	for i := range Measures {
		m := &Measures[i]
		if slices.Contains(c.Flatter, m.Name) {
			out.Differences = append(out.Differences, difference(m, wantLower,
				slopes(all, func(b *bout, trial int) float64 { return m.of(&b.ours[trial]) }),
				slopes(all, func(b *bout, trial int) float64 { return m.of(&b.theirs[trial]) })))
		}
		if slices.Contains(c.Gaining, m.Name) {
			part := slopes(all, func(b *bout, trial int) float64 { return m.of(&b.ours[trial]) / m.of(&b.theirs[trial]) })
			d := difference(m, wantLower, part, make([]float64, len(part)))
			d.Of = 1 // so that it is shown in percent
			out.Differences = append(out.Differences, d)
		}
	}
	return []Comparison{out}
}

// slopes are the slopes of a value over the users, for each trial and hundred of them. Trials that
// were not made everywhere have none.
func slopes(all []bout, value func(*bout, int) float64) []float64 {
	trials := len(all[0].ours)
	for i := range all {
		trials = min(trials, len(all[i].ours))
	}
	out := make([]float64, trials)
	users := 0.0
	for i := range all {
		users += float64(all[i].level.Users) / float64(len(all))
	}
	for t := range out {
		over, square := 0.0, 0.0
		for i := range all {
			x := float64(all[i].level.Users) - users
			over, square = over+x*value(&all[i], t), square+x*x
		}
		out[t] = 100 * over / square
	}
	return out
}

// pairs returns the runs of two policies at a level that have the same trial, in its order.
func (r *Results) pairs(a, b string, l Level) (ours, theirs []Trial) {
	byTrial := map[int]*Trial{}
	for i := range r.Runs {
		if run := &r.Runs[i]; run.Policy == b && run.Level() == l {
			byTrial[run.Trial] = run
		}
	}
	for i := range r.Runs {
		if run := &r.Runs[i]; run.Policy == a && run.Level() == l && byTrial[run.Trial] != nil {
			ours, theirs = append(ours, *run), append(theirs, *byTrial[run.Trial])
		}
	}
	return ours, theirs
}

func difference(m *Measure, wanted string, ours, theirs []float64) Difference {
	apart := make([]float64, len(ours))
	for i := range apart {
		apart[i] = ours[i] - theirs[i]
	}
	s := statOf(apart)
	return Difference{
		Measure: m.Name, Wanted: wanted, Of: float64(statOf(theirs).Mean),
		Mean: float64(s.Mean), Low: float64(s.Low), High: float64(s.High),
	}
}

// Sentence says of how many comparisons the claim comes out, and where, if that is not nearly
// everywhere.
func Sentence(all []Comparison) string {
	if len(all) == 0 {
		return "The claim was not tried: that takes two trials or more of its policies and of those they are compared with."
	}
	var won []string
	fails := 0
	for i := range all {
		c := &all[i]
		switch {
		case c.ComesOut() && c.Against != "":
			won = append(won, fmt.Sprintf("%s against %s at %s", c.Policy, c.Against, c.At))
		case c.ComesOut():
			won = append(won, fmt.Sprintf("%s at %s", c.Policy, c.At))
		case c.Fails():
			fails++
		}
	}
	const some = 12
	text := fmt.Sprintf("The claim comes out in %d of %d comparisons", len(won), len(all))
	if open := len(all) - len(won) - fails; open > 0 {
		text += fmt.Sprintf(", and in %d the trials do not decide", open)
	}
	if 0 < len(won) && len(won) <= some {
		text += ": " + strings.Join(won, ", ")
	}
	return text + "."
}

// Claimed is a table of what became of the claims, a row for each. What ran in one trial only
// is undecided.
func (e *Experiment) Claimed(r *Results) Table {
	t := Table{
		Caption: "In how many comparisons each claim comes out, fails, and is not decided by the trials",
		Head:    []string{"claim", "comes out", "fails", "undecided"}, Left: 1,
	}
	if r.Trials == 1 {
		t.Caption += "; one trial has no interval, so that it decides nothing"
	}
	for i := range e.Claims {
		n, all := [3]int{}, e.Claims[i].try(r, 1)
		for j := range all {
			switch c := &all[j]; {
			case c.ComesOut():
				n[0]++
			case c.Fails():
				n[1]++
			default:
				n[2]++
			}
		}
		t.Rows = append(t.Rows, []string{e.Claims[i].Name, fmt.Sprint(n[0]), fmt.Sprint(n[1]), fmt.Sprint(n[2])})
	}
	return t
}

// Differences is a table of by how much the policies of a claim differ from those that they are
// compared with, with 95 % intervals: in parts of the others', or, of what goes with the users, for
// a hundred of them.
func (c *Claim) Differences(all []Comparison) Table {
	t := Table{Caption: c.caption(), Head: []string{"policy", "against", "measure"}, Left: 3}
	rows, columns := map[string]int{}, map[string]int{}
	for i := range all {
		x := &all[i]
		if _, has := columns[x.At]; !has {
			columns[x.At] = len(t.Head)
			t.Head = append(t.Head, x.At)
		}
	}
	for i := range all {
		x := &all[i]
		for _, d := range x.Differences {
			key := strings.Join([]string{x.Policy, x.Against, d.Measure}, "\x00")
			if _, has := rows[key]; !has {
				rows[key] = len(t.Rows)
				row := make([]string, len(t.Head))
				row[0], row[1], row[2] = x.Policy, x.Against, d.Measure
				if x.Against == "" {
					row[1] = Show(d.Of, 0)
				}
				t.Rows = append(t.Rows, row)
			}
			t.Rows[rows[key]][columns[x.At]] = c.show(&d)
		}
	}
	return t
}

func (c *Claim) caption() string {
	const marks = "; ✓ as claimed, ✗ not, ~ the trials do not decide"
	switch {
	case len(c.Most) > 0:
		return "How far from the bound, with the 95 % interval" + marks
	case len(c.Flatter) > 0:
		return "The slope for a hundred users less the other's, with the 95 % interval" + marks
	case len(c.Gaining) > 0:
		return "How the distance from the other goes with a hundred users more, in parts of the other's, with the 95 % interval" + marks
	}
	return "How far from the other, in parts of the other's, with the 95 % interval" + marks
}

// show is a difference with its interval, and a mark for whether it is as claimed.
func (c *Claim) show(d *Difference) string {
	mark := "~"
	switch {
	case d.holds():
		mark = "✓"
	case d.fails():
		mark = "✗"
	}
	if len(c.Flatter) > 0 {
		return fmt.Sprintf("%+.1f ± %.1f %s", d.Mean, (d.High-d.Low)/2, mark)
	}
	if d.Of == 0 || math.IsNaN(d.Low) {
		return "– " + mark
	}
	return fmt.Sprintf("%+.1f ± %.1f %% %s", 100*d.Mean/d.Of, 50*(d.High-d.Low)/math.Abs(d.Of), mark)
}

// Verdicts put the comparisons of each pair of policies in a sentence: where the claim comes
// out, and how it fails elsewhere.
func Verdicts(all []Comparison) []string {
	var out []string
	for start := 0; start < len(all); {
		end := start
		for end < len(all) && all[end].Policy == all[start].Policy && all[end].Against == all[start].Against {
			end++
		}
		out = append(out, verdict(all[start:end]))
		start = end
	}
	return out
}

// verdict is the sentence of one pair of policies.
func verdict(pair []Comparison) string {
	var outcomes []string
	levels := map[string][]string{}
	won := 0
	for i := range pair {
		o := pair[i].Outcome()
		if pair[i].ComesOut() {
			won++
		}
		if levels[o] == nil {
			outcomes = append(outcomes, o)
		}
		levels[o] = append(levels[o], pair[i].At)
	}
	parts := make([]string, len(outcomes))
	for i, o := range outcomes {
		parts[i] = o + " at " + strings.Join(levels[o], ", ")
	}
	holds := fmt.Sprintf("comes out at %d of %d levels", won, len(pair))
	switch won {
	case 0:
		holds = "does not come out"
	case len(pair):
		holds = "comes out at every level"
	}
	who := pair[0].Policy
	if other := pair[0].Against; other != "" {
		who += " against " + other
	}
	return fmt.Sprintf("%s %s: %s.", who, holds, strings.Join(parts, "; "))
}

// validate looks at one claim of an experiment.
func (c *Claim) validate(f *Faults, path string, e *Experiment) {
	f.Must(c.Name != "", path+".name", "must not be empty", c.Name)
	f.Must(len(c.Policies) > 0, path+".policies", "must have at least one", len(c.Policies))
	f.Must((len(c.Against) > 0) == (len(c.Most) == 0), path+".against", "must have at least one, and none beside most", len(c.Against))
	f.Must(!c.overUsers() || len(e.Load.Scenarios) == 0, path, "must not be about how something goes with the users, as the experiment has scenarios", c.Name)
	for i, p := range slices.Concat(c.Policies, c.Against) {
		at := fmt.Sprintf("%s.policies[%d]", path, i)
		if i >= len(c.Policies) {
			at = fmt.Sprintf("%s.against[%d]", path, i-len(c.Policies))
		}
		f.OneOf(at, p, e.PolicyNames())
	}
	once(f, path+".policies", c.Policies)
	once(f, path+".against", c.Against)
	for i, p := range c.Against {
		f.Must(!slices.Contains(c.Policies, p), fmt.Sprintf("%s.against[%d]", path, i), "must be none of policies, or it is held against itself", p)
	}
	checker{e, f}.validateLevels(path+".where", c.Where)
	measures := 0
	named := func(rule string, names []string) {
		measures += len(names)
		once(f, path+"."+rule, names)
		for _, m := range names {
			f.OneOf(path+"."+rule, m, measureNames())
		}
	}
	named("lower", c.Lower)
	named("alike", slices.Sorted(maps.Keys(c.Alike)))
	named("flatter", c.Flatter)
	named("gaining", c.Gaining)
	named("most", slices.Sorted(maps.Keys(c.Most)))
	f.Must(measures > 0, path, "must have at least one measure", measures)
	for _, m := range slices.Sorted(maps.Keys(c.Alike)) {
		f.Must(c.Alike[m] > 0, path+".alike."+m, "must be above 0%", c.Alike[m])
	}
	for _, m := range slices.Sorted(maps.Keys(c.Most)) {
		f.Must(c.Most[m] > 0, path+".most."+m, "must be above 0", c.Most[m])
	}
}

// once wants no name twice in a list.
func once(f *Faults, path string, names []string) {
	for i, name := range names {
		f.Must(!slices.Contains(names[:i], name), fmt.Sprintf("%s[%d]", path, i), "must be there once", name)
	}
}

// Deviation is how far a result is from the reference's.
type Deviation struct {
	Policy       string
	Level        Level
	Measure      string
	Ours, Theirs float64
	// Off is the difference as a part of theirs; Flagged says that it is beyond the tolerance.
	Off     float64
	Flagged bool
}

// Compare holds the results against the reference, wherever both have a value.
func (ref *Reference) Compare(r *Results) []Deviation {
	var out []Deviation
	for _, c := range ref.Cells {
		at := r.find(&Level{c.Users, c.Scenario}, Level{})
		for _, m := range Measures {
			theirs, has := c.Values[m.Name]
			ours := r.Mean(c.Policy, at, m.Name)
			if !has || math.IsNaN(ours) {
				continue
			}
			d := Deviation{Policy: c.Policy, Level: at, Measure: m.Name, Ours: ours, Theirs: theirs, Off: ours/theirs - 1}
			d.Flagged = math.Abs(d.Off) > float64(ref.Tolerance[m.Name])
			out = append(out, d)
		}
	}
	return out
}
