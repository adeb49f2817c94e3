package policy_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

var update = flag.Bool("update", false, "write what the scenarios come to into their files")

// Every policy shows itself in testdata/scenarios, in a file that bears its name:
//
//	spec {"policy": "HPA"}       the policy as experiments and manifests write it
//	workload min=1 max=10        what differs from the usual workload
//	0s replicas=2 cpu=50m*2 -> 4: DesiredWithinRange
//
// A line with a time is a run of the scaler, with what it sees; what follows the arrow is what came
// of it, with the codes of the reasons, and -update writes that.
func TestEveryPolicyHasItsScenario(t *testing.T) {
	const folder = "testdata/scenarios"
	files := must.Get(filepath.Glob(folder + "/*.txt"))(t)
	var shown []string
	for _, file := range files {
		shown = append(shown, strings.TrimSuffix(filepath.Base(file), ".txt"))
	}
	if diff := cmp.Diff(policy.Names(), shown); diff != "" {
		t.Errorf("policies and files in %s (-policies +files):\n%s", folder, diff)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { play(t, file) })
	}
}

// play runs a scenario and compares what came of it.
func play(t *testing.T, file string) {
	text := must.Get(os.ReadFile(file))(t)
	s := stage{workload: usual()}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	var came []string
	for i, line := range lines {
		result, err := s.line(line)
		if err != nil {
			t.Fatalf("%s:%d: %v", file, i+1, err)
		}
		came = append(came, result)
	}
	if s.runs == 0 {
		t.Fatalf("%s: no line of it runs the policy", file)
	}
	if *update {
		must.Do(t, os.WriteFile(file, []byte(strings.Join(came, "\n")+"\n"), 0o644))
		return
	}
	if diff := cmp.Diff(lines, came); diff != "" {
		t.Errorf("%s (-written +came):\n%s", file, diff)
	}
}

// stage is where a scenario plays.
type stage struct {
	spec     policy.Spec
	workload podscaler.Workload
	scaler   *podscaler.Scaler
	replicas int
	runs     int
}

// line plays a line, and returns it with what came of it.
func (s *stage) line(line string) (string, error) {
	word, rest, _ := strings.Cut(line, " ")
	switch {
	case line == "" || strings.HasPrefix(line, "#"):
		return line, nil
	case word == "spec":
		s.scaler, s.spec = nil, policy.Spec{}
		return line, json.Unmarshal([]byte(rest), &s.spec)
	case word == "workload":
		s.scaler, s.workload = nil, usual()
		return line, s.settings(rest)
	}
	seen, _, _ := strings.Cut(line, " ->")
	d, err := s.run(seen)
	if err != nil {
		return "", err
	}
	var codes []string
	for _, r := range d.Reasons {
		codes = append(codes, r.Code)
	}
	return fmt.Sprintf("%s -> %d: %s", seen, d.To, strings.Join(codes, " ")), nil
}

// settings reads key=value pairs about the workload.
func (s *stage) settings(text string) (err error) {
	w := &s.workload
	for key, value := range pairs(text) {
		switch key {
		case "min":
			w.Min, err = strconv.Atoi(value)
		case "max":
			w.Max, err = strconv.Atoi(value)
		case "cooldown":
			w.Cooldown, err = time.ParseDuration(value)
		case "behavior":
			w.Behavior = map[string]*podscaler.Behavior{"legacy": podscaler.LegacyBehavior(), "default": podscaler.DefaultBehavior()}[value]
		default:
			err = fmt.Errorf("the workload has no %q", key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// run has the scaler decide by what a line says that it sees. Replicas are what was decided last
// unless the line says otherwise.
func (s *stage) run(line string) (podscaler.Decision, error) {
	if s.scaler == nil {
		p, err := policy.New(s.spec)
		if err == nil {
			err = policy.Check(&s.workload, p)
		}
		if err != nil {
			return podscaler.Decision{}, err
		}
		s.scaler = podscaler.NewScaler(s.workload, p)
	}
	word, rest, _ := strings.Cut(line, " ")
	at, err := time.ParseDuration(word)
	if err != nil {
		return podscaler.Decision{}, fmt.Errorf("must begin with spec, workload or a time, was %q", word)
	}
	v := podscaler.View{Now: now.Add(at), Workload: s.scaler.Workload(), Replicas: s.replicas, Window: podscaler.Window{Metrics: map[string]podscaler.Metric{}}}
	for key, value := range pairs(rest) {
		if err := see(&v, key, value); err != nil {
			return podscaler.Decision{}, err
		}
	}
	d := s.scaler.Decide(&v)
	s.replicas = d.To
	s.runs++
	return d, nil
}

// see puts one thing into the view: a number, or a list of what each pod has, where ? is unknown
// and *3 repeats the pod before it to make three.
func see(v *podscaler.View, key, value string) error {
	numbers, err := amounts(value)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	first := numbers[0]
	switch key {
	case "replicas":
		v.Replicas = int(first.Value)
	case "cpu":
		for i, r := range numbers {
			v.Pods = append(v.Pods, podscaler.Pod{
				Name: fmt.Sprintf("web-%02d", i), Phase: podscaler.Running, Ready: true,
				Started: v.Now.Add(-time.Hour), ReadyChanged: v.Now.Add(-time.Hour),
				CPU: podscaler.Sample{Known: r.Known, Value: r.Value, At: v.Now, Span: 30 * time.Second},
			})
		}
	case "pending":
		for i := range int(first.Value) {
			v.Pods = append(v.Pods, podscaler.Pod{Name: fmt.Sprintf("new-%02d", i), Phase: podscaler.Pending})
		}
		v.Room.PendingReplicas = int(first.Value)
	case "latency":
		v.Window.Latency = first
	case "good":
		v.Window.Good = first
	case "arrivals":
		v.Window.Arrivals = first
	case "errors":
		v.Window.Errors = first
	case "inflight":
		v.Window.InFlight = first
	case "registered":
		v.Window.Registered = first
	case "cost":
		rate := pricing.RateOf(pricing.Micros(first.Value * float64(pricing.Unit)))
		v.Cost = podscaler.Cost{Known: first.Known, Joined: rate, Ordered: rate, Predicted: rate}
	default:
		v.Window.Metrics[key] = podscaler.Metric{Total: first}
	}
	return nil
}

// amounts reads a list of quantities.
func amounts(text string) (list []podscaler.Reading, err error) {
	for word := range strings.SplitSeq(text, ",") {
		amount, times, many := strings.Cut(word, "*")
		n := 1
		if many {
			if n, err = strconv.Atoi(times); err != nil {
				return nil, err
			}
		}
		r := podscaler.Reading{Why: "it was not measured"}
		if amount != "?" {
			q, err := policy.ParseQuantity(amount)
			if err != nil {
				return nil, err
			}
			r = podscaler.Known(float64(q) / 1000)
		}
		list = append(list, slices.Repeat([]podscaler.Reading{r}, n)...)
	}
	return list, nil
}

// pairs are the key=value words of a text.
func pairs(text string) func(yield func(string, string) bool) {
	return func(yield func(string, string) bool) {
		for word := range strings.FieldsSeq(text) {
			key, value, _ := strings.Cut(word, "=")
			if !yield(key, value) {
				return
			}
		}
	}
}
