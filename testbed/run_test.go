package testbed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler/loop"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/sim"
)

func minimal(t testing.TB, options Options) *Experiment {
	t.Helper()
	data := must.Get(readGood("minimal"))(t)
	e := must.Get(Parse(data))(t)
	e = must.Get(e.With(options))(t)
	return e
}

func mustRun(t testing.TB, e *Experiment, o Options) *Results {
	t.Helper()
	return must.Get(Run(t.Context(), e, o))(t)
}

func written(t testing.TB, r *Results) string {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, r.Write(&b))
	return b.String()
}

func TestTheSameSeedGivesTheSameBytesHoweverManyRunAtATime(t *testing.T) {
	e := minimal(t, Options{})
	one := written(t, mustRun(t, e, Options{Parallel: 1}))
	for _, n := range []int{2, 5} {
		if other := written(t, mustRun(t, e, Options{Parallel: n})); one != other {
			t.Errorf("%d at a time: %s", n, cmp.Diff(one, other))
		}
	}
	seed := e.Seed + 1
	if other := written(t, mustRun(t, e, Options{Seed: &seed})); one == other {
		t.Error("another seed gives the same results")
	}
}

// A policy under another name, among others or alone, has the very same runs.
func TestAllPoliciesHaveTheSameLuck(t *testing.T) {
	e := minimal(t, Options{})
	twin := e.Policies[0]
	twin.Name = "twin"
	e.Policies = append([]Policy{twin}, e.Policies...)
	all := mustRun(t, e, Options{})
	runs := func(r *Results, policy string) []Trial {
		var out []Trial
		for _, run := range r.Runs {
			if run.Policy == policy {
				run.Policy = ""
				out = append(out, run)
			}
		}
		return out
	}
	if diff := cmp.Diff(runs(all, "hpa"), runs(all, "twin")); diff != "" {
		t.Errorf("a twin fares differently: %s", diff)
	}
	alone := mustRun(t, e, Options{Policies: []string{"hpa"}, Users: []int{30}})
	some := slices.DeleteFunc(runs(all, "hpa"), func(r Trial) bool { return r.Users != 30 })
	if diff := cmp.Diff(some, runs(alone, "hpa")); diff != "" {
		t.Errorf("alone it fares differently: %s", diff)
	}
	if trials := runs(alone, "hpa"); len(trials) != 2 || trials[0].Requests == trials[1].Requests && trials[0].P90Ms == trials[1].P90Ms {
		t.Errorf("two trials are one: %+v", trials)
	}
}

func TestRunsAddUp(t *testing.T) {
	r := mustRun(t, minimal(t, Options{}), Options{})
	for _, run := range r.Runs {
		// A machine costs 10 an hour, is never fewer than one, and lives three minutes at most.
		if got, want := float64(run.CostUnits), 10*float64(run.VMHours); math.Abs(got-want) > 0.01 {
			t.Errorf("%s at %d: %g units for %g VM-hours", run.Policy, run.Users, got, float64(run.VMHours))
		}
		if run.VMHours < 0.05 || run.PodMinutes < 3 || run.Orders < run.Returns {
			t.Errorf("less than the start: %+v", run)
		}
		if run.P50Ms > run.P90Ms || run.P90Ms > run.P99Ms || run.GoodFraction < 0 || run.GoodFraction > 1 {
			t.Errorf("quantiles out of order: %+v", run)
		}
		if run.SLOViolationMinutes > 3 || run.Failed > run.Requests {
			t.Errorf("more than there was: %+v", run)
		}
	}
}

func TestAnInterruptedExperimentKeepsWhatIsDone(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	e := minimal(t, Options{Trials: 20})
	r, err := Run(ctx, e, Options{Parallel: 1, Progress: func(p Progress) {
		if p.Done == 3 {
			stop()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("the error is %v", err)
	}
	if len(r.Runs) < 3 || len(r.Runs) >= r.Planned || r.Planned != 80 || len(r.Summary) == 0 {
		t.Errorf("%d of %d runs and %d summaries are left", len(r.Runs), r.Planned, len(r.Summary))
	}
	whole := mustRun(t, e, Options{})
	for _, run := range r.Runs {
		if !slices.ContainsFunc(whole.Runs, func(o Trial) bool { return cmp.Equal(o, run) }) {
			t.Errorf("a run that the whole experiment does not have: %+v", run)
		}
	}
}

// brittle is a world whose second run fails.
type brittle struct {
	World
	runs int
}

func (b *brittle) Parallel() int { return 1 }

func (b *brittle) Run(ctx context.Context, e *Experiment, j *Job) (Trial, error) {
	if b.runs++; b.runs == 2 {
		return Trial{}, errors.New("the storage is full")
	}
	return b.World.Run(ctx, e, j)
}

func TestARunThatFailsTakesNoneOfTheOthersWithIt(t *testing.T) {
	w := &brittle{World: Simulated()}
	r, err := Run(t.Context(), minimal(t, Options{}), Options{World: w, Trials: 3})
	if err == nil || !strings.Contains(err.Error(), "the storage is full") || !strings.Contains(err.Error(), "trial") {
		t.Errorf("it fails with %v", err)
	}
	if r == nil || len(r.Runs) != 1 || len(r.Summary) != 1 || r.Planned <= 2 || r.Runs[0].Requests == 0 {
		t.Errorf("left are %+v", r)
	}
}

func TestResultsAreHeldAgainstTheFileThatTheyWereMadeWith(t *testing.T) {
	e := &Experiment{Name: "e", Seed: 1, Trials: 2, Duration: 5 * time.Minute}
	r := &Results{Header: Header{Experiment: "e", Seed: 1, Trials: 2, DurationSeconds: 300}}
	if err := e.Made(r); err != nil {
		t.Error(err)
	}
	e.Duration = 2 * time.Hour
	if err := e.Made(r); err == nil || err.Error() != "duration: must be 5m, as the results were made with, was 2h" {
		t.Errorf("got %v", err)
	}
	if r.Options = []string{"--for", "5m"}; e.Made(r) != nil {
		t.Error("a flag that the results name is taken for an edited file")
	}
}

func TestProgressEndsWithAllOfIt(t *testing.T) {
	var last Progress
	parts := []float64{0}
	r := mustRun(t, minimal(t, Options{}), Options{Progress: func(p Progress) {
		last = p
		parts = append(parts, p.Part)
	}})
	requests := 0
	for _, run := range r.Runs {
		requests += run.Requests
	}
	if last.Done != 8 || last.Total != 8 || last.Requests != requests || math.Abs(last.Part-1) > 1e-9 {
		t.Errorf("ends with %+v, want 8 runs and %d requests", last, requests)
	}
	if !slices.IsSorted(parts) {
		t.Errorf("goes back: %v", parts)
	}
}

// Two clairvoyants with limits of their own have schedules of their own, whichever is first.
func TestASchedulesLimitsAreItsPolicys(t *testing.T) {
	e := minimal(t, Options{Users: []int{60}, Trials: 1})
	tight, wide := Policy{Name: "tight", Clairvoyant: true, MaxReplicas: 2}, Policy{Name: "wide", Clairvoyant: true}
	var got [2]map[string]Trial
	for i, policies := range [][]Policy{{tight, wide}, {wide, tight}} {
		e.Policies, got[i] = policies, map[string]Trial{}
		for _, run := range mustRun(t, e, Options{Parallel: 1}).Runs {
			got[i][run.Policy] = run
		}
	}
	if diff := cmp.Diff(got[0], got[1]); diff != "" {
		t.Error(diff)
	}
	if got[0]["tight"].PodMinutes >= got[0]["wide"].PodMinutes {
		t.Errorf("the limit does not count: %+v", got[0])
	}
}

func TestADeviceEachIsAMachineEach(t *testing.T) {
	e := minimal(t, Options{Users: []int{10}, Trials: 1})
	e.Policies, e.Workloads[0].Replicas = e.Policies[:1], Replicas{Min: 3, Max: 3, Start: 3}
	e.Policies[0].Nodes = &NodePolicy{Policy: "unneeded", spec: nodepolicy.Spec{Policy: "unneeded"}}
	if got := mustRun(t, e, Options{}).Runs[0].Orders; got != 0 {
		t.Errorf("%d machines were ordered for 3 pods that one holds", got)
	}
	device := map[string]pricing.Quantity{"nvidia.com/gpu": 1}
	e.Pools[0].Resources, e.Workloads[0].Resources = device, device
	if got := mustRun(t, e, Options{}).Runs[0].Orders; got != 2 {
		t.Errorf("%d machines were ordered for 3 pods that request the device of a machine each, want 2", got)
	}
}

func TestProgressIsANumberUnderAlmostNoLoad(t *testing.T) {
	e := minimal(t, Options{Trials: 1})
	e.Load = Load{Kind: sim.Open, Scenarios: []Scenario{{Name: "quiet", Curve: Curve{{Level: 0.4}}}}}
	mustRun(t, e, Options{Progress: func(p Progress) {
		if !(p.Part > 0 && p.Part < 1.001) {
			t.Errorf("%d of %d are a part of %v", p.Done, p.Total, p.Part)
		}
	}})
}

func TestALoadThatNeedsAPauseIsRefusedWithoutOne(t *testing.T) {
	e := minimal(t, Options{})
	e.Load.Kind, e.Load.Think = sim.Open, 0
	_, err := e.With(Options{Load: sim.Sleep})
	if want := `load: must be open, as the experiment has no load.think, was "sleep"`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestOptionsAreRefusedByNameRuleAndValue(t *testing.T) {
	e := minimal(t, Options{})
	for want, o := range map[string]Options{
		`policies: must be one of hpa, cost (did you mean hpa?), was "hap"`:       {Policies: []string{"hap"}},
		"users: must be at least 1, was -1":                                       {Users: []int{-1}},
		"parallel: must be at least 1, was -1":                                    {Parallel: -1},
		"for: must be whole seconds, was 500ms":                                   {Duration: 500 * time.Millisecond},
		"trials: must be at least 1, was -2":                                      {Trials: -2},
		"for: must be longer than 0s, was -1m":                                    {Duration: -time.Minute},
		`load: must be one of sleep, pace, open (did you mean pace?), was "pcae"`: {Load: "pcae"},
		`scenarios: must not be given for minimal, which has users, was [a]`:      {Scenarios: []string{"a"}},
	} {
		if _, err := e.With(o); err == nil || err.Error() != want {
			t.Errorf("%+v: got %v, want %s", o, err, want)
		}
	}
	e.Load.Scenarios = []Scenario{{Name: "a"}}
	if _, err := e.With(Options{Users: []int{3}}); err == nil || err.Error() != "users: must not be given for minimal, which has scenarios, was [3]" {
		t.Errorf("users for scenarios: %v", err)
	}
}

func TestTheReferenceIsOnlyForWhatItMeasured(t *testing.T) {
	e := minimal(t, Options{})
	e.Reference = &Reference{Tolerance: map[string]Share{"costUnits": 0.1}, Cells: []Cell{{Policy: "hpa", Users: 10, Values: map[string]float64{"costUnits": 1}}}}
	for name, c := range map[string]struct {
		o    Options
		want bool
	}{
		"as it is": {Options{}, true}, "with fewer trials": {Options{Trials: 1}, true},
		"under another load": {Options{Load: "pace"}, false}, "for another time": {Options{Duration: time.Minute}, false},
	} {
		if _, ok := e.Side(mustRun(t, e, c.o)); ok != c.want {
			t.Errorf("%s: compared is %v, want %v", name, ok, c.want)
		}
	}
}

// A number that came of a broken run must not be printed beside sound ones.
func TestWhatMustNotHappenFailsTheRun(t *testing.T) {
	step := func(code string) *loop.Step {
		return &loop.Step{ID: "d-000007", Time: midnight.Add(35 * time.Second), Problems: []podscaler.Reason{{Code: code, Text: "why"}}}
	}
	for _, code := range []string{loop.CodePlanRefused, loop.CodeCostUnknown, loop.CodeOrderLost, loop.CodeNoSuchWorkload} {
		if err := broken(step(code)); err == nil || err.Error() != "step d-000007 at 35s: "+code+": why" {
			t.Errorf("%s: %v", code, err)
		}
	}
	for _, code := range []string{loop.CodeLooking, loop.CodeMachinesUnknown, loop.CodeSignalsUnknown} {
		if err := broken(step(code)); err != nil {
			t.Errorf("%s, which faults may cause, fails the run: %v", code, err)
		}
	}
	// A host too small for the machines that a trial starts with breaks the world.
	e := minimal(t, Options{})
	e.Hosts[0].Memory = 1
	_, err := Run(t.Context(), e, Options{})
	if err == nil || !strings.Contains(err.Error(), "trial") || !strings.Contains(err.Error(), "no room on the host") {
		t.Errorf("a broken world is answered with %v", err)
	}
}

func TestTheBurstyLevelsComeFromTheirStatedSeed(t *testing.T) {
	data := must.Get(File("six-scenarios"))(t)
	e := must.Get(Parse(data))(t)
	i := slices.IndexFunc(e.Load.Scenarios, func(s Scenario) bool { return s.Name == "bursty" })
	var points []string
	rng, level := rand.New(rand.NewPCG(1, 0)), -1
	for at := time.Duration(0); at < time.Hour; {
		if level >= 0 {
			points = append(points, fmt.Sprintf("%s %d", pricing.Short(at), level))
		}
		level = 20 + rng.IntN(131)
		points = append(points, fmt.Sprintf("%s %d", pricing.Short(at), level))
		at += time.Duration(60+rng.IntN(241)) * time.Second
	}
	text := must.Get(e.Load.Scenarios[i].Curve.MarshalText())(t)
	if diff := cmp.Diff(strings.Join(points, ", "), string(text)); diff != "" {
		t.Error(diff)
	}
}

func BenchmarkSimulate(b *testing.B) {
	e := minimal(b, Options{Users: []int{100}, Trials: runtime.GOMAXPROCS(0)})
	requests := 0
	for b.Loop() {
		r := must.Get(Run(b.Context(), e, Options{}))(b)
		for _, run := range r.Runs {
			requests += run.Requests
		}
	}
	b.ReportMetric(float64(requests)/b.Elapsed().Seconds(), "requests/s")
}

// What equals the file's own value may still change the run: a duration takes the place of the
// scenarios' own, and so it is recorded.
func TestOptionsAreRecordedAsFlags(t *testing.T) {
	seed := uint64(7)
	o := Options{
		Users: []int{10, 60}, Scenarios: []string{"ramp"}, Policies: []string{"hpa60", "wait"}, Load: sim.Pace,
		Trials: 2, Duration: 90 * time.Second, Seed: &seed, Parallel: 4,
	}
	want := "--users 10,60 --scenarios ramp --policies hpa60,wait --load pace --trials 2 --for 1m30s --seed 7"
	if got := strings.Join(o.Flags(), " "); got != want {
		t.Errorf("recorded as %s, want %s", got, want)
	}
	if got := new(Options).Flags(); got != nil {
		t.Errorf("no options are recorded as %q", got)
	}
}

// The batch work is the same at both levels, which differ by the users of web.
func TestAWorkloadWithALoadOfItsOwnHasItAtEveryLevel(t *testing.T) {
	data := must.Get(readGood("batch-beside-web"))(t)
	e := must.Get(Parse(data))(t)
	for _, j := range e.loads() {
		web, batch := e.service(&e.Workloads[0], &j).Load, e.service(&e.Workloads[1], &j).Load
		if web.Kind != sim.Sleep || web.Level.Max() != float64(j.Level.Users) {
			t.Errorf("at %s web has %+v", j.Level, web)
		}
		if batch.Kind != sim.Open || batch.Level.Max() != 4 || batch.Level.At(30*time.Second) != 0 {
			t.Errorf("at %s batch has %+v", j.Level, batch)
		}
	}
}
