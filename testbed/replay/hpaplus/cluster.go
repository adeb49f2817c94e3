package hpaplus

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/plimsoll/plimsoll/podscaler/capacity"
	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/replay"
)

const (
	// Cluster is the world in which the HPA, the replicas and the requests are real.
	Cluster = "lab"
	// PerPod is the requests a second that each pod serves there, however many pods there are.
	PerPod = 10
	// mostPods are those of a row there.
	mostPods = 50
	// noon is the minute of the judged day at which what is played there begins.
	noon = minutesADay / 2
	// squared is the measure of how far a cluster's pods are from the model's.
	squared = "mse"
	// theHPA is the row that a cluster has an autoscaler of its own for.
	theHPA = "hpa"
)

// Row is a scaler in a cluster, with the load that it meets there.
type Row struct {
	Name string // no other row's; one that Kubernetes takes
	// HPA are the settings of the cluster's own autoscaler where that decides. Elsewhere the player
	// does.
	HPA    *capacity.HPA
	Pods   int       // at the start
	Rates  []float64 // requests a second, minute by minute
	Player *replay.Player

	row     string
	c       Case
	model   *replay.Player
	minutes []Minute
}

// Minute is what the model and the cluster made of the same minute.
type Minute struct{ Model, Cluster capacity.Period }

// Reduced is an experiment at a size that a cluster plays within minutes: one trace, some minutes
// from noon of its first judged day on, and pods that serve little.
type Reduced struct {
	*Experiment
	source  Source
	version string
	minutes int
	rows    []*Row
}

// InCluster reports whether the experiment can be reduced: a cluster has replicas to compare, and
// requests there do not wait for minutes.
func (e *Experiment) InCluster() bool {
	return e.Replay.Compare == Scalers && !slices.ContainsFunc(e.Cases(), func(c Case) bool { return c.Timeout > 1 })
}

// Reduce returns the experiment, as the options change it, at the size of so many minutes.
func (e *Experiment) Reduce(o Options, minutes int) (*Reduced, error) {
	small, err := e.With(o)
	if err != nil {
		return nil, err
	}
	var f testbed.Faults
	f.Must(minutes >= 2 && minutes <= noon, "for", fmt.Sprintf("must be time for 2 to %d minutes of the load", noon), minutes)
	f.Must(len(o.Traces) < 2, "trace", "must be given once at most, for a cluster plays one", len(o.Traces))
	if len(f) > 0 {
		return nil, errors.Join(f...)
	}
	small.Trials, small.Replay.Profile, small.Replay.MaxPods = 1, &Line{PerPod: PerPod}, mostPods
	source := shipped(e.Replay.Traces[0])
	if len(o.Traces) > 0 {
		source = o.Traces[0]
	}
	return &Reduced{Experiment: small, source: source, version: o.Version, minutes: minutes}, nil
}

// Play plays the rows by the model, and in a cluster by what it is handed. That plays them side by
// side, and has each row's player count what was measured.
func (r *Reduced) Play(ctx context.Context, inCluster func(context.Context, []*Row) error) (*Contrast, error) {
	s, err := (&job{Experiment: r.Experiment, source: r.source, trial: 1}).stage()
	if err != nil {
		return nil, err
	}
	// The size of the load is that of the minutes that are played.
	s.train += noon
	s.trace = &replay.Trace{Name: s.trace.Name, Counts: s.trace.Counts[:s.train+r.minutes]}
	r.rows = nil
	for _, c := range r.Cases() {
		for _, name := range r.Replay.Rows {
			if err := r.add(s, c, name); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	if err := inCluster(ctx, r.rows); err != nil {
		return nil, err
	}
	return &Contrast{
		Reduced: r,
		Model:   r.results(World, func(row *Row) replay.Result { return row.model.Result() }),
		Cluster: r.results(Cluster, func(row *Row) replay.Result { return row.Player.Result() }),
	}, nil
}

// add plays a row by the model, and prepares it for the cluster.
func (r *Reduced) add(s *stage, c Case, name string) error {
	l, setting, err := s.at(c)
	if err != nil {
		return err
	}
	k, err := replay.Find(name)
	if err != nil {
		return err
	}
	row := &Row{Name: fmt.Sprintf("%s-%d", name, len(r.rows)), row: name, c: c, minutes: make([]Minute, r.minutes)}
	if name == theHPA {
		row.HPA = &capacity.HPA{Target: c.Excess, Tolerance: c.Tolerance, Min: setting.Min, Max: setting.Max, Stabilization: setting.Stabilization}
	}
	trained := func(hear replay.Hear) (*replay.Player, error) {
		p, err := replay.NewPlayer(k, setting, hear)
		if err != nil {
			return nil, err
		}
		return p, p.Warm(l.Counts[:l.train])
	}
	row.model, err = trained(func(i int, p capacity.Period, _, _ string) { row.minutes[i].Model = p })
	if err != nil {
		return err
	}
	row.Player, err = trained(func(i int, p capacity.Period, _, _ string) { row.minutes[i].Cluster = p })
	if err != nil {
		return err
	}
	counts := l.Counts[l.train:]
	for _, n := range counts {
		row.Rates = append(row.Rates, n/60)
	}
	row.Pods = row.Player.Next(row.Rates[0])
	r.rows = append(r.rows, row)
	return row.model.Feed(counts...)
}

// results are the rows' in one of the two worlds.
func (r *Reduced) results(world string, of func(*Row) replay.Result) *Results {
	s := &stage{job: &job{Experiment: r.Experiment, source: r.source, trial: 1}}
	for _, row := range r.rows {
		base := r.rows[slices.IndexFunc(r.rows, func(o *Row) bool { return o.c == row.c && o.row == r.Replay.Against[0] })]
		result, against := of(row), of(base)
		measures := s.beside(&result, &against)
		if world == Cluster {
			measures[squared] = row.squared()
		}
		s.add(row.row, row.c, result.Arrived, measures).Active = active(&result)
	}
	out := &Results{
		Header: Header{
			Experiment: r.Name, World: world, Seed: r.Seed, Version: r.version, Compare: r.Replay.Compare, Trials: 1,
			Traces: []string{r.source.Name}, Planned: 1, Done: 1,
		},
		Runs: s.runs,
	}
	out.sum()
	return out
}

// squared is the mean squared difference of the pods.
func (row *Row) squared() float64 {
	sum := 0.0
	for _, m := range row.minutes {
		sum += math.Pow(float64(m.Cluster.Pods-m.Model.Pods), 2)
	}
	return sum / float64(len(row.minutes))
}

// Contrast is what came of the same minutes by the model and in a cluster.
type Contrast struct {
	*Reduced
	Model, Cluster *Results
}

// Table is every measure as it was published, by the model and in the cluster, and how far these
// are off.
func (c *Contrast) Table() testbed.Table {
	t := testbed.Table{
		Caption: fmt.Sprintf("%d minutes of %s: the paper, the model and the lab; how far one is off the other, in %% of the latter",
			c.minutes, c.source.Name),
		Head: []string{"row", "case", "measure", "paper", "model", "lab", "model off paper", "lab off paper", "lab off model"}, Left: 3,
	}
	differ := varying(c.Cases())
	for i := range c.Cluster.Summary {
		lab, model := &c.Cluster.Summary[i], &c.Model.Summary[i]
		line := func(name string, m, l Over, digits int) {
			paper, m2, l2 := c.published(lab, name), float64(m.Median), float64(l.Median)
			t.Rows = append(t.Rows, []string{
				lab.Row, named(&lab.Case, differ), name, testbed.Show(paper, digits), testbed.Show(m2, digits), testbed.Show(l2, digits),
				off(m2, paper), off(l2, paper), off(l2, m2),
			})
		}
		for _, m := range c.Measures() {
			if !m.relative() || !c.itself(lab, m.Name) {
				line(m.Name, model.Measures[m.Name], lab.Measures[m.Name], m.Digits)
			}
		}
		if lab.Row == theHPA {
			line(squared, Over{Range: Range{Median: testbed.Number(math.NaN())}}, lab.Measures[squared], 2)
		}
		for _, who := range activeIn(lab, model) {
			if !c.Replay.Leaders {
				break // the experiment is not about them
			}
			line("active."+who, model.Active[who], lab.Active[who], 2)
		}
	}
	return t
}

// activeIn are who decided in either.
func activeIn(a, b *Summary) []string {
	return (&Results{Summary: []Summary{*a, *b}}).activeNames()
}

// published is what the reference has of a row in a case, or not a number.
func (c *Contrast) published(s *Summary, measure string) float64 {
	if c.Reference != nil {
		for _, cell := range c.Reference.Cells {
			v, has := cell.Values[measure]
			if has && cell.Row == s.Row && (cell.Excess == 0 || cell.Excess == s.Case.Excess) {
				return v
			}
		}
	}
	return math.NaN()
}

// off is how far a value is from another, in percent of that one.
func off(v, from float64) string {
	by := 100 * (v - from) / math.Abs(from)
	if math.IsNaN(by) || math.IsInf(by, 0) {
		return "–"
	}
	return fmt.Sprintf("%+.0f", by)
}

// Write writes the results of both as JSON.
func (c *Contrast) Write(w io.Writer) error {
	for _, r := range []struct {
		before string
		*Results
	}{{`{"model": `, c.Model}, {`, "lab": `, c.Cluster}} {
		if _, err := io.WriteString(w, r.before); err != nil {
			return err
		}
		if err := r.Results.Write(w); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, "}\n")
	return err
}

// WriteMinutes writes the course of every row.
func (c *Contrast) WriteMinutes(w io.Writer) error {
	out := csv.NewWriter(w)
	rows := [][]string{{"row", "case", "minute", "arrivedModel", "podsModel", "lostModel", "arrivedLab", "podsLab", "lostLab"}}
	differ := varying(c.Cases())
	for _, row := range c.rows {
		for i, m := range row.minutes {
			line := []string{row.row, named(&row.c, differ), strconv.Itoa(i)}
			for _, p := range []capacity.Period{m.Model, m.Cluster} {
				line = append(line, testbed.Show(p.Arrived, 2), strconv.Itoa(p.Pods), testbed.Show(p.Expired, 2))
			}
			rows = append(rows, line)
		}
	}
	return out.WriteAll(rows)
}
