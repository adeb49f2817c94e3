package capacity

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// steps plays arrivals with so many pods in each period and returns what was lost.
func steps(t interface{ Fatal(...any) }, line *Loss, err error, pods []int, arrivals []float64) (lost []float64) {
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range arrivals {
		p, err := line.Step(pods[i%len(pods)], a)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range []float64{p.Arrived, p.InSystem, p.Served, p.Expired, p.Use} {
			if !finite(x) || x < 0 {
				t.Fatal("period", i, "has a value that cannot be:", p)
			}
		}
		lost = append(lost, p.Expired)
	}
	return lost
}

func repeat(x float64, times int) []float64 {
	s := make([]float64, times)
	for i := range s {
		s[i] = x
	}
	return s
}

// expiredAsPrinted is the rule as it was printed. It forgets that some of those who were there a
// time-out ago have been lost since, and loses them again.
func expiredAsPrinted(past []Period, timeout int) float64 {
	if len(past) < timeout {
		return 0
	}
	left := past[timeout-1].InSystem
	for _, p := range past[:timeout] {
		left -= p.Served
	}
	return max(left, 0)
}

// 10 requests a period and room for 5, each waiting for two: once the line is full, 5 are lost in
// every period. The printed rule counts twice those that are lost already.
func TestPrintedLossCountsTwice(t *testing.T) {
	five := must(Linear(5, 0))
	line, err := NewLoss(five, 2)
	right := steps(t, line, err, []int{1}, repeat(10, 10))
	if diff := cmp.Diff([]float64{0, 0, 0, 5, 5, 5, 5, 5, 5, 5}, right); diff != "" {
		t.Errorf("corrected (-want +got):\n%s", diff)
	}
	line, err = newLoss(five, 2, expiredAsPrinted)
	printed := steps(t, line, err, []int{1}, repeat(10, 10))
	if diff := cmp.Diff([]float64{0, 0, 0, 5, 10, 10, 5, 0, 0, 5}, printed); diff != "" {
		t.Errorf("as printed (-want +got):\n%s", diff)
	}
}

// After a rush of three periods, 4 come of which all would be served; the printed rule loses them,
// for 5 that are lost already, and one more that is not there.
func TestPrintedLossTakesRequestsThatWouldBeServed(t *testing.T) {
	five := must(Linear(5, 0))
	rush := []float64{10, 10, 10, 4, 0, 0}
	line, err := NewLoss(five, 2)
	right := steps(t, line, err, []int{1}, rush)
	if diff := cmp.Diff([]float64{0, 0, 0, 5, 5, 0}, right); diff != "" {
		t.Errorf("corrected (-want +got):\n%s", diff)
	}
	line, err = newLoss(five, 2, expiredAsPrinted)
	before := steps(t, line, err, []int{1}, rush[:4])
	if got, waiting := expiredAsPrinted(line.past, 2), line.past[0].InSystem-line.past[0].Served; got != 10 || waiting != 9 {
		t.Errorf("as printed: %v are lost of %v that wait, want 10 of 9", got, waiting)
	}
	printed := append(before, steps(t, line, nil, []int{1}, rush[4:])...)
	if diff := cmp.Diff([]float64{0, 0, 0, 5, 9, 0}, printed); diff != "" {
		t.Errorf("as printed, held at what waits (-want +got):\n%s", diff)
	}
}

// With a time-out of one the two rules are one, and what is above capacity is lost.
func TestTimeOutOfOneIsAPureLoss(t *testing.T) {
	arrivals := []float64{500, 400, 700, 0, 459, 460, 0}
	want := []float64{0, 41, 0, 241, 0, 0, 1}
	for _, rule := range []func([]Period, int) float64{expired, expiredAsPrinted} {
		line, err := newLoss(nodejs, 1, rule)
		if diff := cmp.Diff(want, steps(t, line, err, []int{2}, arrivals)); diff != "" {
			t.Errorf("lost (-want +got):\n%s", diff)
		}
	}
}

// queue is the slow and obvious twin: a line in which everybody knows when they came.
type queue struct {
	capacity float64 // of a pod
	timeout  int
	waiting  []float64 // by age, the youngest first
}

func (q *queue) step(pods int, arrived float64) (served, lost float64) {
	q.waiting = append([]float64{arrived}, q.waiting...)
	for age := len(q.waiting) - 1; age >= q.timeout; age-- {
		lost += q.waiting[age]
		q.waiting = q.waiting[:age]
	}
	room := q.capacity * float64(pods)
	for age := len(q.waiting) - 1; age >= 0; age-- {
		take := min(room, q.waiting[age])
		q.waiting[age] -= take
		room -= take
		served += take
	}
	return served, lost
}

var (
	someArrivals = rapid.SliceOfN(rapid.Float64Range(0, 100), 1, 60)
	somePods     = rapid.SliceOfN(rapid.IntRange(0, 8), 60, 60)
)

func TestLossIsThatOfALineWhereEverybodyKnowsWhenTheyCame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		timeout := rapid.IntRange(1, 6).Draw(t, "timeout")
		arrivals, pods := someArrivals.Draw(t, "arrivals"), somePods.Draw(t, "pods")
		line, err := NewLoss(must(Linear(10, 0)), timeout)
		if err != nil {
			t.Fatal(err)
		}
		twin, total := queue{capacity: 10, timeout: timeout}, Period{}
		for i, a := range arrivals {
			got, err := line.Step(pods[i], a)
			if err != nil {
				t.Fatal(err)
			}
			served, lost := twin.step(pods[i], a)
			if math.Abs(got.Served-served) > 1e-6 || math.Abs(got.Expired-lost) > 1e-6 {
				t.Fatalf("period %d: %v served, %v lost, want %v, %v", i, got.Served, got.Expired, served, lost)
			}
			total.Arrived, total.Served, total.Expired = total.Arrived+got.Arrived, total.Served+got.Served, total.Expired+got.Expired
			if still := got.InSystem - got.Served; math.Abs(total.Arrived-total.Served-total.Expired-still) > 1e-6 {
				t.Fatalf("period %d: of %v, %v are served, %v lost and %v waiting", i, total.Arrived, total.Served, total.Expired, still)
			}
		}
	})
}

// More pods in any period never lose more, in any period.
func TestLossNeverRisesWithCapacity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, timeout := profiles.Draw(t, "profile"), rapid.IntRange(1, 6).Draw(t, "timeout")
		arrivals, pods := someArrivals.Draw(t, "arrivals"), somePods.Draw(t, "pods")
		more := make([]int, len(pods))
		for i := range pods {
			more[i] = pods[i] + rapid.IntRange(0, 3).Draw(t, "more")
		}
		line, err := NewLoss(p, timeout)
		few := steps(t, line, err, pods, arrivals)
		line, err = NewLoss(p, timeout)
		many := steps(t, line, err, more, arrivals)
		for i := range few {
			if many[i] > few[i]+1e-6 {
				t.Fatalf("period %d: %v lost, %v with more pods", i, few[i], many[i])
			}
		}
	})
}

func TestPrintedLossIsNeverNegative(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line, err := newLoss(profiles.Draw(t, "profile"), rapid.IntRange(1, 6).Draw(t, "timeout"), expiredAsPrinted)
		steps(t, line, err, somePods.Draw(t, "pods"), someArrivals.Draw(t, "arrivals"))
	})
}

// All that the HPA's run says is what its parts say: replicas from what was served, the period
// before.
func TestRunIsTheSumOfItsParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Discrete{Profile: profiles.Draw(t, "profile"), Timeout: rapid.IntRange(1, 4).Draw(t, "timeout"), HPA: HPA{
			Target: rapid.Float64Range(0.3, 1).Draw(t, "target"), Tolerance: rapid.Float64Range(0, 0.2).Draw(t, "tolerance"),
			Min: rapid.IntRange(1, 3).Draw(t, "min"), Max: rapid.IntRange(3, 30).Draw(t, "max"), Stabilization: 1,
		}}
		run, err := d.Run(someArrivals.Draw(t, "arrivals"))
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range run {
			want := d.HPA.Min
			if i > 0 {
				want = d.HPA.Desired(d.Profile, run[i-1].Pods, run[i-1].Served)
			}
			if p.Pods != want || p.Use < 0 || p.Use > 1+1e-9 {
				t.Fatalf("period %d: %+v, want %d pods", i, p, want)
			}
		}
	})
}

func TestFaultyRunsAreRefused(t *testing.T) {
	good := Discrete{Profile: nodejs, Timeout: 1, HPA: HPA{Target: 0.9, Min: 1, Max: 4, Stabilization: 1}}
	run := func(change func(*Discrete), arrivals ...float64) error {
		d := good
		change(&d)
		_, err := d.Run(arrivals)
		return err
	}
	none := func(*Discrete) {}
	line, _ := NewLoss(nodejs, 1)
	_, pods := line.Step(-1, 5)
	for want, err := range map[string]error{
		"period 1: arrived: must be 0 or more, was NaN": run(none, 5, math.NaN()),
		"period 0: arrived: must be 0 or more, was -1":  run(none, -1),
		"timeout: must be 1 period at least, was 0":     run(func(d *Discrete) { d.Timeout = 0 }),
		"profile: must be set":                          run(func(d *Discrete) { d.Profile = Profile{} }),
		"target: must be above 0 and up to 1, was 2":    run(func(d *Discrete) { d.HPA.Target = 2 }),
		"pods: must be 0 or more, was -1":               pods,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
