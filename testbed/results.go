package testbed

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/plimsoll/plimsoll/testbed/sim"
)

// Results are what became of an experiment: every run, and every policy's runs at one level
// summed up. The same experiment with the same seed gives the same bytes.
type Results struct {
	Header
	Runs    []Trial   `json:"runs"`
	Summary []Summary `json:"summary"`
}

// Header says what the results are of.
type Header struct {
	Experiment string `json:"experiment"`
	World      string `json:"world"`
	Seed       uint64 `json:"seed"`
	Version    string `json:"version"`
	// Unit is what money is counted in.
	Unit string `json:"unit"`
	// Load is the kind of load: sleep, pace or open.
	Load   sim.Kind `json:"load"`
	Trials int      `json:"trials"`
	// DurationSeconds is the length of a trial, but for scenarios that have their own.
	DurationSeconds int `json:"durationSeconds"`
	// Planned is how many runs there should be; an interrupted experiment has fewer.
	Planned int `json:"planned"`
	// Options are the flags that were given beside the experiment.
	Options []string `json:"options,omitempty"`
}

// Trial is one run: a policy at a level of load, for one of the times it is tried.
type Trial struct {
	Policy     string `json:"policy"`
	NodePolicy string `json:"nodePolicy"`
	// Users is the level of a sweep, or the highest level of a scenario.
	Users    int    `json:"users"`
	Scenario string `json:"scenario,omitempty"`
	Trial    int    `json:"trial"` // from 1 on

	Requests int `json:"requests"` // that were answered or failed
	Failed   int `json:"failed"`   // of them
	// Sent beside them, and not answered by the end; unknown where no one counts them.
	Unfinished   Number `json:"unfinished"`
	GoodFraction Number `json:"goodFraction"` // of Requests, answered within the objective's target
	// LateShare is the part of the requests that was answered after the target, or not by the end
	// although that was over; FailedShare is the part that failed.
	LateShare   Number `json:"lateShare"`
	FailedShare Number `json:"failedShare"`
	// WorstMinute is the highest late share of any minute with requests.
	WorstMinute Number `json:"worstMinute"`
	// OverMinutes is the area over the objective: by how many minutes all requests together took
	// longer than the target.
	OverMinutes Number `json:"overMinutes"`
	P50Ms       Number `json:"p50Ms"` // of the answers, over the whole trial
	P90Ms       Number `json:"p90Ms"`
	P99Ms       Number `json:"p99Ms"`
	// SLOViolationMinutes counts the minutes whose own quantile missed the target.
	SLOViolationMinutes int    `json:"sloViolationMinutes"`
	CostUnits           Number `json:"costUnits"`
	PodMinutes          Number `json:"podMinutes"`
	VMHours             Number `json:"vmHours"`
	Orders              int    `json:"orders"`
	Returns             int    `json:"returns"`
	PodMoves            int    `json:"podMoves"`
	// UpheavalPerHour is how many pods were moved and machines ordered, together, in an hour of the
	// run.
	UpheavalPerHour Number `json:"upheavalPerHour"`
	// Decisions counts the changes of replicas that were decided.
	Decisions int `json:"decisions"`
	Thrash    int `json:"thrash"`
	// MaxReplicasMinutes is how long it took until as many replicas were asked for as are
	// allowed; unknown if they never were.
	MaxReplicasMinutes Number `json:"maxReplicasMinutes"`
	// Growths and Shrinks count the changes of replicas in each direction; ReplicasAdded is by how
	// many all growths together grew.
	Growths       int `json:"growths"`
	ReplicasAdded int `json:"replicasAdded"`
	Shrinks       int `json:"shrinks"`
	// SpanReplicaMinutes is the time of all replicas that were asked for in the experiment's span;
	// unknown if it has none.
	SpanReplicaMinutes Number `json:"spanReplicaMinutes"`
	// SpanChanges counts the changes of replicas, and the machines ordered and returned, in the
	// span.
	SpanChanges Number `json:"spanChanges"`
	// RateMax is the most that the machines cost an hour at any time.
	RateMax Number `json:"rateMax"`
	// ModelUnsure is the part of its decisions in which a policy said that it was not sure of its
	// model, as it does until it has seen enough.
	ModelUnsure Number `json:"modelUnsure"`
	// ModelOff is the part of its decisions in which a policy said that its model was off.
	ModelOff Number `json:"modelOff"`
	// Wakes counts the spares that were started; SpareUnits is what machines cost while they were
	// stopped, and part of CostUnits.
	Wakes      int    `json:"wakes"`
	SpareUnits Number `json:"spareUnits"`
	// Path is how many replicas were asked for when, to the end of the run. Results keep it of
	// every policy's first trial at the busiest level, and of all runs if the experiment says so.
	Path []Moment `json:"path,omitempty"`
	// Machines is how many machines there were or were on their way when, and is kept where Path
	// is.
	Machines []Count `json:"machines,omitempty"`
	// Minutes are the requests of each minute. Results keep them where they keep Path.
	Minutes []Minute `json:"minutes,omitempty"`

	// LateMs is the 90th percentile of how much longer answers took than by the law of the pods
	// that gave them, in worlds that go by the clock. It is no property of the policy, but of the
	// machine it ran on.
	LateMs Number `json:"lateMs,omitzero"`
	// ServedP90Ms is the 90th percentile of what answers took by that law alone: what users of a
	// machine that keeps up would have seen as P90Ms.
	ServedP90Ms Number `json:"servedP90Ms,omitzero"`
	// Warning says why the run's numbers are not to be trusted; empty if they are.
	Warning string `json:"warning,omitempty"`
}

// Moment is a number of replicas, from so many seconds after the start on.
type Moment struct {
	Seconds  Number `json:"seconds"`
	Replicas int    `json:"replicas"`
}

// Count is a number of machines, from so many seconds after the start on.
type Count struct {
	Seconds  Number `json:"seconds"`
	Machines int    `json:"machines"`
}

// Minute is how many requests were judged in a minute, and how many of these were late.
type Minute struct {
	Requests int `json:"requests"`
	Late     int `json:"late"`
}

// Summary is all trials of one policy at one level of load.
type Summary struct {
	Policy     string          `json:"policy"`
	NodePolicy string          `json:"nodePolicy"`
	Users      int             `json:"users"`
	Scenario   string          `json:"scenario,omitempty"`
	Trials     int             `json:"trials"`
	Measures   map[string]Stat `json:"measures"`
}

// Number is a measurement that may not exist: not a number is null in JSON.
type Number float64

// Rounded rounds to four decimals, so that what is read back is what was written.
func Rounded(v float64) Number { return Number(math.Round(v*1e4) / 1e4) }

// Equal reports whether both are the same; what is unknown is the same as what is unknown.
func (n Number) Equal(o Number) bool {
	return n == o || math.IsNaN(float64(n)) && math.IsNaN(float64(o))
}

// MarshalJSON writes null for what is unknown.
func (n Number) MarshalJSON() ([]byte, error) {
	if v := float64(n); math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(n), 'f', -1, 64), nil
}

// UnmarshalJSON reads null as unknown.
func (n *Number) UnmarshalJSON(data []byte) error {
	*n = Number(math.NaN())
	if string(data) == "null" {
		return nil
	}
	return json.Unmarshal(data, (*float64)(n))
}

// Measure is a number that every run has.
type Measure struct {
	Name, Title, Unit string
	of                func(*Trial) float64
}

// Measures are the numbers that runs are summed up in, in the order of the results' fields.
// Money is in the price book's unit.
var Measures = []Measure{
	{"requests", "requests that were answered or failed", "", func(r *Trial) float64 { return float64(r.Requests) }},
	{"failed", "failed requests", "", func(r *Trial) float64 { return float64(r.Failed) }},
	{"unfinished", "requests that were not answered by the end", "", func(r *Trial) float64 { return float64(r.Unfinished) }},
	{"goodFraction", "requests within the target", "", func(r *Trial) float64 { return float64(r.GoodFraction) }},
	{"lateShare", "part of the requests that was late", "", func(r *Trial) float64 { return float64(r.LateShare) }},
	{"failedShare", "part of the requests that failed", "", func(r *Trial) float64 { return float64(r.FailedShare) }},
	{"worstMinute", "highest part of a minute's requests that was late", "", func(r *Trial) float64 { return float64(r.WorstMinute) }},
	{"overMinutes", "area over the objective: time that all requests together took beyond the target", "min", func(r *Trial) float64 { return float64(r.OverMinutes) }},
	{"p50Ms", "median of response time", "ms", func(r *Trial) float64 { return float64(r.P50Ms) }},
	{"p90Ms", "90th percentile of response time", "ms", func(r *Trial) float64 { return float64(r.P90Ms) }},
	{"p99Ms", "99th percentile of response time", "ms", func(r *Trial) float64 { return float64(r.P99Ms) }},
	{"sloViolationMinutes", "minutes over the target", "min", func(r *Trial) float64 { return float64(r.SLOViolationMinutes) }},
	{"costUnits", "cost", "", func(r *Trial) float64 { return float64(r.CostUnits) }},
	{"podMinutes", "pod-minutes", "min", func(r *Trial) float64 { return float64(r.PodMinutes) }},
	{"vmHours", "VM-hours", "h", func(r *Trial) float64 { return float64(r.VMHours) }},
	{"orders", "machines ordered", "", func(r *Trial) float64 { return float64(r.Orders) }},
	{"returns", "machines returned", "", func(r *Trial) float64 { return float64(r.Returns) }},
	{"podMoves", "pods moved", "", func(r *Trial) float64 { return float64(r.PodMoves) }},
	{"upheavalPerHour", "pods moved and machines ordered in an hour", "", func(r *Trial) float64 { return float64(r.UpheavalPerHour) }},
	{"decisions", "changes of replicas", "", func(r *Trial) float64 { return float64(r.Decisions) }},
	{"thrash", "replicas moved for nothing", "", func(r *Trial) float64 { return float64(r.Thrash) }},
	{"maxReplicasMinutes", "time until the most replicas were asked for", "min", func(r *Trial) float64 { return float64(r.MaxReplicasMinutes) }},
	{"growths", "times that replicas were added", "", func(r *Trial) float64 { return float64(r.Growths) }},
	{"replicasAdded", "replicas that were added", "", func(r *Trial) float64 { return float64(r.ReplicasAdded) }},
	{"shrinks", "times that replicas were taken away", "", func(r *Trial) float64 { return float64(r.Shrinks) }},
	{"spanReplicaMinutes", "replica-minutes in the span", "min", func(r *Trial) float64 { return float64(r.SpanReplicaMinutes) }},
	{"spanChanges", "changes of replicas and machines in the span", "", func(r *Trial) float64 { return float64(r.SpanChanges) }},
	{"rateMax", "highest cost of an hour", "", func(r *Trial) float64 { return float64(r.RateMax) }},
	{"modelUnsure", "decisions whose policy was not sure of its model", "", func(r *Trial) float64 { return float64(r.ModelUnsure) }},
	{"modelOff", "decisions whose policy said that its model was off", "", func(r *Trial) float64 { return float64(r.ModelOff) }},
	{"wakes", "spares started", "", func(r *Trial) float64 { return float64(r.Wakes) }},
	{"spareUnits", "cost of spares", "", func(r *Trial) float64 { return float64(r.SpareUnits) }},
}

func measure(name string) *Measure {
	i := slices.IndexFunc(Measures, func(m Measure) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return &Measures[i]
}

// Level is a level of load that runs are compared at: a number of users, or a scenario.
type Level struct {
	Users    int
	Scenario string
}

// String names the level.
func (l Level) String() string {
	if l.Scenario != "" {
		return l.Scenario
	}
	return strconv.Itoa(l.Users)
}

// Level is what the run was made at.
func (r *Trial) Level() Level { return Level{r.Users, r.Scenario} }

func (s *Summary) level() Level { return Level{s.Users, s.Scenario} }

// sum makes the summary of the runs, which are in order of policy and level.
func (r *Results) sum() {
	r.Summary = nil
	for start := 0; start < len(r.Runs); {
		first := &r.Runs[start]
		end := start
		for end < len(r.Runs) && r.Runs[end].Policy == first.Policy && r.Runs[end].Level() == first.Level() {
			end++
		}
		s := Summary{
			Policy: first.Policy, NodePolicy: first.NodePolicy, Users: first.Users, Scenario: first.Scenario,
			Trials: end - start, Measures: make(map[string]Stat, len(Measures)),
		}
		for i := range Measures {
			s.Measures[Measures[i].Name] = statOf(values(r.Runs[start:end], &Measures[i]))
		}
		r.Summary = append(r.Summary, s)
		start = end
	}
}

func values(runs []Trial, m *Measure) []float64 {
	out := make([]float64, len(runs))
	for i := range runs {
		out[i] = m.of(&runs[i])
	}
	return out
}

// Warnings are those of all runs, each with the run that it is about.
func (r *Results) Warnings() []string {
	var all []string
	for i := range r.Runs {
		if t := &r.Runs[i]; t.Warning != "" {
			all = append(all, fmt.Sprintf("%s at %s, trial %d: %s", t.Policy, t.Level(), t.Trial, t.Warning))
		}
	}
	return all
}

// Policies are the policies that ran, and Levels the levels they ran at, each in order.
func (r *Results) Policies() []string {
	return Distinct(r.Summary, func(s *Summary) string { return s.Policy })
}

// Levels are the levels of load that there are runs at, in order.
func (r *Results) Levels() []Level { return Distinct(r.Summary, (*Summary).level) }

// Distinct are the values that there are in a list, each once, in order.
func Distinct[S any, V comparable](list []S, of func(*S) V) []V {
	var out []V
	for i := range list {
		if v := of(&list[i]); !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// ofSpan are the measures of the experiment's span. They are unknown of a run that was shorter.
var ofSpan = []string{"spanReplicaMinutes", "spanChanges"}

// At returns the summary of a policy at a level, or nil when it did not run there.
func (r *Results) At(policy string, l Level) *Summary {
	for i := range r.Summary {
		if s := &r.Summary[i]; s.Policy == policy && s.level() == l {
			return s
		}
	}
	return nil
}

// Mean is a measure's mean, or not a number when the policy did not run at the level.
func (r *Results) Mean(policy string, l Level, measure string) float64 {
	s := r.At(policy, l)
	if s == nil {
		return math.NaN()
	}
	return float64(s.Measures[measure].Mean)
}

// Total is a measure's mean summed over all levels; not a number when the policy is missing at one.
func (r *Results) Total(policy, measure string) float64 {
	sum := 0.0
	for _, l := range r.Levels() {
		sum += r.Mean(policy, l, measure)
	}
	return sum
}

// Write writes the results as JSON, a run a line, so that two files can be compared line by
// line.
func (r *Results) Write(w io.Writer) error { return WriteLines(w, r.Header, r.Runs, r.Summary) }

// WriteLines writes results as JSON: what heads them as it is, and their runs and sums a line each.
func WriteLines[R, S any](w io.Writer, header any, runs []R, summary []S) error {
	head, err := json.MarshalIndent(header, "", "  ")
	if err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	var b bytes.Buffer
	b.Write(bytes.TrimSuffix(head, []byte("\n}")))
	err = errors.Join(writeLines(&b, "runs", runs), writeLines(&b, "summary", summary))
	b.WriteString("\n}\n")
	if err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	_, err = w.Write(b.Bytes())
	return err
}

func writeLines[T any](b *bytes.Buffer, key string, values []T) error {
	fmt.Fprintf(b, ",\n  %q: [", key)
	for i := range values {
		line, err := json.Marshal(&values[i])
		if err != nil {
			return err
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n    ")
		b.Write(line)
	}
	b.WriteString("\n  ]")
	return nil
}

// ReadResults reads what Write wrote.
func ReadResults(r io.Reader) (*Results, error) {
	in := json.NewDecoder(r)
	in.DisallowUnknownFields()
	var out Results
	if err := in.Decode(&out); err != nil {
		return nil, fmt.Errorf("read results: %w", err)
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("read results: must end after the results")
	}
	for i := range out.Summary {
		for _, m := range measureNames() {
			if _, has := out.Summary[i].Measures[m]; !has {
				return nil, fmt.Errorf("read results: summary[%d].measures.%s: must be there, was absent", i, m)
			}
		}
	}
	return &out, nil
}
