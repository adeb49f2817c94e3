package policy

import (
	"cmp"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/capacity"
	"github.com/plimsoll/plimsoll/pricing"
)

// world is a service as it is: what is seen of six pods of half a core at a run.
type world struct {
	demand  float64 // CPU of a request, in seconds
	rate    float64
	latency float64
	flying  float64
	age     time.Duration // of the samples of CPU, which have no time if it is negative
	lead    time.Duration // of machines
	busiest float64       // cores of each pod, unless it is what requests take
	slow    float64       // part of the requests that misses the objective
}

// believed is what joint takes for granted.
var believed = world{demand: 0.05, rate: 30, latency: 0.2, flying: 4, age: 10 * time.Second, lead: 100 * time.Second}

func (w *world) view(wl *podscaler.Workload, now time.Time) *podscaler.View {
	v := &podscaler.View{Now: now, Workload: wl, Replicas: 6, Pods: make([]podscaler.Pod, 6)}
	cpu, at := w.busiest, now.Add(-w.age)
	if w.age < 0 {
		at = time.Time{}
	}
	if cpu == 0 {
		cpu = w.rate * w.demand / 6
	}
	for i := range v.Pods {
		v.Pods[i] = podscaler.Pod{
			Phase: podscaler.Running, Ready: true, ReadyChanged: start,
			CPU: podscaler.Sample{Known: true, Value: cpu, At: at, Span: 15 * time.Second},
		}
	}
	v.Window = podscaler.Window{
		Latency: podscaler.Known(w.latency), Good: podscaler.Known(1 - w.slow), Arrivals: podscaler.Known(w.rate), InFlight: podscaler.Known(w.flying),
	}
	v.Room.MachineLead = w.lead
	return v
}

// unlearned is a joint policy that has seen nothing.
func unlearned(t *testing.T) *joint {
	t.Helper()
	p, err := newJoint(Joint{})
	if err != nil {
		t.Fatal(err)
	}
	return p.(*joint)
}

// shop is a workload whose pods request so many millicores.
func shop(cpu pricing.MilliCPU) *podscaler.Workload {
	return &podscaler.Workload{
		Name: "shop/web", Min: 1, Max: 100, Pod: pricing.Resources{CPU: cpu},
		SLO: podscaler.SLO{Quantile: 0.9, Target: 300 * time.Millisecond, Window: time.Minute},
	}
}

// watched has a joint policy watch one world after the other, for so long each, and returns for each what it said at
// the end of it that its model was off in.
func watched(t *testing.T, long time.Duration, worlds ...world) [][]string {
	t.Helper()
	p, wl := unlearned(t), shop(500)
	now := start
	said := make([][]string, len(worlds))
	for i := range worlds {
		var r podscaler.Recommendation
		for end := now.Add(long); now.Before(end); now = now.Add(15 * time.Second) {
			r = p.Desired(worlds[i].view(wl, now))
		}
		for _, x := range r.Reasons {
			if x.Code == podscaler.ReasonModelOff {
				said[i] = append(said[i], x.Text)
			}
		}
	}
	return said
}

func TestJointSaysWhichOfItsBeliefsIsWrong(t *testing.T) {
	for _, c := range []struct {
		name string
		is   func(w *world)
		want string // begins what is said; nothing is
	}{
		{"as believed", func(*world) {}, ""},
		{"a little slower", func(w *world) { w.latency *= 1.3 }, ""},
		{"far slower", func(w *world) { w.latency *= 2 }, "response times are 2.0 times those of pods that share 0.5 cores each"},
		{"far quicker", func(w *world) { w.latency /= 2 }, ""},
		{"far slower, and nobody minds", func(w *world) { w.demand, w.rate, w.latency = 0.005, 300, 0.05 }, ""},
		{"a heavy tail", func(w *world) { w.slow = 0.045 }, "of the slowest 10 % of the answers 26 % take at least twice as long as the quickest of them"},
		{"a tail that falls as of chance", func(w *world) { w.slow = 0.03 }, ""},
		{"large requests", func(w *world) { w.demand, w.rate, w.latency = 0.1, 12, 0.28 }, "a request takes 100 ms of cpu, which is 67 % of the objective on an idle pod of 0.5 cores"},
		{"full pods use less than they request", func(w *world) { w.busiest, w.rate, w.latency, w.flying = 0.35, 42, 0.9, 60 }, "full pods use 0.35 cores and request 0.5"},
		{"full pods use a little less", func(w *world) { w.busiest, w.rate, w.latency, w.flying = 0.42, 50, 0.9, 60 }, ""},
		{"full pods use more", func(w *world) { w.busiest, w.rate, w.latency, w.flying = 0.8, 90, 0.9, 60 }, ""},
		{"measured a minute late", func(w *world) { w.age += time.Minute }, "the newest that is measured of what pods use is 55s older than it should be"},
		{"measured a little late", func(w *world) { w.age += 20 * time.Second }, ""},
		{"samples without a time", func(w *world) { w.age = -1 }, ""},
		{"slow machines", func(w *world) { w.lead = 5 * time.Minute }, "machines take up to 5m to carry replicas, where 2m was believed"},
		{"machines that are a little slow", func(w *world) { w.lead = 3 * time.Minute }, ""},
		{"machines of which nothing is known", func(w *world) { w.lead = 0 }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := believed
			c.is(&w)
			got := watched(t, 20*time.Minute, w)[0]
			if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], c.want)) {
				t.Errorf("says %q, should say %q", got, c.want)
			}
		})
	}
}

// A belief that is right again is no longer said to be wrong, and one that is wrong for a moment never is.
func TestJointSaysWhatIsWrongForAsLongAsItIs(t *testing.T) {
	slow := believed
	slow.latency *= 2
	said := watched(t, 20*time.Minute, believed, slow, believed)
	if len(said[0]) != 0 || len(said[1]) != 1 || len(said[2]) != 0 {
		t.Errorf("before, while and after response times were slow: %q", said)
	}
	if said := watched(t, 2*time.Minute, believed, believed, believed, slow); len(said[3]) != 0 {
		t.Errorf("after two minutes of slow response times: %q", said[3])
	}
}

// Nothing can tell the demand that a service has always had from another; one that changes can be told.
func TestJointSaysThatRequestsTakeMoreThanTheyDid(t *testing.T) {
	more, bit := believed, believed
	more.demand, more.rate, more.latency = 0.075, 18, 0.21
	bit.demand = 0.06
	hours := []world{believed, believed, believed, believed}
	said := watched(t, 20*time.Minute, append(hours, more)...)
	if len(said[3]) != 0 || len(said[4]) != 1 || !strings.HasPrefix(said[4][0], "a request takes 7") {
		t.Errorf("requests took 50 ms, and take 75: %q", said)
	}
	if said := watched(t, 20*time.Minute, append(hours, bit)...); len(said[4]) != 0 {
		t.Errorf("requests took 50 ms, and take 60: %q", said[4])
	}
	night := believed
	night.rate, night.flying, night.latency = 0.5, 0, 0.11
	if said := watched(t, 20*time.Minute, append(hours, night, more)...); !strings.Contains(strings.Join(said[5], "\n"), "of cpu, and took 5") {
		t.Errorf("requests took 50 ms before the night, and take 75 after: %q", said)
	}
	if said := watched(t, 4*time.Hour, believed, more); len(said[1]) != 0 {
		t.Errorf("hours after: %q", said[1])
	}
}

func TestABeliefIsJudgedByEnoughAndDoesNotFlap(t *testing.T) {
	var b belief
	at := start
	see := func(runs int, v float64) bool {
		for range runs {
			at = at.Add(15 * time.Second)
			b.see(at, v, 0.25)
			b.judge(at, turn{2, 1.5})
		}
		return b.said
	}
	for i, c := range []struct {
		runs int
		v    float64
		want bool
	}{
		{19, 4, false}, // four windows and three quarters
		{1, 4, true},
		{200, 1.8, true}, // between the two
		{200, 1.4, false},
		{200, 1.8, false},
		{200, 2.1, true},
		{4, math.NaN(), true}, {4, math.Inf(1), true}, {4, 0, true}, {4, -1, true}, // tell nothing
	} {
		if got := see(c.runs, c.v); got != c.want {
			t.Errorf("step %d: said %v, should be %v", i+1, got, c.want)
		}
	}
	for range 4 * 60 { // values that tell nothing are no sight of it
		at = at.Add(15 * time.Second)
		b.see(at, 0, 0.25)
		b.judge(at, turn{2, 1.5})
	}
	if b.said {
		t.Error("is said after an hour of nothing that tells of it")
	}
	see(20, 4)
	if b.judge(at.Add(time.Hour), turn{2, 1.5}); b.said {
		t.Error("is said of what nothing was seen of for an hour")
	}
}

func TestATailIsToldByWhatMissesTheObjective(t *testing.T) {
	as := capacity.Seen{Latency: 0.15, Arrivals: 30, Steady: true}
	moving, queued, near, short, rare, unmeasured := as, as, as, as, as, as
	moving.Steady, queued.Queued, near.Latency, short.Latency, rare.Arrivals, unmeasured.Latency = false, true, 0.25, 0.03, 0.3, math.NaN()
	short.Arrivals = 3000
	for _, c := range []struct {
		name   string
		seen   capacity.Seen
		slow   float64       // part of the requests that misses the objective
		within time.Duration // in place of its target
		errors float64
		lower  float64 // the quantile is
		want   float64 // 0 is not known
	}{
		{name: "a quarter takes twice as long", seen: as, slow: 0.025, want: 0.25},
		{name: "all of them take twice as long", seen: as, slow: 0.1},
		{name: "one in fifty", seen: as, slow: 0.002, want: 0.02},
		{name: "as good as none", seen: as, slow: 0.0001, want: 0.02},
		{name: "none at all", seen: as, want: 0.02},
		{name: "nine in ten of those that are counted up to 225 ms", seen: as, slow: 0.05, within: 225 * time.Millisecond, want: math.Exp2(-math.Log(2) / math.Log(1.5))},
		{name: "while the load changes", seen: moving, slow: 0.025},
		{name: "of a queue", seen: queued, slow: 0.025},
		{name: "of answers that all but miss it", seen: near, slow: 0.05},
		{name: "of answers that are far from missing it", seen: short, slow: 0.001},
		{name: "of a few requests", seen: rare, slow: 0.025},
		{name: "where they are not measured", seen: unmeasured, slow: 0.025},
		{name: "of more than there can be", seen: as, slow: 1.5},
		{name: "of fewer than there can be", seen: as, slow: -0.1, want: 0.02},
		{name: "of no number", seen: as, slow: math.NaN()},
		{name: "where errors may be what is not good", seen: as, slow: 0.025, errors: 0.02},
		{name: "where a few are errors", seen: as, slow: 0.025, errors: 0.001, want: 0.25},
		{name: "of a lower quantile", seen: as, slow: 0.025, lower: 0.75},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := believed.view(&podscaler.Workload{SLO: podscaler.SLO{Quantile: cmp.Or(c.lower, 0.9), Target: 300 * time.Millisecond, Window: time.Minute}}, start)
			v.Window.Good, v.Window.GoodWithin, v.Window.Errors = podscaler.Known(1-c.slow), c.within, podscaler.Known(c.errors)
			got, known := tail(v, &c.seen)
			if known != (c.want > 0) || known && math.Abs(got-c.want) > 1e-9 {
				t.Errorf("%.4f of those beyond the quantile take twice as long (known %v), should be %.4f", got, known, c.want)
			}
		})
	}
}
