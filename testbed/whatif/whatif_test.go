package whatif

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/nodescaler/recording"
	"github.com/plimsoll/plimsoll/podscaler"
	podpolicy "github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/race"
	"github.com/plimsoll/plimsoll/testbed/sim"
)

var (
	weeks  = flag.Int("weeks", 3, "how many times TestPredictionsComeTrue lives through")
	length = flag.Duration("length", 4*time.Hour, "how long each of them is")
)

type file struct{ io.Writer }

func (file) Close() error { return nil }

// record runs a case, and is what its recording says.
func record(t *testing.T, c *Case) *Recorded {
	t.Helper()
	var segments []*bytes.Buffer
	tape := recording.Recorder{Open: func(time.Time) (io.WriteCloser, error) {
		segments = append(segments, &bytes.Buffer{})
		return file{segments[len(segments)-1]}, nil
	}}
	tape.Forget(recording.Nothing, c.Nodes)
	must.Get(c.Run(context.Background(), tape.Append))(t)
	must.Do(t, tape.Close())
	r := &Recorded{}
	for _, s := range segments {
		must.Do(t, recording.Read(s, r.Add))
	}
	return r
}

var start = time.Date(2026, time.June, 1, 6, 0, 0, 0, time.UTC)

// shops is a cluster that is drawn by chance: two services, whose users wait for answers or do not,
// and who come and go over the day. None of it is as the prediction takes it to be.
func shops(seed uint64, length time.Duration) *Case {
	rng := rand.New(rand.NewPCG(seed, 31))
	about := func(v, by float64) float64 { return v * (1 + by*(2*rng.Float64()-1)) }
	room := pricing.Resources{CPU: 16 * pricing.Core, Memory: 48 * pricing.GB}
	pool := nodescaler.Pool{
		Name: "worker", Min: 1, Max: 20, Reserved: pricing.Resources{CPU: 250, Memory: 500 * pricing.MB},
		Shapes: []pricing.Shape{
			{Name: "small", CPU: 2 * pricing.Core, Memory: 4 * pricing.GB, Disk: 20 * pricing.GB},
			{Name: "medium", CPU: 4 * pricing.Core, Memory: 8 * pricing.GB, Disk: 20 * pricing.GB},
		},
	}
	c := &Case{Length: length, Nodes: &nodepolicy.Spec{Policy: "joint"}}
	c.World = sim.Config{
		Seed: seed, Start: start, Tick: 10 * time.Second, Wake: true, MetricsEvery: 15 * time.Second,
		Pools: []nodescaler.Pool{pool}, Initial: map[string]int{"worker": 3}, Clones: 2,
		Delays: usual,
	}
	for _, name := range []string{"pve1", "pve2", "pve3"} {
		c.World.Hosts = append(c.World.Hosts, nodescaler.Host{Host: pricing.Host{Name: name, Room: room}, Online: true})
	}
	c.Intent = loop.Intent{Pools: c.World.Pools, Prices: &pricing.Book{Unit: "EUR", PerVCPU: 6000, PerGB: 1200}}
	pod := pricing.Resources{CPU: 500, Memory: 512 * pricing.MB}
	for i, kind := range []sim.Kind{sim.Sleep, sim.Open} {
		name := fmt.Sprintf("shop/%s", kind)
		var day sim.Curve
		for at := time.Duration(0); at <= length; at += 90 * time.Minute {
			hour := start.Add(at).Sub(start.Truncate(24 * time.Hour)).Hours()
			day = append(day, sim.Point{At: at, Level: about(26+18*math.Sin((hour-9)*math.Pi/12), .25) / float64(i+1)})
		}
		c.World.Workloads = append(c.World.Workloads, sim.Workload{
			Name: name, Replicas: 5, Requests: pod, Quota: pod.CPU, Concurrency: 64, Balance: sim.LeastOfTwo,
			Demand:      sim.Demand{Mean: time.Duration(about(60, .3)) * time.Millisecond, Spread: .3, Wait: time.Duration(rng.IntN(3)) * 20 * time.Millisecond},
			Unavailable: 2, Grace: 20 * time.Second,
			Load: sim.Load{Kind: kind, Level: day, Think: time.Second, Spread: time.Second},
		})
		slo := podscaler.SLO{Quantile: .9, Target: 400 * time.Millisecond, Window: time.Minute}
		c.Intent.Workloads = append(c.Intent.Workloads, loop.Workload{
			Workload: podscaler.Workload{Name: name, Min: 2, Max: 40, SLO: slo, Pod: pod, RunPeriod: 10 * time.Second},
			Policy:   podpolicy.Spec{Policy: "joint"},
		})
	}
	return c
}

func pointer[T any](v T) *T { return &v }

// changes are what is asked of the times, one after another.
var changes = []struct {
	name string
	Change
}{
	{"a wider objective", Change{Objective: &Objective{TargetMs: 800}}},
	{"another policy", Change{Policy: "hpa"}},
	{"a limit", Change{Limit: pointer(pricing.RateOf(45_000))}},
	{"another policy for machines", Change{NodePolicy: "unneeded"}},
	{"a larger pool", Change{Pools: map[string]Pool{"worker": {Min: pointer(5)}}}},
	{"one workload less", Change{Without: []string{"shop/open"}}},
	{"a narrower objective", Change{Workload: "shop/sleep", Objective: &Objective{TargetMs: 250}}},
}

// TestPredictionsComeTrue records times with some settings, predicts from the recording what they
// come to with others, and lives through them with those.
func TestPredictionsComeTrue(t *testing.T) {
	if race.On { // ten times as slow, and one goroutine
		*length = min(*length, time.Hour)
	}
	lived := make([]*life, *weeks)
	t.Cleanup(func() { together(t, lived) }) // all are over
	for i := range lived {
		change := &changes[i%len(changes)]
		t.Run(fmt.Sprintf("%d: %s", i, change.name), func(t *testing.T) {
			t.Parallel()
			was := shops(uint64(i+1), *length)
			r := record(t, was)
			r.Think = map[string]time.Duration{"shop/sleep": time.Second}
			predicted := must.Get(r.Ask(context.Background(), &change.Change))(t)
			is := must.Get(change.to(was))(t)
			truth := must.Get(is.Run(context.Background(), nil))(t)
			lived[i] = compare(t, predicted, truth)
			lived[i].change = change.name
		})
	}
}

// What a prediction may be off by.
const (
	mostMean = .05 // of the cost, over all times
	mostCost = .12 // of the cost of any time: how many machines are half empty is much by chance
	mostLate = .06 // of all requests
)

// life is what was predicted of a time, and what it came to.
type life struct {
	change           string
	predicted, lived float64 // costs
	said, late       float64 // late shares of the workload that is off by the most
}

// cost is what part of the cost the prediction is off by.
func (l *life) cost() float64 { return l.predicted/l.lived - 1 }

func compare(t *testing.T, predicted *Answer, truth *Outcome) *life {
	t.Helper()
	l := &life{predicted: predicted.Changed.Cost, lived: truth.Cost}
	t.Logf("cost: recorded %.4f, baseline %.4f, predicted %.4f, came to %.4f: off by %.1f %%",
		predicted.Recorded.Cost, predicted.Baseline.Cost, l.predicted, l.lived, 100*l.cost())
	if math.Abs(l.cost()) > mostCost {
		t.Errorf("the predicted cost is off by %.1f %%", 100*l.cost())
	}
	for i := range truth.Workloads {
		is, said := &truth.Workloads[i], &predicted.Changed.Workloads[i]
		t.Logf("%s: late share predicted %.4f, was %.4f; minutes over %d, were %d; replicas %.2f, were %.2f",
			is.Workload, *said.Late, *is.Late, *said.Over, *is.Over, said.Replicas, is.Replicas)
		if said.Workload != is.Workload || math.Abs(*said.Late-*is.Late) > mostLate {
			t.Errorf("the late share of %s is off by more than %g of all requests", is.Workload, mostLate)
		}
		if i == 0 || math.Abs(*said.Late-*is.Late) > math.Abs(l.said-l.late) {
			l.said, l.late = *said.Late, *is.Late
		}
	}
	return l
}

// together prints how far off the predictions of all times are, and holds their mean.
func together(t *testing.T, lived []*life) {
	t.Helper()
	var cost, late, mostCost, mostLate, n float64
	var table strings.Builder
	for i, l := range lived {
		if l == nil { // it was not asked for, or it failed
			continue
		}
		n++
		byCost, byLate := math.Abs(l.cost()), math.Abs(l.said-l.late)
		cost, late, mostCost, mostLate = cost+byCost, late+byLate, max(mostCost, byCost), max(mostLate, byLate)
		fmt.Fprintf(&table, "\n%3d  %-27s %8.3f %8.3f %+6.1f %% %8.2f %8.2f %+6.2f", i, l.change, l.predicted, l.lived, 100*l.cost(), 100*l.said, 100*l.late, 100*(l.said-l.late))
	}
	t.Logf("costs and late shares in %%, predicted and lived, of %.0f times of %s:%s\noff by: cost %.1f %% in the mean, %.1f %% at most; late share %.2f points in the mean, %.2f at most",
		n, *length, table.String(), 100*cost/n, 100*mostCost, 100*late/n, 100*mostLate)
	if cost/n > mostMean && int(n) == len(lived) { // of a few it is much by chance
		t.Errorf("the predicted costs are off by %.1f %% in the mean", 100*cost/n)
	}
}

// A change that says what is so already changes nothing, and a change leaves the case as it was.
func TestNoChangeIsNoDifference(t *testing.T) {
	r := record(t, shops(1, time.Hour))
	same := Change{Policy: "joint", NodePolicy: "joint", Objective: &Objective{Percentile: 90, TargetMs: 400}, Pools: map[string]Pool{"worker": {Min: pointer(1)}}}
	a := must.Get(r.Ask(context.Background(), &same))(t)
	if diff := cmp.Diff(a.Baseline, a.Changed); diff != "" {
		t.Errorf("the same settings come to something else:\n%s", diff)
	}
	if a.Baseline.Cost == 0 || len(a.Baseline.Workloads) != 2 || *a.Baseline.Workloads[0].Late >= 1 {
		t.Errorf("nothing was played: %+v", a.Baseline)
	}
	other := Change{Without: []string{"shop/open"}, Pools: map[string]Pool{"worker": {Min: pointer(4)}}}
	b := must.Get(r.Ask(context.Background(), &other))(t)
	if diff := cmp.Diff(a.Baseline, b.Baseline); diff != "" {
		t.Errorf("the baseline depends on the change:\n%s", diff)
	}
	if len(b.Changed.Workloads) != 1 || b.Changed.Machines < 3.9 {
		t.Errorf("the change was not made: %+v", b.Changed)
	}
}

// What cannot be played is refused, by what is wrong with it.
func TestRefusals(t *testing.T) {
	r := record(t, shops(1, 20*time.Minute))
	for _, one := range []struct {
		want string
		Change
	}{
		{`without: must be a workload of the recording, one of shop/sleep, shop/open, was "shop/db"`, Change{Without: []string{"shop/db"}}},
		{"objective.percentile: must be above 0 and below 100, was 100", Change{Objective: &Objective{Percentile: 100}}},
		{"objective.targetMs: must be above 0 and at most an hour, was -1", Change{Objective: &Objective{TargetMs: -1}}},
		{`pools: must be pools of the recording, of worker, was "spot"`, Change{Pools: map[string]Pool{"spot": {}}}},
		{"pools.worker: max must be min or more, and min 0 or more, were 20 and 21", Change{Pools: map[string]Pool{"worker": {Min: pointer(21)}}}},
		{"limit: must be 0 or more, was -0.000000001", Change{Limit: pointer(pricing.Rate(-1))}},
		{"prices.currency: must be EUR, that of the recording, was units", Change{Prices: pricing.DefaultBook()}},
		{"the changed settings: workload shop/sleep: ", Change{Policy: "slocost"}},
		{"the changed settings: node policy: ", Change{NodePolicy: "best"}},
	} {
		if _, err := r.Ask(context.Background(), &one.Change); err == nil || !strings.HasPrefix(err.Error(), one.want) {
			t.Errorf("%+v: want an error that begins with %q, got %v", one.Change, one.want, err)
		}
	}
}

// A load that was not recorded is not made up.
func TestGapsAreRefused(t *testing.T) {
	r := &Recorded{}
	at := func(minute int) *recording.Moment {
		return &recording.Moment{Observation: loop.Observation{Time: start.Add(time.Duration(minute) * time.Minute)}}
	}
	for _, minute := range []int{0, 10, 25} {
		must.Do(t, r.Add(at(minute)))
	}
	if err := r.Add(at(41)); err == nil || !strings.Contains(err.Error(), "what was not recorded is not made up") {
		t.Errorf("a gap of 16 minutes: %v", err)
	}
}
