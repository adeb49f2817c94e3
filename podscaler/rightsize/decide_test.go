package rightsize

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/pricing"
	_ "github.com/plimsoll/plimsoll/testbed/seeded"
)

// web is a recommendation of 500m and 800Mi, between 300m, 400Mi and 900m, 1600Mi.
var web = Recommendation{
	Container: "web", Resources: both,
	Target: pair(500, 800), Lower: pair(300, 400), Upper: pair(900, 1600), Uncapped: pair(500, 800),
}

func podOf(requests, limits pricing.Resources) Pod {
	return Pod{Running: true, Started: after(-13 * time.Hour), Containers: []Container{{Name: "web", Requests: requests, Limits: limits}, {Name: "proxy", Requests: pair(10, 10)}}}
}

func TestDecide(t *testing.T) {
	inPlace := []Recommendation{web}
	cpuOnly := []Recommendation{{Container: "web", Resources: []Resource{CPU}, Target: pair(500, 0), Lower: pair(300, 0), Upper: pair(900, 0)}}
	change := func(requests, limits pricing.Resources) []Change {
		return []Change{{Container: "web", Requests: requests, Limits: limits}}
	}
	for _, c := range []struct {
		name        string
		mode        Mode
		recommended []Recommendation
		pod         Pod
		but         func(*Pod)
		want        Action
		changes     []Change
		reason      string
	}{
		{
			"by default it only recommends", "", inPlace, podOf(pair(100, 100), pair(0, 0)), nil, None, change(pair(500, 800), pair(0, 0)),
			"ModeOff: recommendations are shown and not carried out: container web requests 500m and 800Mi",
		},
		{
			"Initial leaves what runs", Initial, inPlace, podOf(pair(100, 100), pair(0, 0)), nil, None, change(pair(500, 800), pair(0, 0)),
			"ModeInitial: requests are set as pods are created, and it runs already: container web requests 500m and 800Mi",
		},
		{
			"Initial sets what is created", Initial, inPlace, podOf(pair(100, 100), pair(0, 0)), func(p *Pod) { p.Running = false }, SetOnCreate, change(pair(500, 800), pair(0, 0)),
			"Created: it is created with what is recommended: container web requests 500m and 800Mi",
		},
		{
			"and so does InPlace, of a pod without requests, too", InPlace, inPlace, Pod{Containers: []Container{{Name: "web"}}}, nil, SetOnCreate, change(pair(500, 800), pair(0, 0)),
			"Created: it is created with what is recommended: container web requests 500m and 800Mi",
		},
		{
			"nothing is known", InPlace, []Recommendation{{Container: "web"}, {Container: "other", Resources: both}}, podOf(pair(1, 1), pair(1, 1)), nil, None, nil,
			"NoRecommendation: nothing is recommended for any of its containers",
		},
		{
			"out of bounds is resized at once", InPlace, inPlace, podOf(pair(500, 1700), pair(0, 0)), func(p *Pod) { p.Started = noon }, Resize, change(pair(500, 800), pair(0, 0)),
			"OutsideBounds: container web requests 1700Mi of memory, which is not within 400Mi and 1600Mi",
		},
		{
			"limits keep their proportion, rounded up", InPlace, inPlace, podOf(pair(299, 800), pair(500, 1000)), nil, Resize, change(pair(500, 800), pair(837, 1000)),
			"OutsideBounds: container web requests 299m of cpu, which is not within 300m and 900m",
		},
		{
			"a limit alone is the request as well", InPlace, inPlace, podOf(pair(0, 0), pair(200, 800)), nil, Resize, change(pair(500, 0), pair(500, 800)),
			"OutsideBounds: container web requests 200m of cpu, which is not within 300m and 900m",
		},
		{
			"what is not recommended stays as it is", InPlace, cpuOnly, podOf(pair(100, 5000), pair(0, 0)), nil, Resize, change(pair(500, 5000), pair(0, 0)),
			"OutsideBounds: container web requests 100m of cpu, which is not within 300m and 900m",
		},
		{
			"a young pod within bounds is left alone", InPlace, inPlace, podOf(pair(850, 800), pair(0, 0)), func(p *Pod) { p.Started = after(-11 * time.Hour) }, None, change(pair(500, 800), pair(0, 0)),
			"WithinBounds: all requests are within bounds; for 41 % of difference in all, it is resized from 10 % on when it is 12h old",
		},
		{
			"nobody knows how old it is", InPlace, inPlace, podOf(pair(850, 800), pair(0, 0)), func(p *Pod) { p.Started = time.Time{} }, None, change(pair(500, 800), pair(0, 0)),
			"WithinBounds: all requests are within bounds; for 41 % of difference in all, it is resized from 10 % on when it is 12h old",
		},
		{
			"an old one is resized for much", InPlace, inPlace, podOf(pair(850, 800), pair(0, 0)), nil, Resize, change(pair(500, 800), pair(0, 0)),
			"Drifted: requests differ by 41 % in all, and it is 13h old",
		},
		{
			"and not for little", InPlace, inPlace, podOf(pair(510, 810), pair(0, 0)), nil, None, change(pair(500, 800), pair(0, 0)),
			"WithinBounds: all requests are within bounds; for 3 % of difference in all, it is resized from 10 % on when it is 12h old",
		},
		{
			"it died of it just now", InPlace, inPlace, podOf(pair(500, 700), pair(0, 0)), func(p *Pod) {
				p.Started = after(-time.Hour)
				p.Containers[0].OOMStarted, p.Containers[0].OOMEnded = after(-10*time.Minute), after(-2*time.Minute)
			}, Resize, change(pair(500, 800), pair(0, 0)), "QuickOOM: container web was killed for memory 8m after it started",
		},
		{
			"it died of it long ago", InPlace, inPlace, podOf(pair(500, 700), pair(0, 0)), func(p *Pod) {
				p.Started = after(-time.Hour)
				p.Containers[0].OOMStarted, p.Containers[0].OOMEnded = after(-20*time.Minute), after(-12*time.Minute)
			}, None, change(pair(500, 800), pair(0, 0)), "WithinBounds: all requests are within bounds; for 14 % of difference in all, it is resized from 10 % on when it is 12h old",
		},
		{"it has it", InPlace, inPlace, podOf(pair(500, 800), pair(0, 0)), nil, None, nil, "Unchanged: it has what is recommended"},
		{
			"the last resize is not done", InPlace, inPlace, podOf(pair(100, 100), pair(0, 0)), func(p *Pod) { p.Resize = ResizePending }, None, change(pair(500, 800), pair(0, 0)),
			"ResizePending: its last resize is not done yet",
		},
		{
			"the node cannot hold it, and more is wanted", InPlace, inPlace, podOf(pair(100, 100), pair(0, 0)), func(p *Pod) { p.Resize = ResizeInfeasible }, None, change(pair(500, 800), pair(0, 0)),
			"ResizeInfeasible: its node cannot hold what it was last resized to, and no less is recommended now",
		},
		{
			"the node cannot hold it, and less is wanted", InPlace, inPlace, podOf(pair(1000, 800), pair(0, 0)), func(p *Pod) { p.Resize = ResizeInfeasible }, Resize, change(pair(500, 800), pair(0, 0)),
			"OutsideBounds: container web requests 1 of cpu, which is not within 300m and 900m",
		},
		{
			"Auto evicts what its node can never hold, which asks for it already", Auto, inPlace, podOf(pair(500, 800), pair(0, 0)), func(p *Pod) { p.Resize = ResizeInfeasible }, Evict, nil,
			"ResizeInfeasible: its node can never hold what it was last resized to",
		},
		{
			"and what is to have still more", Auto, inPlace, podOf(pair(100, 100), pair(0, 0)), func(p *Pod) { p.Resize = ResizeInfeasible }, Evict, change(pair(500, 800), pair(0, 0)),
			"ResizeInfeasible: its node can never hold what it was last resized to",
		},
		{
			"but not where less is wanted, which the node may hold", Auto, inPlace, podOf(pair(1000, 800), pair(0, 0)), func(p *Pod) { p.Resize = ResizeInfeasible }, Resize, change(pair(500, 800), pair(0, 0)),
			"OutsideBounds: container web requests 1 of cpu, which is not within 300m and 900m",
		},
		{
			"nor what waits for room for less than five minutes", Auto, inPlace, podOf(pair(100, 100), pair(0, 0)), func(p *Pod) { p.Resize, p.ResizeSince = ResizeDeferred, after(-5*time.Minute+1) }, None, change(pair(500, 800), pair(0, 0)),
			"ResizePending: its last resize is not done yet",
		},
		{
			"after which it does", Auto, inPlace, podOf(pair(500, 800), pair(0, 0)), func(p *Pod) { p.Resize, p.ResizeSince = ResizeDeferred, after(-5*time.Minute) }, Evict, nil,
			"ResizeDeferred: its node has had no room for its last resize for 5m",
		},
		{
			"unless it is not known since when", Auto, inPlace, podOf(pair(500, 800), pair(0, 0)), func(p *Pod) { p.Resize = ResizeDeferred }, None, nil,
			"Unchanged: it has what is recommended",
		},
		{
			"nor what does not run yet", Auto, inPlace, podOf(pair(500, 800), pair(0, 0)), func(p *Pod) { p.Running, p.Resize = false, ResizeInfeasible }, None, nil,
			"Unchanged: it has what is recommended",
		},
		{
			"a sidecar is a container", InPlace, []Recommendation{{Container: "proxy", Resources: []Resource{CPU}, Target: pair(50, 0), Lower: pair(40, 0), Upper: pair(60, 0)}}, podOf(pair(1, 1), pair(0, 0)),
			func(p *Pod) { p.Containers[1].Sidecar = true }, Resize, []Change{{Container: "proxy", Sidecar: true, Requests: pair(50, 10)}},
			"OutsideBounds: container proxy requests 10m of cpu, which is not within 40m and 60m",
		},
		{
			"it has no requests at all", InPlace, inPlace, Pod{Running: true, Containers: []Container{{Name: "web"}, {Name: "proxy"}}}, nil, None, change(pair(500, 800), pair(0, 0)),
			"QoSFixed: it has neither requests nor limits, and a resize may not give it the first ones: set them in its template",
		},
		{
			"a restart that comes with it is told", InPlace, inPlace, podOf(pair(500, 200), pair(0, 0)), func(p *Pod) { p.Containers[0].Restarts = both }, Resize, change(pair(500, 800), pair(0, 0)),
			"OutsideBounds: container web requests 200Mi of memory, which is not within 400Mi and 1600Mi\nRestarts: container web restarts with it: its resize policy for memory says so",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.but != nil {
				c.but(&c.pod)
			}
			got := Decide(noon, c.mode, c.recommended, &c.pod)
			if got.Action != c.want {
				t.Errorf("the action is %s, want %s", got.Action, c.want)
			}
			if d := cmp.Diff(c.changes, got.Changes); d != "" {
				t.Errorf("changes (-want +got):\n%s", d)
			}
			if d := cmp.Diff(c.reason, reasons(got.Reasons)); d != "" {
				t.Errorf("reasons (-want +got):\n%s", d)
			}
		})
	}
}

// Nothing but InPlace touches a pod that runs, and no limit is ever below its request, nor changes
// a pod that has it all equal into one that has not.
func TestDecisionsKeepTheirPromises(t *testing.T) {
	amounts := func(t *rapid.T, name string) pricing.Resources {
		return pair(rapid.Int64Range(0, 3000).Draw(t, name+" cpu"), rapid.Int64Range(0, 3000).Draw(t, name+" memory"))
	}
	rapid.Check(t, func(t *rapid.T) {
		requests := amounts(t, "requests")
		limits := requests
		if rapid.Bool().Draw(t, "burstable") {
			limits = requests.Plus(amounts(t, "more"))
		}
		pod := Pod{
			Running:     rapid.Bool().Draw(t, "running"),
			Resize:      rapid.SampledFrom([]ResizeState{ResizeDone, ResizePending, ResizeDeferred, ResizeInfeasible}).Draw(t, "resize"),
			ResizeSince: noon.Add(-time.Duration(rapid.IntRange(0, 10).Draw(t, "since")) * time.Minute),
			Containers:  []Container{{Name: "web", Requests: requests, Limits: limits}},
		}
		mode := rapid.SampledFrom([]Mode{"", Off, Initial, InPlace, Auto, "Recreate"}).Draw(t, "mode")
		target := amounts(t, "target").Plus(pair(1, 1))
		rec := Recommendation{Container: "web", Resources: both, Target: target, Lower: target, Upper: target}
		d := Decide(noon, mode, []Recommendation{rec}, &pod)
		if len(d.Reasons) == 0 {
			t.Error("there is no reason")
		}
		if d.Action == Resize && (!mode.Acts() || !pod.Running || pod.waiting()) ||
			d.Action == Evict && (mode != Auto || !pod.Running || pod.Resize != ResizeInfeasible && pod.Resize != ResizeDeferred) ||
			d.Action == SetOnCreate && (!mode.sets() || pod.Running) {
			t.Errorf("in mode %q, running %t, resize %q, the action is %s", mode, pod.Running, pod.Resize, d.Action)
		}
		for _, c := range d.Changes {
			for _, r := range both {
				if limit := r.of(c.Limits); limit != 0 && limit < r.of(c.Requests) {
					t.Errorf("the limit of %s is %d, and the request %d", r, limit, r.of(c.Requests))
				}
				if r.of(requests) > 0 && limits == requests && r.of(c.Limits) != r.of(c.Requests) {
					t.Errorf("%s was guaranteed, and is %d of %d", r, r.of(c.Requests), r.of(c.Limits))
				}
			}
		}
	})
}

// A new start knows little, and takes nothing away by that: no recommendation is below what a pod
// requests. With a day known it may be.
func TestWithLessThanADayKnownNothingIsTakenAway(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amounts := func(name string) pricing.Resources {
			return pair(rapid.Int64Range(1, 2000).Draw(t, name+" cpu"), rapid.Int64Range(1, 2000).Draw(t, name+" memory"))
		}
		rec := Recommendation{Container: "web", Resources: both, Target: amounts("target"), Lower: pair(1, 1), Upper: amounts("upper")}
		pod := podOf(amounts("requests"), pair(0, 0))
		had := pod.Containers[0].Requests
		if d := Decide(noon, InPlace, Upward([]Recommendation{rec}, &pod), &pod); !cmp.Equal(d, Decide(noon, InPlace, []Recommendation{rec}, &pod)) {
			t.Fatalf("with a day known it is something else: %+v", d)
		}
		rec.Reasons = []Reason{{Code: ReasonLittleHistory}}
		given := rec
		d := Decide(noon, InPlace, Upward([]Recommendation{rec}, &pod), &pod)
		for _, c := range d.Changes {
			if c.Requests.CPU < had.CPU || c.Requests.Memory < had.Memory {
				t.Fatalf("%+v of %+v", c, had)
			}
		}
		if d.Action == Resize && len(d.Changes) == 0 {
			t.Fatalf("resized to what it has: %+v", d)
		}
		if !cmp.Equal(given, rec) {
			t.Fatalf("what was handed in has changed: %+v", rec)
		}
	})
}
