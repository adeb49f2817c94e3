package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/podscaler/capacity"
	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/figure"
	"github.com/plimsoll/plimsoll/testbed/replay"
)

// Simulated is what came of a load that was played against scalers, each at several settings.
type Simulated struct {
	Title string
	// Results are those of all scalers, by scaler and setting, and Lines those at as many settings
	// as it takes to compare scalers at as many pod-minutes.
	Results, Lines []replay.Result
	// Least is the oracle's without any excess: the fewest pods that serve everything they can.
	Least replay.Result
	// Against names the scaler that the others are compared with at as many pod-minutes as it
	// takes; empty for none.
	Against string
	// Days are a day of the load as scalers met it, the oracle's among them, and DayFrom the minute
	// of the test that it begins with.
	Days    []Day
	DayFrom int
	// Facts are what a reader asks for first, Command what plays the same again, and Work what it
	// took.
	Facts         [][2]string
	Command, Work string
	Version       string
}

// Day is what a scaler did in each of so many minutes.
type Day struct {
	Kind  string
	Knob  replay.Knob
	Value float64
	// Pods, Arrived and Lost are a minute's: requests a second that came and that were lost as it
	// began.
	Pods          []int
	Arrived, Lost []float64
	// Leaders are who decided, of a scaler that has several.
	Leaders []string
}

// Hear takes in the next minute.
func (d *Day) Hear(p capacity.Period, leader string) {
	d.Pods, d.Arrived, d.Lost = append(d.Pods, p.Pods), append(d.Arrived, p.Arrived), append(d.Lost, p.Expired)
	if leader != "" {
		d.Leaders = append(d.Leaders, leader)
	}
}

// setting is what a scaler's knob was turned to.
func setting(k replay.Knob, value float64) string { return fmt.Sprintf("%s %v", k, value) }

// Tables are the results: what each scaler lost and took, and what it lost beside another at as
// many pod-minutes.
func (r *Simulated) Tables() []testbed.Table {
	t := testbed.Table{
		Caption: fmt.Sprintf("Over the oracle is how many more pod-minutes than the %d that serve everything, known beforehand", r.Least.PodMinutes),
		Head:    []string{"policy", "at", "lost requests", "lost", "pod-minutes", "over the oracle", "moves", "training", "memory"}, Left: 2,
	}
	if r.Least.Lost > 0 {
		t.Caption = fmt.Sprintf("Over the oracle is how many more pod-minutes than the %d that lose no more than must be lost", r.Least.PodMinutes)
	}
	for i := range r.Results {
		x := &r.Results[i]
		t.Rows = append(t.Rows, []string{
			x.Kind, setting(x.Knob, x.Value), testbed.Show(x.Lost, 0), percent(x.LostPart()), fmt.Sprint(x.PodMinutes),
			fmt.Sprintf("%+.1f %%", 100*r.Over(x)), fmt.Sprint(x.Moves), training(x), memory(x),
		})
	}
	tables := []testbed.Table{t}
	if beside := r.beside(); len(beside.Rows) > 0 {
		tables = append(tables, beside)
	}
	return tables
}

// percent prints a part, of which more than a hundred-thousandth can be seen.
func percent(part float64) string {
	if part > 0 && part < 1e-5 {
		return "< 0.001 %"
	}
	return testbed.Show(100*part, 2) + " %"
}

// Over is how many more pod-minutes a result has than the oracle needs, as a part of those.
func (r *Simulated) Over(x *replay.Result) float64 {
	return float64(x.PodMinutes)/float64(r.Least.PodMinutes) - 1
}

func training(x *replay.Result) string {
	switch {
	case !x.TrainingKnown:
		return "–"
	case x.Training < time.Second:
		return x.Training.Round(time.Millisecond).String()
	}
	return x.Training.Round(100 * time.Millisecond).String()
}

func memory(x *replay.Result) string {
	if !x.SizeKnown {
		return "–"
	}
	return fmt.Sprintf("%.2f MB", float64(x.Size)/1e6)
}

// Sweep are the results of one scaler.
func (r *Simulated) Sweep(kind string) []replay.Result { return of(kind, r.Results) }

func of(kind string, results []replay.Result) []replay.Result {
	var out []replay.Result
	for _, x := range results {
		if x.Kind == kind {
			out = append(out, x)
		}
	}
	return out
}

// Kinds names the scalers in the order of their results.
func (r *Simulated) Kinds() []string {
	var out []string
	for _, x := range r.Results {
		if !slices.Contains(out, x.Kind) {
			out = append(out, x.Kind)
		}
	}
	return out
}

// Beside is what a scaler loses in parts of what the one it is compared with does, at as many
// pod-minutes as that one takes at each of its settings. It is not known (NaN) beyond the ends of
// its own line.
func (r *Simulated) Beside(kind string) []float64 {
	var out []float64
	for _, with := range r.Sweep(r.Against) {
		lost, known := replay.LostAt(of(kind, r.Lines), float64(with.PodMinutes))
		if !known || with.Lost == 0 {
			lost = math.NaN()
		}
		out = append(out, lost/with.Lost)
	}
	return out
}

// beside compares the scalers at as many pod-minutes.
func (r *Simulated) beside() testbed.Table {
	t := testbed.Table{
		Caption: fmt.Sprintf("Lost requests in parts of those of %s, at as many pod-minutes as it takes", r.Against),
		Head:    []string{"policy"}, Left: 1,
	}
	with := r.Sweep(r.Against)
	if len(with) == 0 {
		return t
	}
	for _, x := range with {
		t.Head = append(t.Head, setting(x.Knob, x.Value))
	}
	if !slices.ContainsFunc(with, func(x replay.Result) bool { return x.Lost > 0 }) {
		return t // of nothing there are no parts
	}
	for _, kind := range r.Kinds() {
		if kind == r.Against {
			continue
		}
		row := []string{kind}
		for _, part := range r.Beside(kind) {
			cell := testbed.Show(part, 2)
			if part > 10 {
				cell = "> 10" // by how much is chance, where hardly anything is lost
			}
			row = append(row, cell)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// Figures draws lost requests against pod-minutes, the day's load, each scaler's replicas beside
// the oracle's in it, and who decided when.
func (r *Simulated) Figures() []Figure {
	out := drawn([]*figure.Chart{r.pareto()})
	if len(r.Days) == 0 {
		return out
	}
	out = append(out, drawn([]*figure.Chart{r.arrivals()})...)
	out[1].Table = r.hourly()
	for i := range r.Days {
		if d := &r.Days[i]; d.Kind != r.Least.Kind {
			f := drawn([]*figure.Chart{r.replicas(d)})[0]
			f.Table = r.hourly(d)
			out = append(out, f)
		}
	}
	for i := range r.Days {
		if d := &r.Days[i]; len(d.Leaders) > 0 {
			f := drawn([]*figure.Chart{leaders(d)})[0]
			f.Table = r.leaderTable(d)
			out = append(out, f)
		}
	}
	return out
}

// pareto draws the results, but for those that lose so much that the others could not be
// distinguished.
func (r *Simulated) pareto() *figure.Chart {
	c := &figure.Chart{
		ID: "pareto", Title: "Lost requests against pod-minutes", Span: true,
		X:    figure.Axis{Title: "pod-minutes"},
		Y:    figure.Axis{Title: "lost requests"},
		Desc: "A line for each scaler, through what it lost and took at each of its settings; nearer to the lower left is better.",
	}
	unit := 1.0
	switch most := r.most(); {
	case most >= 2e6:
		unit, c.Y.Unit = 1e6, "millions"
	case most >= 2e4:
		unit, c.Y.Unit = 1e3, "thousands"
	}
	for _, kind := range r.Kinds() {
		s := figure.Series{Name: kind}
		sweep := r.Sweep(kind)
		slices.SortStableFunc(sweep, func(a, b replay.Result) int { return cmp.Compare(a.PodMinutes, b.PodMinutes) })
		for _, x := range sweep {
			if x.Lost <= r.most() {
				s.Points = append(s.Points, at(float64(x.PodMinutes), x.Lost/unit))
			}
		}
		c.Series = append(c.Series, s)
	}
	return c
}

// most is what is lost at the upper end of the figure: three times what those lose in the middle of
// all that lose any.
func (r *Simulated) most() float64 {
	var lost []float64
	for _, x := range r.Results {
		if x.Lost > 0 {
			lost = append(lost, x.Lost)
		}
	}
	if len(lost) == 0 {
		return 0
	}
	slices.Sort(lost)
	return 3 * lost[len(lost)/2]
}

// Beyond names the results that have no place in the figure.
func (r *Simulated) Beyond() string {
	var out []string
	for _, x := range r.Results {
		if x.Lost > r.most() {
			out = append(out, fmt.Sprintf("%s at %s (%.1f %% lost)", x.Kind, setting(x.Knob, x.Value), 100*x.LostPart()))
		}
	}
	return strings.Join(out, ", ")
}

func at(x, y float64) figure.Point { return figure.Point{X: x, Y: y, Low: y, High: y} }

// hours is the axis of a day.
func (r *Simulated) hours() figure.Axis {
	a := figure.Axis{Title: "hour of " + r.Which()}
	for h := 0; h <= 24; h += 3 {
		a.At = append(a.At, float64(h))
	}
	if len(r.Days[0].Pods) < replay.MinutesADay {
		a = figure.Axis{Title: "hour of the test"}
	}
	return a
}

// Which is the day that is shown, of the test.
func (r *Simulated) Which() string {
	return fmt.Sprintf("day %d of the test", 1+r.DayFrom/replay.MinutesADay)
}

// stepsOf draws a value a minute, leaving out those that are as the one before.
func stepsOf[T int | float64](name string, values []T) figure.Series {
	s := figure.Series{Name: name}
	for i, v := range values {
		if i == 0 || i == len(values)-1 || v != values[i-1] {
			s.Points = append(s.Points, at(float64(i)/60, float64(v)))
		}
	}
	return s
}

func (r *Simulated) arrivals() *figure.Chart {
	return &figure.Chart{
		ID: "load", Title: "The load of a day", Steps: true, Plain: true,
		X: r.hours(), Y: figure.Axis{Title: "requests a second"},
		Desc:   "Requests a second, in the mean of each minute of the day.",
		Series: []figure.Series{stepsOf("load", r.Days[0].Arrived)},
	}
}

// replicas draws a scaler's replicas over those that the oracle would have had.
func (r *Simulated) replicas(d *Day) *figure.Chart {
	c := &figure.Chart{
		ID: "replicas-" + d.Kind, Title: fmt.Sprintf("Replicas of %s, at %s", d.Kind, setting(d.Knob, d.Value)), Steps: true, Plain: true,
		X: r.hours(), Y: figure.Axis{Title: "replicas"},
		Desc: fmt.Sprintf("How many replicas %s set for each minute of the day, and how many the oracle did.", d.Kind),
	}
	for i := range r.Days {
		if o := &r.Days[i]; o.Kind == r.Least.Kind {
			c.Series = append(c.Series, stepsOf(o.Kind, o.Pods))
			c.Series[0].Area = true
		}
	}
	c.Series = append(c.Series, stepsOf(d.Kind, d.Pods))
	return c
}

// leaders draws for which part of each hour each of those who may decide did.
func leaders(d *Day) *figure.Chart {
	c := &figure.Chart{
		ID: "leaders-" + d.Kind, Title: "Who decided, of " + d.Kind,
		X: figure.Axis{Title: "hour of the day"}, Y: figure.Axis{Title: "part of the hour", Unit: "%"},
		Desc: fmt.Sprintf("Of each hour of the day, the share in which each scaler that %s chooses among decided.", d.Kind),
	}
	names, hours := d.led()
	for _, name := range names {
		s := figure.Series{Name: name}
		for h, led := range hours {
			s.Points = append(s.Points, at(float64(h), 100*led[name]))
		}
		c.Series = append(c.Series, s)
	}
	return c
}

// led is who decided for which part of each hour, and all of them by name.
func (d *Day) led() (names []string, hours []map[string]float64) {
	for from := 0; from < len(d.Leaders); from += 60 {
		part := d.Leaders[from:min(from+60, len(d.Leaders))]
		led := map[string]float64{}
		for _, name := range part {
			led[name] += 1 / float64(len(part))
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		hours = append(hours, led)
	}
	slices.Sort(names)
	return names, hours
}

// hourly is the day by the hour: what came, and the replicas of the oracle and of other scalers in
// the mean.
func (r *Simulated) hourly(scalers ...*Day) testbed.Table {
	t := testbed.Table{Caption: "By the hour: requests a second in the mean", Head: []string{"hour", "load"}, Left: 1}
	if len(scalers) > 0 {
		t.Caption = "By the hour: requests a second, and replicas in the mean"
		for i := range r.Days {
			if o := &r.Days[i]; o.Kind == r.Least.Kind {
				scalers = append([]*Day{o}, scalers...)
			}
		}
	}
	for _, d := range scalers {
		t.Head = append(t.Head, d.Kind)
	}
	first := r.Days[0].Arrived
	for from := 0; from < len(first); from += 60 {
		to := min(from+60, len(first))
		row := []string{fmt.Sprint(from / 60), testbed.Show(mean(first[from:to]), 1)}
		for _, d := range scalers {
			row = append(row, testbed.Show(mean(d.Pods[from:to]), 1))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func mean[T int | float64](values []T) float64 {
	var sum T
	for _, v := range values {
		sum += v
	}
	return float64(sum) / float64(len(values))
}

// leaderTable is who decided for which part of the whole test, and of each hour of the day.
func (r *Simulated) leaderTable(d *Day) testbed.Table {
	names, hours := d.led()
	t := testbed.Table{
		Caption: fmt.Sprintf("Who decided, of %s at %s, in %% of the time", d.Kind, setting(d.Knob, d.Value)),
		Head:    append([]string{"time"}, names...), Left: 1,
	}
	whole := map[string]float64{}
	for _, x := range r.Sweep(d.Kind) {
		if x.Value == d.Value {
			for _, l := range x.Leaders {
				whole[l.Name] = l.Part
			}
		}
	}
	row := func(name string, led map[string]float64) {
		cells := []string{name}
		for _, n := range names {
			cells = append(cells, fmt.Sprintf("%.0f", 100*led[n]))
		}
		t.Rows = append(t.Rows, cells)
	}
	row("the whole test", whole)
	for h, led := range hours {
		row(fmt.Sprintf("hour %d", h), led)
	}
	return t
}

// simulatedContent is what the page is made of.
type simulatedContent struct {
	*Simulated
	Pareto, Load Figure
	Replicas     []replicaContent
	Leaders      []Figure
}

// replicaContent is a scaler's replicas; those that are looked for first are shown at once.
type replicaContent struct {
	Kind   string
	Figure Figure
	Open   bool
}

// Head is how the page begins.
func (r *Simulated) Head() head {
	return head{
		"Which scaler for " + r.Title,
		"What each scaler would have lost of this load and what it would have taken, beside an oracle that knows the next minute.", "simulate",
	}
}

// Verdict says which scaler lost least, and took least, of those that lose no more than the one
// that all are compared with does at its most careful setting.
func (r *Simulated) Verdict() []string {
	with := r.Sweep(r.Against)
	if len(with) == 0 {
		return nil
	}
	careful := with[0]
	for _, x := range with {
		if x.Lost < careful.Lost || x.Lost == careful.Lost && x.PodMinutes < careful.PodMinutes {
			careful = x
		}
	}
	out := []string{fmt.Sprintf("%s at %s loses %s of the requests and takes %d pod-minutes, %+.1f %% over the oracle.",
		careful.Kind, setting(careful.Knob, careful.Value), percent(careful.LostPart()), careful.PodMinutes, 100*r.Over(&careful))}
	best := careful
	for _, x := range r.Results {
		if x.Kind != r.Least.Kind && x.Lost <= careful.Lost && x.PodMinutes < best.PodMinutes {
			best = x
		}
	}
	if best.Kind == careful.Kind {
		return append(out, "No other scaler that was played loses no more and takes less.")
	}
	return append(out, fmt.Sprintf("%s at %s loses no more (%s) and takes the least: %d pod-minutes, %.1f %% less.",
		best.Kind, setting(best.Knob, best.Value), percent(best.LostPart()), best.PodMinutes,
		100*(1-float64(best.PodMinutes)/float64(careful.PodMinutes))))
}

// WriteHTML writes the page.
func (r *Simulated) WriteHTML(w io.Writer) error {
	c := simulatedContent{Simulated: r}
	drawings := map[string]Figure{}
	for _, f := range r.Figures() {
		drawings[f.Name] = f
	}
	c.Pareto, c.Load = drawings["pareto"], drawings["load"]
	for i := range r.Days {
		d := &r.Days[i]
		if f, drawn := drawings["replicas-"+d.Kind]; drawn {
			c.Replicas = append(c.Replicas, replicaContent{d.Kind, f, d.Kind == r.Against || len(d.Leaders) > 0})
		}
		if f, drawn := drawings["leaders-"+d.Kind]; drawn {
			c.Leaders = append(c.Leaders, f)
		}
	}
	return page(w, "simulated.html", &c)
}
