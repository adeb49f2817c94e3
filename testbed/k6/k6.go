// Package k6 puts load on an application over real HTTP: it runs k6 on the scripts that lie beside
// it, each of which works with plain k6 as well, and reads what came of it.
package k6

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
)

// Scripts are the loads, and load.js, which they share. The head of each lists what it reads from
// the environment.
//
//go:embed *.js
var Scripts embed.FS

// shared is what is no script of its own.
const shared = "load.js"

// Names are the scripts, sorted.
func Names() []string {
	files, err := fs.Glob(Scripts, "*.js")
	if err != nil {
		panic(err) // the pattern is ours
	}
	return slices.DeleteFunc(files, func(name string) bool { return name == shared })
}

// Kind is how the senders of requests behave.
type Kind string

// The kinds of load.
const (
	Sleep Kind = "sleep" // request, wait for the answer, sleep
	Pace  Kind = "pace"  // one request every Think, or as fast as answers allow
	Open  Kind = "open"  // requests at a rate, regardless of the earlier ones
)

// Load is who sends requests to an application, and how.
type Load struct {
	URL  string
	Kind Kind
	// Users is how many there are. Of an open load it is how many requests may be on their way at a
	// time; those that would be more are dropped, and counted.
	Users    int
	Rate     float64       // requests a second, of an open load
	Think    time.Duration // a user's pause
	Spread   time.Duration // within which the users start
	Duration time.Duration
	Target   time.Duration // within which an answer is good
	Quantile float64       // of the minutes' latencies; 0.9 if zero
	// Fresh is a connection for every request, so that a Service of Kubernetes spreads them over
	// pods.
	Fresh bool
}

// MaxUsers is how many of k6's virtual users a laboratory's machine carries: each has an
// interpreter of its own, of 100 to 200 kB.
const MaxUsers = 5000

// Validate says everything that is wrong with the load.
func (l *Load) Validate() error {
	var faults pricing.Faults
	must := faults.Must
	kinds := []Kind{Sleep, Pace, Open}
	u, err := url.Parse(l.URL)
	must(err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "", "url", "like http://127.0.0.1:8080/apps/default/web/", fmt.Sprintf("%q", l.URL))
	must(slices.Contains(kinds, l.Kind), "kind", fmt.Sprintf("one of %s", kinds), fmt.Sprintf("%q", l.Kind))
	must(l.Users >= 1 && l.Users <= MaxUsers, "users", fmt.Sprintf("1 to %d", MaxUsers), l.Users)
	must(l.Kind != Open || l.Rate > 0, "rate", "greater than 0 for an open load", l.Rate)
	must(l.Kind == Open || l.Think > 0, "think", "greater than 0 for users", l.Think)
	must(l.Spread >= 0, "spread", "0 or more", l.Spread)
	must(l.Duration >= time.Second, "duration", "1s or more", l.Duration)
	must(l.Target > 0, "target", "greater than 0", l.Target)
	must(l.Quantile >= 0 && l.Quantile < 1, "quantile", "from 0 to below 1", l.Quantile)
	return errors.Join(faults...)
}

// Summary is what came of a load.
type Summary struct {
	Began    time.Time `json:"began"` // the first users may start then
	Seconds  float64   `json:"seconds"`
	Requests int       `json:"requests"` // answered, well or not
	Failed   int       `json:"failed"`
	Good     int       `json:"good"`    // answered within the target
	Dropped  int       `json:"dropped"` // of an open load, for lack of users
	// The others are milliseconds, of what was answered well.
	Mean float64 `json:"meanMs"`
	Min  float64 `json:"minMs"`
	P50  float64 `json:"p50Ms"`
	P90  float64 `json:"p90Ms"`
	P95  float64 `json:"p95Ms"`
	P99  float64 `json:"p99Ms"`
	Max  float64 `json:"maxMs"`
	// Served is what the application says that its answers took, and Late how much longer they took
	// for the users. Both are nothing where the application does not say.
	Served *Spell `json:"served,omitempty"`
	Late   *Spell `json:"late,omitempty"`
	// Objective is what was asked of the answers; nothing where nothing was.
	Objective *Objective `json:"objective,omitempty"`
	Minutes   []Minute   `json:"minutes"`
}

// Objective is the percentage of the requests that had to be answered well within a time.
type Objective struct {
	Percent  float64 `json:"percent"`
	WithinMs float64 `json:"withinMs"`
	Held     bool    `json:"held"`
}

// Spell is a part of the time that answers took. What client, network and server add to what the
// application reports is no property of the application.
type Spell struct {
	Mean float64 `json:"meanMs"`
	P90  float64 `json:"p90Ms"`
	P99  float64 `json:"p99Ms"`
}

// Minute is one minute of a load.
type Minute struct {
	Requests int `json:"requests"`
	Failed   int `json:"failed"`
	Late     int `json:"late"` // answered well, and after the target
	// Quantile is the load's quantile of all its requests, in milliseconds; +Inf when so many
	// failed that it lies among them.
	Quantile float64 `json:"quantileMs"`
}

// GoodFraction is the share of requests that were answered within the target, and whether there
// were any.
func (s *Summary) GoodFraction() (float64, bool) {
	return float64(s.Good) / float64(s.Requests), s.Requests > 0
}

// Run runs k6, the program, on paper.js, as RunScript does. The objective is not judged: that is
// done from what many runs come to.
func Run(ctx context.Context, program, folder string, l Load) (*Summary, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	return RunScript(ctx, program, folder, Paper, l.Settings())
}

// missedObjective is what k6 exits with when a threshold was missed and all else went well.
const missedObjective = 99

// RunScript runs k6, the program, on one of the scripts with its settings, and returns when the
// load is over; that an objective was missed is in the summary. What it leaves behind is in the
// folder: the scripts, k6's own output and the summary. When the context is done, the load ends
// early and comes to an error.
func RunScript(ctx context.Context, program, folder, script string, settings map[string]string) (*Summary, error) {
	if !slices.Contains(Names(), script) {
		return nil, fmt.Errorf("script: must be one of %s, was %q", Names(), script)
	}
	if err := write(folder); err != nil {
		return nil, err
	}
	output, err := os.Create(filepath.Join(folder, "k6.log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = output.Close() }() // written by k6
	summary := filepath.Join(folder, "summary.json")
	if err := os.Remove(summary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err // an older one would be taken for this load's
	}
	cmd := exec.CommandContext(ctx, program, append(arguments(settings, summary), filepath.Join(folder, script))...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.Env = append(os.Environ(), "K6_NO_USAGE_REPORT=true")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil && (ctx.Err() != nil || cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != missedObjective) {
		return nil, fmt.Errorf("k6: %w", errors.Join(err, context.Cause(ctx), tail(output.Name())))
	}
	text, err := os.ReadFile(summary)
	if err != nil {
		return nil, fmt.Errorf("k6: %w", err)
	}
	return readSummary(text)
}

// write writes all scripts, for each needs the one that they share beside it.
func write(folder string) error {
	return fs.WalkDir(Scripts, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := Scripts.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(folder, name), text, 0o600)
	})
}

// Paper is the script that sends a Load.
const Paper = "paper.js"

// Settings are the load as the script reads it.
func (l *Load) Settings() map[string]string {
	connections := "keep"
	if l.Fresh {
		connections = "new"
	}
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	return map[string]string{
		"URL": l.URL, "KIND": string(l.Kind), "USERS": strconv.Itoa(l.Users), "RATE": number(l.Rate),
		"THINK": number(l.Think.Seconds()), "SPREAD": number(l.Spread.Seconds()), "DURATION": number(l.Duration.Seconds()),
		"TARGET": number(float64(l.Target) / float64(time.Millisecond)), "QUANTILE": number(math.Round(cmp.Or(l.Quantile, 0.9)*1e6) / 1e4),
		"OBJECTIVE": "0", "CONNECTIONS": connections,
	}
}

// Arguments are k6's for a script whose summary is to be on standard output.
func Arguments(settings map[string]string, script string) []string {
	return append(arguments(settings, "-"), script)
}

// summaryMark begins the line with the summary.
const summaryMark = "plimsoll-summary "

// Told is the summary in what k6 has printed.
func Told(output []byte) (*Summary, error) {
	var found *Summary
	for line := range bytes.Lines(output) {
		text, is := bytes.CutPrefix(line, []byte(summaryMark))
		if !is {
			continue
		}
		if found != nil {
			return nil, errors.New("k6: two summaries were printed")
		}
		var err error
		if found, err = readSummary(text); err != nil {
			return nil, err
		}
	}
	if found == nil {
		return nil, fmt.Errorf("k6: no summary was printed, but %q", bytes.TrimSpace(output[max(0, len(output)-2000):]))
	}
	return found, nil
}

// arguments are k6's: no server of its own, whose port others want too, and nothing on the screen.
func arguments(settings map[string]string, summary string) []string {
	args := []string{"run", "--quiet", "--no-color", "--address", "", "-e", "SUMMARY=" + summary}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-e", name+"="+settings[name])
	}
	return args
}

// failedAfter is what the script says of a quantile that lies among failures, or half of it and
// more where it lies between one and an answer.
const failedAfter = 1e9

func readSummary(text []byte) (*Summary, error) {
	var s Summary
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&s); err != nil {
		return nil, fmt.Errorf("k6: summary: %w", err)
	}
	for i := range s.Minutes {
		if m := &s.Minutes[i]; m.Quantile > failedAfter/1e3 {
			m.Quantile = math.Inf(1)
		}
	}
	return &s, nil
}

// tail is the end of a log, as an error.
func tail(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	return errors.New(string(bytes.TrimSpace(text[max(0, len(text)-2000):])))
}
