package testbedverb

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/testbed/replay"
	testreport "github.com/plimsoll/plimsoll/testbed/report"
)

// simulateAnswer is what came of a load. Its training times are all that a repetition does not
// repeat.
type simulateAnswer struct {
	Version string          `json:"version"`
	Load    simulateLoad    `json:"load"`
	Setting simulateSetting `json:"setting"`
	// Least is the oracle's at an excess of 1: the fewest pods that serve what can be served.
	Least   simulateResult   `json:"least"`
	Results []simulateResult `json:"results"`
	// Beside are the losses of others in parts of hpa's, at as many pod-minutes as it takes, if it
	// was played.
	Beside []simulateBeside `json:"besideHPA,omitempty"`

	report *testreport.Simulated
	ask    *simulation
}

type simulateLoad struct {
	Name     string     `json:"name"`
	From     *time.Time `json:"from,omitempty"` // of Prometheus' loads
	Minutes  int        `json:"minutes"`
	Train    int        `json:"trainMinutes"`
	Tested   int        `json:"testedMinutes"`
	Requests float64    `json:"requests"` // in the tested minutes, as they were played
	Peak     float64    `json:"peak"`     // requests a second in the busiest minute of the test
	// Factor is what the load was multiplied by.
	Factor float64 `json:"factor"`
}

type simulateSetting struct {
	Profile   string  `json:"profile"`
	Timeout   int     `json:"timeoutMinutes"`
	Tolerance float64 `json:"tolerance"`
	Min       int     `json:"min"`
	Max       int     `json:"max"`
	Season    int     `json:"seasonMinutes"`
	Seed      uint64  `json:"seed"`
}

// simulateResult is a scaler's at a setting. What is not known is not there.
type simulateResult struct {
	Policy      string  `json:"policy"`
	Knob        string  `json:"knob"`
	Value       float64 `json:"value"`
	Lost        float64 `json:"lostRequests"`
	LostPercent float64 `json:"lostPercent"`
	PodMinutes  int     `json:"podMinutes"`
	MeanPods    float64 `json:"meanPods"`
	OverOracle  float64 `json:"overOraclePercent"`
	Moves       int     `json:"moves"`
	Turns       int     `json:"turns"`
	// Training is how long the scaler learned, once for all of its settings.
	Training *float64 `json:"trainingSeconds,omitempty"`
	Bytes    *int     `json:"bytes,omitempty"`
	// Leaders are who decided for which part of the time, of a scaler that has several.
	Leaders []simulateLeader `json:"leaders,omitempty"`
}

type simulateLeader struct {
	Name    string  `json:"name"`
	Percent float64 `json:"percent"`
}

// simulateBeside is what a scaler loses in parts of what hpa does at a setting.
type simulateBeside struct {
	Policy string  `json:"policy"`
	HPA    float64 `json:"hpaExcess"`
	Part   float64 `json:"part"`
}

// newSimulateAnswer puts together what came of all courses, of which the oracle's is the first.
func newSimulateAnswer(b *bench, load *recorded, all []outcome, again []string) *simulateAnswer {
	ask, version := b.ask, b.env.Version
	r := &testreport.Simulated{Title: load.Name, Against: "hpa", DayFrom: b.day.from, Version: version}
	for i := range all {
		results := all[i].results
		oneTraining(results)
		r.Results, r.Lines = append(r.Results, results[:all[i].asked]...), append(r.Lines, results...)
		r.Days = append(r.Days, all[i].day)
	}
	for _, x := range r.Lines {
		if x.Kind == oracle && x.Value == 1 {
			r.Least = x
		}
	}
	a := &simulateAnswer{Version: version, Load: loadAnswer(b, load), Setting: settingAnswer(ask), report: r, ask: ask}
	a.Least = newSimulateResult(r, &r.Least)
	for i := range r.Results {
		a.Results = append(a.Results, newSimulateResult(r, &r.Results[i]))
	}
	with := r.Sweep(r.Against)
	for _, kind := range r.Kinds() {
		for i, part := range r.Beside(kind) {
			if kind != r.Against && !math.IsNaN(part) {
				a.Beside = append(a.Beside, simulateBeside{kind, with[i].Value, rounded(part)})
			}
		}
	}
	r.Facts = a.facts()
	r.Command = a.command(again)
	return a
}

// oneTraining says of all settings how long the one took that learned for all.
func oneTraining(results []replay.Result) {
	var longest time.Duration
	for i := range results {
		longest = max(longest, results[i].Training)
	}
	for i := range results {
		results[i].Training = longest
	}
}

func loadAnswer(b *bench, load *recorded) simulateLoad {
	test := b.load.Counts[b.train:]
	l := simulateLoad{Name: load.Name, Minutes: len(b.load.Counts), Train: b.train, Tested: len(test), Factor: 1}
	if !load.from.IsZero() {
		from := load.from.UTC()
		l.From = &from
	}
	var peak float64
	for _, n := range test {
		l.Requests += n
		peak = max(peak, n/60)
	}
	l.Requests, l.Peak = math.Round(l.Requests), rounded(peak)
	if recorded, played := sum(load.Counts), sum(b.load.Counts); recorded > 0 && b.ask.pods != 0 {
		l.Factor = rounded(played / recorded)
	}
	return l
}

func sum(values []float64) (total float64) {
	for _, v := range values {
		total += v
	}
	return total
}

func settingAnswer(ask *simulation) simulateSetting {
	s := &ask.setting
	return simulateSetting{
		Profile: ask.profile.words, Timeout: s.Timeout, Tolerance: s.Tolerance, Min: s.Min, Max: s.Max, Season: s.Season, Seed: s.Seed,
	}
}

func newSimulateResult(r *testreport.Simulated, x *replay.Result) simulateResult {
	out := simulateResult{
		Policy: x.Kind, Knob: string(x.Knob), Value: x.Value, Lost: rounded(x.Lost), LostPercent: rounded(100 * x.LostPart()),
		PodMinutes: x.PodMinutes, MeanPods: rounded(x.MeanPods()), OverOracle: rounded(100 * r.Over(x)), Moves: x.Moves, Turns: x.Turns,
	}
	if x.TrainingKnown {
		seconds := math.Round(x.Training.Seconds()*1e3) / 1e3
		out.Training = &seconds
	}
	if x.SizeKnown {
		out.Bytes = &x.Size
	}
	for _, l := range x.Leaders {
		out.Leaders = append(out.Leaders, simulateLeader{l.Name, rounded(100 * l.Part)})
	}
	return out
}

// rounded leaves six significant digits, or whole numbers: more would be noise.
func rounded(v float64) float64 {
	if math.Abs(v) >= 1e6 {
		return math.Round(v)
	}
	return podscaler.Rounded(v)
}

// facts are what a reader of the report asks for first.
func (a *simulateAnswer) facts() [][2]string {
	l, s := &a.Load, &a.Setting
	minutes := func(n int) string { return days(time.Duration(n) * time.Minute) }
	facts := [][2]string{{"load", l.Name}}
	if l.From != nil {
		facts = append(facts, [2]string{"from", l.From.Format(time.RFC3339)})
	}
	facts = append(facts,
		[2]string{"length", fmt.Sprintf("%s, of which the first %s were learnt from", minutes(l.Minutes), minutes(l.Train))},
		[2]string{"requests", fmt.Sprintf("%.0f in the %s after that, %.4g a second in the busiest minute", l.Requests, minutes(l.Tested), l.Peak)},
	)
	if l.Factor != 1 {
		facts = append(facts, [2]string{"multiplied by", fmt.Sprintf("%.4g, so that the oracle takes %v pods in the mean", l.Factor, a.ask.pods)})
	}
	return append(facts,
		[2]string{"x pods serve", s.Profile + " requests a second"},
		[2]string{"lost after", minutes(s.Timeout)},
		[2]string{"pods", fmt.Sprintf("%d to %d", s.Min, s.Max)},
		[2]string{"the HPA's tolerance", fmt.Sprint(s.Tolerance)},
		[2]string{"season", minutes(s.Season)},
		[2]string{"seed", fmt.Sprint(s.Seed)},
		[2]string{"version", a.Version},
	)
}

// notes say what makes figures mean less than they seem to.
func (a *simulateAnswer) notes() []string {
	var notes []string
	s := &a.Setting
	var stuck []string
	for _, r := range a.Results {
		// Use is never above 1, and 1 over the target is within the tolerance.
		if r.Knob == string(replay.Excess) && r.Moves == 0 && r.Lost > 0 && 1/r.Value-1 <= s.Tolerance+1e-9 {
			stuck = append(stuck, fmt.Sprintf("%s at %v", r.Policy, r.Value))
		}
	}
	if len(stuck) > 0 {
		notes = append(notes, fmt.Sprintf("never grown, for no use is above 1, which is within --tolerance %v of the excess: %s", s.Tolerance, strings.Join(stuck, ", ")))
	}
	return notes
}

// The files of --out.
const (
	loadFile    = "load.csv"
	profileCopy = "profile.yaml"
)

// command plays the same again, from the folder that it was written to.
func (a *simulateAnswer) command(again []string) string {
	words := []string{"plimsoll", "simulate", "--trace", loadFile}
	if a.ask.profile.text != nil {
		words = append(words, "--profile", profileCopy)
	}
	return strings.Join(append(append(words, again...), "--out", "."), " ")
}

// keep writes what a repetition needs.
func (ask *simulation) keep(env *cli.Env, load *recorded) error {
	name := filepath.Join(ask.out, loadFile)
	if err := env.WriteFile(name, func(w io.Writer) error { return writeLoad(w, load.Trace) }); err != nil {
		return err
	}
	if ask.profile.text == nil {
		return nil
	}
	return env.WriteFile(filepath.Join(ask.out, profileCopy), func(w io.Writer) error {
		_, err := w.Write(ask.profile.text)
		return err
	})
}

// print prints the answer as it was asked for.
func (a *simulateAnswer) print(env *cli.Env, format cli.Output) error {
	switch format {
	case cli.OutputCSV:
		return csv.NewWriter(env.Stdout).WriteAll(a.csv())
	case cli.OutputTable:
		return a.printTables(env.Stdout)
	case cli.OutputJSON, cli.OutputYAML:
	}
	return format.Print(env.Stdout, a, nil)
}

func (a *simulateAnswer) printTables(w io.Writer) error {
	var b bytes.Buffer
	for i, t := range a.report.Tables() {
		if i > 0 {
			b.WriteByte('\n')
		}
		if err := t.Print(&b); err != nil {
			return err
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// csv is the results as rows of fixed columns.
func (a *simulateAnswer) csv() [][]string {
	rows := [][]string{{
		"policy", "knob", "value", "lost_requests", "lost_percent", "pod_minutes", "over_oracle_percent", "moves", "turns", "training_seconds", "bytes",
	}}
	text := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	for i := range a.Results {
		r := &a.Results[i]
		row := []string{
			r.Policy, r.Knob, text(r.Value), text(r.Lost), text(r.LostPercent), strconv.Itoa(r.PodMinutes), text(r.OverOracle),
			strconv.Itoa(r.Moves), strconv.Itoa(r.Turns), "", "",
		}
		if r.Training != nil {
			row[9] = text(*r.Training)
		}
		if r.Bytes != nil {
			row[10] = strconv.Itoa(*r.Bytes)
		}
		rows = append(rows, row)
	}
	return rows
}

// write writes the results, the report and the figures into a folder.
func (a *simulateAnswer) write(env *cli.Env, folder string, took time.Duration) error {
	minutes := float64(a.Load.Tested * len(a.report.Lines))
	a.report.Work = fmt.Sprintf("%.1f million minutes were played in %.1f s.", minutes/1e6, took.Seconds())
	err := env.WriteFile(filepath.Join(folder, "results.json"), func(w io.Writer) error {
		encoder := json.NewEncoder(w)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		return encoder.Encode(a)
	})
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	if err := writePage(env, folder, a.report.Figures(), a.report.WriteHTML); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return nil
}
