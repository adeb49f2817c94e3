package main

import (
	"context"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll/plimsoll/pricing"
)

func TestAWorldIsAlwaysTheSame(t *testing.T) {
	for _, row := range rowNames {
		for _, shapes := range []int{20, 400} {
			s := setting{row, 300, shapes, 0}
			a, b := newWorld(s), newWorld(s)
			if len(a.pods) != 300 || len(a.offers) != shapes {
				t.Errorf("%s: %d pods and %d shapes", s, len(a.pods), len(a.offers))
			}
			if !reflect.DeepEqual(a, b) {
				t.Errorf("%s: two worlds differ", s)
			}
			names := map[string]bool{}
			for i := range a.offers {
				o := &a.offers[i]
				names[o.Name] = true
				linear := float64(o.CPU)/1000*float64(perVCPU) + float64(o.Memory)/float64(pricing.GiB)*float64(perGiB)
				if more := float64(o.price)/linear - 1; more < -0.001 || more > varies/100. || shapes == 20 && more > 0.001 {
					t.Errorf("%s: %s costs %.3f more than its parts", s, o.Name, more)
				}
			}
			if len(names) != shapes {
				t.Errorf("%s: %d names", s, len(names))
			}
		}
	}
}

func TestAMachineCostsWhatItsShapeDoesAndWhatHavingItDoes(t *testing.T) {
	free, dear := newWorld(setting{"plain", 1, 400, 0}), newWorld(setting{"plain", 1, 400, pricing.Unit / 20})
	book, types := dear.book(), dear.instanceTypes()
	for i := range dear.offers {
		o, want := &dear.offers[i], free.offers[i].price+pricing.Unit/20
		if got := book.Rate(o.Shape, zones[0], time.Time{}); o.price != want || got != pricing.RateOf(want) || types[i].Offerings[0].Price != float64(want)/1e6 {
			t.Errorf("%s costs us %s and Karpenter %v, want %s", o.Name, got, types[i].Offerings[0].Price, want)
		}
	}
}

// Both plan each row so that the scheduler has nothing against it. Karpenter may leave pods with an
// affinity waiting.
func TestPlansAreJudged(t *testing.T) {
	for _, row := range rowNames {
		for who, plan := range players {
			w := newWorld(setting{row, 60, 20, 0})
			machines, err := plan(w, t.Context())
			if err != nil {
				t.Fatalf("%s, %s: %v", row, who, err)
			}
			v, err := w.judge(t.Context(), machines)
			if err != nil || v.Violations > 0 || v.Placed == 0 {
				t.Errorf("%s, %s: %+v, %v", row, who, v, err)
			}
			if v.Placed != 60 && !(row == "affinity" && who == "karpenter") {
				t.Errorf("%s, %s: %d placed", row, who, v.Placed)
			}
		}
	}
}

// Each filter refuses a plan that breaks its rule, and nothing else does.
func TestTheJudgeFindsWhatIsWrong(t *testing.T) {
	large := newWorld(setting{"plain", 1, 20, 0}).offers[19]
	small := newWorld(setting{"plain", 1, 20, 0}).offers[0]
	in := func(zone string, replicas ...string) machine { return machine{large, zone, "ssd", replicas} }
	for _, c := range []struct {
		name  string
		dress func(*app)
		plan  []machine
		want  map[string]int
	}{
		{"room for both", func(*app) {}, []machine{in("a", "0", "1")}, map[string]int{}},
		{"no room for two", func(*app) {}, []machine{{small, "a", "ssd", []string{"0", "1"}}}, map[string]int{"NodeResourcesFit": 2}},
		{"another zone", func(a *app) { a.inZones("b") }, []machine{in("a", "0"), in("b", "1")}, map[string]int{"NodeAffinity": 1}},
		{"one zone of several", func(a *app) { a.inZones("b", "c") }, []machine{in("c", "0"), in("b", "1")}, map[string]int{}},
		{"a port twice", (*app).port, []machine{in("a", "0", "1")}, map[string]int{"NodePorts": 2}},
		{"together", (*app).apart, []machine{in("a", "0", "1")}, map[string]int{"InterPodAffinity": 2}},
		{"apart", (*app).apart, []machine{in("a", "0"), in("a", "1")}, map[string]int{}},
		{"apart, and to be in one zone", (*app).oneZone, []machine{in("a", "0"), in("b", "1")}, map[string]int{"InterPodAffinity": 2}},
		{"the first of an app has no other to go to", (*app).oneZone, []machine{in("a", "0")}, map[string]int{}},
		{"a zone with two more than another", (*app).spreadsOverZones, []machine{in("a", "0", "1"), in("b")}, map[string]int{"PodTopologySpread": 2}},
		{"evenly spread", (*app).spreadsOverZones, []machine{in("a", "0"), in("b", "1")}, map[string]int{}},
		{"a volume in another zone", (*app).volumesInZones, []machine{in("a", "0", "1")}, map[string]int{"VolumeBinding": 1}},
		{"volumes in their zones", (*app).volumesInZones, []machine{in("a", "0"), in("b", "1")}, map[string]int{}},
	} {
		w := pairOf(c.dress)
		for i := range c.plan {
			for j, replica := range c.plan[i].pods {
				c.plan[i].pods[j] = namespace + "/app-0-0" + replica
			}
		}
		v, err := w.judge(t.Context(), c.plan)
		if err != nil || !reflect.DeepEqual(v.By, c.want) {
			t.Errorf("%s: %+v, %v", c.name, v, err)
		}
	}
	if _, err := pairOf((*app).apart).judge(t.Context(), []machine{in("a", "no-such-pod")}); err == nil {
		t.Error("a plan with a pod of nowhere is judged")
	}
}

// pairOf is a world of an app with two replicas of one vCPU.
func pairOf(dress func(*app)) *world {
	w := &world{}
	a := &app{world: w, Rand: newRand(1, 1), name: "app-0"}
	for i := range 2 {
		a.replicas = append(a.replicas, a.replica(i, list(1000, int64(pricing.GiB/2))))
		delete(a.replicas[i].Spec.Containers[0].Resources.Requests, corev1.ResourcePods)
	}
	dress(a)
	w.pods = a.replicas
	return w
}

func TestAimsAndTable(t *testing.T) {
	r := func(placed, machines int, cost pricing.Micros, cpu time.Duration) *result {
		return &result{verdict: verdict{Placed: placed}, Machines: machines, Cost: cost, CPU: cpu}
	}
	bad := r(1000, 10, 100, time.Second)
	bad.Violations = 3
	theirs, late := r(1000, 10, 100, 20*time.Second), &result{Unfinished: true, CPU: 40 * time.Second}
	var sum tally
	for _, c := range []struct {
		pods         int
		theirs, ours *result
		want         string
	}{
		{1000, theirs, r(1000, 13, 100, time.Second), "20× | pass"},
		{1000, theirs, r(1000, 14, 101, 2*time.Second), "10× | miss: cost machines speed"},
		{999, theirs, r(1000, 10, 100, 2*time.Second), "10× | pass"},
		{1000, theirs, r(900, 1, 1, time.Second), "20× | miss: placed"},
		{1000, theirs, bad, "20× | miss: violations"},
		{1000, late, r(1000, 10, 100, time.Second), "≥ 40× | pass; Karpenter did not finish"},
		{1000, late, r(999, 10, 100, time.Second), "≥ 40× | miss: placed; Karpenter did not finish"},
		{1000, theirs, late, "miss: placed"},
	} {
		if line := sum.line(setting{"plain", c.pods, 20, 0}, &pair{c.theirs, c.ours}); !strings.HasSuffix(line, c.want+" |") {
			t.Errorf("%s, want %s", line, c.want)
		}
	}
	for _, want := range []string{"8 lines, of which Karpenter did not finish 2", "miss in 1    no pod of ours", "miss in 3    we place"} {
		if !strings.Contains(sum.String(), want) {
			t.Errorf("%s: no %q", sum.String(), want)
		}
	}
	if sum.violations != 3 {
		t.Errorf("%d violations", sum.violations)
	}
}

func TestFlagsNameKeyRuleAndValue(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-rows plane", `-rows: must be of plain, selectors, spread, anti-affinity, affinity, ports, volumes, mixed, was "plane"`},
		{"-pods 0", "-pods: must be 1 and more, was 0"},
		{"-pods many", `-pods: must be numbers with commas between them, was "many"`},
		{"-shapes 21", "-shapes: must be 20 or 400, was 21"},
		{"-machine -0.05", "-machine: must be 0 and more, was -0.05"},
		{"-limit 0s", "-limit: must be above 0, was 0s"},
		{"-play plimsoll", `-play: must be one of karpenter, plimsoll with one setting, was "plimsoll" with 64`},
	} {
		if _, err := parse(strings.Fields(c.args), io.Discard); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", c.args, err, c.want)
		}
	}
	if c, err := parse(nil, io.Discard); err != nil || len(c.settings) != 64 || c.limit != 10*time.Minute {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestAPlanThatDoesNotEndIsGivenUp(t *testing.T) {
	_, err := within(t.Context(), time.Millisecond, func(context.Context) ([]machine, error) { select {} })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}
