package worlds

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/testbed"
)

// Report is what came of many worlds.
type Report struct {
	From    uint64 `json:"from"`
	Planned int    `json:"planned"` // worlds; fewer are there where it was interrupted
	Version string `json:"version"`
	// Policies are summed up over the worlds that each ran in.
	Policies []Line  `json:"policies"`
	Worlds   []World `json:"worlds"`
}

// Line is a policy over all worlds.
type Line struct {
	Policy string `json:"policy"`
	Worlds int    `json:"worlds"`
	// Cost is in parts of what an HPA at 60 % costs in the same world.
	Cost Spread `json:"cost"`
	// Late is the late share, and Later by how much it is higher than that HPA's.
	Late  Spread `json:"late"`
	Later Spread `json:"later"`
	// Failed is the failed share in the mean of the worlds, and FailedMost in the worst.
	Failed     testbed.Number `json:"failed"`
	FailedMost testbed.Number `json:"failedMost"`
	// Near is the part of the worlds in which it costs no more than 1.25 times the cheapest HPA
	// that is no later. Where every HPA is later, it is.
	Near testbed.Number `json:"near"`
	// Ahead is the part in which every HPA is later.
	Ahead testbed.Number `json:"ahead"`
}

// Spread is how values are spread over worlds.
type Spread struct {
	Median testbed.Number `json:"median"`
	P95    testbed.Number `json:"p95"`
}

// nearly is how many times the cheapest HPA that is no later a policy may cost.
const nearly = 1.25

// worst is how many of the worst worlds are shown, of each kind.
const worst = 10

// At is what came of a policy, or nil where it did not run.
func (w *World) At(policy string) *Score {
	i := slices.IndexFunc(w.Runs, func(s Score) bool { return s.Policy == policy })
	if i < 0 {
		return nil
	}
	return &w.Runs[i]
}

// bad is the part of the requests that were late or failed. Were failed ones not counted, a policy
// would be less late for what it fails.
func (s *Score) bad() float64 { return float64(s.LateShare + s.FailedShare) }

// rival is the cheapest HPA that is no later, or nil where all are later.
func (w *World) rival(s *Score) *Score {
	var best *Score
	for _, n := range hpas {
		h := w.At(fmt.Sprintf("hpa%d", n))
		if h != nil && h.bad() <= s.bad()+1e-9 && (best == nil || h.CostUnits < best.CostUnits) {
			best = h
		}
	}
	return best
}

// sum sums up the policies.
func (r *Report) sum() {
	var names []string
	for i := range r.Worlds {
		for _, s := range r.Worlds[i].Runs {
			if !slices.Contains(names, s.Policy) {
				names = append(names, s.Policy)
			}
		}
	}
	for _, name := range names {
		r.Policies = append(r.Policies, r.line(name))
	}
}

func (r *Report) line(policy string) Line {
	var cost, late, later, failed []float64
	near, ahead := 0.0, 0.0
	for i := range r.Worlds {
		w := &r.Worlds[i]
		s, base := w.At(policy), w.At(against)
		if s == nil {
			continue
		}
		late, failed = append(late, float64(s.LateShare)), append(failed, float64(s.FailedShare))
		if base != nil {
			cost = append(cost, float64(s.CostUnits/base.CostUnits))
			later = append(later, float64(s.LateShare-base.LateShare))
		}
		switch rival := w.rival(s); {
		case rival == nil:
			near, ahead = near+1, ahead+1
		case s.CostUnits <= nearly*rival.CostUnits:
			near++
		}
	}
	n := float64(len(late))
	mean := 0.0
	for _, f := range failed {
		mean += f / n
	}
	return Line{
		Policy: policy, Worlds: len(late), Cost: spread(cost), Late: spread(late), Later: spread(later),
		Failed: testbed.Rounded(mean), FailedMost: testbed.Rounded(quantile(failed, 1)),
		Near: testbed.Rounded(near / n), Ahead: testbed.Rounded(ahead / n),
	}
}

func spread(values []float64) Spread {
	return Spread{testbed.Rounded(quantile(values, .5)), testbed.Rounded(quantile(values, .95))}
}

// quantile is by nearest rank; of no values it is unknown.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	slices.Sort(values)
	return values[max(0, int(math.Ceil(q*float64(len(values))-1e-9))-1)]
}

// Tables are the policies over all worlds, and the worst worlds.
func (r *Report) Tables() []testbed.Table {
	return []testbed.Table{
		r.policies(),
		r.worst("The worst for "+about+": cost ÷ that of the cheapest HPA that is no later", r.losses((*World).rival)),
		r.worst("The dearest where every HPA is later than "+about+": cost ÷ that of the least late one", r.losses((*World).nearest)),
	}
}

func (r *Report) policies() testbed.Table {
	t := testbed.Table{
		Caption: fmt.Sprintf("%d worlds from %d on, median and 95th percentile: cost ÷ %s's, late requests, and by how many points more than %s's", len(r.Worlds), r.From, against, against),
		Head:    []string{"policy", "worlds", "cost", "95 %", "late", "95 %", "later", "95 %", "failed", "most", "near", "ahead"}, Left: 1,
	}
	for i := range r.Policies {
		l := &r.Policies[i]
		row := []string{l.Policy, fmt.Sprint(l.Worlds), testbed.Show(float64(l.Cost.Median), 2), testbed.Show(float64(l.Cost.P95), 2)}
		for _, v := range []testbed.Number{l.Late.Median, l.Late.P95, l.Later.Median, l.Later.P95, l.Failed, l.FailedMost, l.Near, l.Ahead} {
			row = append(row, percent(v))
		}
		if strings.HasPrefix(l.Policy, "hpa") { // which is its own rival
			row[10], row[11] = "–", "–"
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func percent(v testbed.Number) string {
	if math.IsNaN(float64(v)) {
		return "–"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(v))
}

// lost is a world, and how many times what its rival costs the policy costs there.
type lost struct {
	*World
	own, rival *Score
	times      float64
}

// losses are the worst worlds for the policy by what a rival costs; those without one are not
// among them.
func (r *Report) losses(rival func(w *World, own *Score) *Score) []lost {
	var out []lost
	for i := range r.Worlds {
		w := &r.Worlds[i]
		own := w.At(about)
		if own == nil {
			continue
		}
		if h := rival(w, own); h != nil {
			out = append(out, lost{w, own, h, float64(own.CostUnits / h.CostUnits)})
		}
	}
	slices.SortStableFunc(out, func(a, b lost) int { return cmp.Compare(b.times, a.times) })
	return out[:min(worst, len(out))]
}

// nearest is the least late HPA where all are later than the policy, and nil elsewhere.
func (w *World) nearest(s *Score) *Score {
	if w.rival(s) != nil {
		return nil
	}
	var best *Score
	for _, n := range hpas {
		h := w.At(fmt.Sprintf("hpa%d", n))
		if h != nil && (best == nil || h.bad() < best.bad()) {
			best = h
		}
	}
	return best
}

func (r *Report) worst(caption string, losses []lost) testbed.Table {
	t := testbed.Table{
		Caption: caption + "; late and failed requests, and machines ordered, of both",
		Head:    []string{"world", "HPA", "cost ÷", "bad", "HPA's", "orders", "HPA's"}, Left: 2,
	}
	for _, l := range losses {
		t.Rows = append(t.Rows, []string{
			fmt.Sprint(l.Seed), l.rival.Policy, testbed.Show(l.times, 2), percent(testbed.Number(l.own.bad())), percent(testbed.Number(l.rival.bad())),
			fmt.Sprint(l.own.Orders), fmt.Sprint(l.rival.Orders),
		})
	}
	return t
}

// Commands say what the worst worlds are, and run each of them alone and write its journal.
func (r *Report) Commands() []string {
	var out []string
	for _, l := range slices.Concat(r.losses((*World).rival), r.losses((*World).nearest)) {
		out = append(out, "# "+l.Title, fmt.Sprintf("plimsoll testbed run %s --from %d --policies %s --journal world-%d.ndjson", Name, l.Seed, about, l.Seed))
	}
	return out
}

// Write writes the report as JSON, a world a line.
func (r *Report) Write(w io.Writer) error {
	head := struct {
		From     uint64 `json:"from"`
		Planned  int    `json:"planned"`
		Version  string `json:"version"`
		Policies []Line `json:"policies"`
	}{r.From, r.Planned, r.Version, r.Policies}
	text, err := json.MarshalIndent(head, "", "  ")
	if err != nil {
		return fmt.Errorf("write worlds: %w", err)
	}
	lines := make([]string, len(r.Worlds))
	for i := range r.Worlds {
		line, err := json.Marshal(&r.Worlds[i])
		if err != nil {
			return fmt.Errorf("write worlds: %w", err)
		}
		lines[i] = "\n    " + string(line)
	}
	_, err = fmt.Fprintf(w, "%s,\n  \"worlds\": [%s\n  ]\n}\n", strings.TrimSuffix(string(text), "\n}"), strings.Join(lines, ","))
	return err
}
