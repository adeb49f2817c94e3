package policy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/capacity"
)

const (
	lookEvery = 5 * time.Second
	podDoes   = 10 // requests a second
)

// crowd is users who pause for a second on the mean, or requests that come so many a second.
type crowd struct {
	rng      *rand.Rand
	users    int // who are not waiting
	rate     float64
	inFlight int
}

// live plays the time between two looks, with so many pods.
func (c *crowd) live(pods int) {
	const steps = 100
	step := lookEvery.Seconds() / steps
	for range steps {
		asked := c.chance(c.rate * step)
		for range c.users {
			if c.rng.Float64() < step {
				asked++
				c.users--
			}
		}
		answered := min(c.chance(float64(pods*podDoes)*step), c.inFlight)
		c.inFlight += asked - answered
		if c.rate == 0 {
			c.users += answered
		}
	}
}

// chance draws from Poisson's law.
func (c *crowd) chance(mean float64) (n int) {
	for sum := c.rng.ExpFloat64(); sum < mean; sum += c.rng.ExpFloat64() {
		n++
	}
	return n
}

// lookAt has callers look at a crowd for so long, and returns after how long they were found not to wait; 0 if they were not.
func lookAt(c *callers, of *crowd, looks int, pods func(look int) int) (found time.Duration) {
	for i := range looks {
		of.live(pods(i))
		if c.see(noon.Add(time.Duration(i)*lookEvery), float64(of.inFlight), pods(i), podDoes, float64(pods(i)*podDoes)); found == 0 && !c.wait() {
			found = time.Duration(i+1) * lookEvery
		}
	}
	return found
}

// Users are never taken for others, however many wait, with pods that come meanwhile.
func TestUsersWhoWaitAreNeverTakenForOthers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		of := &crowd{rng: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)), users: rapid.IntRange(20, 600).Draw(t, "users")}
		first, more := rapid.IntRange(1, 12).Draw(t, "pods"), rapid.IntRange(0, 3).Draw(t, "more")
		var c callers
		if found := lookAt(&c, of, 120, func(i int) int { return first + more*(i/20) }); found > 0 {
			t.Fatalf("after %v they are taken for others", found)
		}
	})
}

// Requests half again as many as pods get done are found out within a minute, and by how many they are.
func TestRequestsThatDoNotWaitAreFoundOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pods := rapid.IntRange(2, 20).Draw(t, "pods")
		rate := float64(pods*podDoes) * rapid.Float64Range(1.5, 6).Draw(t, "times")
		of := &crowd{rng: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)), rate: rate}
		var c callers
		if found := lookAt(&c, of, 12, func(int) int { return pods }); found == 0 {
			t.Fatalf("%.0f requests a second come where %d are answered, and nothing is found in a minute", rate, pods*podDoes)
		}
		if got := c.coming(0); math.Abs(got-rate) > 0.4*rate {
			t.Fatalf("%.0f requests a second are taken for %.0f", rate, got)
		}
	})
}

func TestWhatIsInAQueueIsTold(t *testing.T) {
	even := func(i int) float64 { return 40 + 50*float64(i) } // 10 a second more than three pods do
	for _, c := range []struct {
		name     string
		every    time.Duration
		inFlight func(look int) float64
		pods     func(look int) int
		wait     bool
	}{
		{"one that grows evenly", lookEvery, even, nil, false},
		{"seen every 15 seconds", 15 * time.Second, even, nil, false},
		{"in a series that is written every third time", lookEvery, func(i int) float64 { return even(3 * (i / 3)) }, nil, false},
		{"seen every two minutes", 2 * time.Minute, even, nil, true},
		{"no queue, of ever more who are answered", lookEvery, func(i int) float64 { return float64(min(i, 8)) }, nil, true},
		{"one that comes and stays", lookEvery, func(i int) float64 { return 90 + float64(i*7%5) }, nil, true},
		{"one that grows by a user now and then", lookEvery, func(i int) float64 { return 60 + float64(i) }, nil, true},
		{"one that shrinks while pods come", lookEvery, func(i int) float64 { return 400 - 10*float64(i) }, func(i int) int { return 3 + i }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var x callers
			for i := range 24 {
				pods := 3
				if c.pods != nil {
					pods = c.pods(i)
				}
				x.see(noon.Add(time.Duration(i)*c.every), c.inFlight(i), pods, podDoes, float64(pods)*podDoes)
			}
			if x.wait() != c.wait {
				t.Errorf("that they wait is %v, want %v", x.wait(), c.wait)
			}
		})
	}
}

// Who they are is remembered from one queue to the next, and how many come is not.
func TestCallersAreRememberedAndTheirNumberIsNot(t *testing.T) {
	var c callers
	lookAt(&c, &crowd{rng: rand.New(rand.NewPCG(1, 1)), rate: 90}, 12, func(int) int { return 3 })
	later := noon.Add(time.Hour)
	c.see(later, 1, 9, podDoes, float64(9)*podDoes)
	if c.wait() || c.coming(20) != 20 {
		t.Errorf("an hour later, without a queue, that they wait is %v, and %v come", c.wait(), c.coming(20))
	}
	c.see(later.Add(lookEvery), 101, 9, podDoes, float64(9)*podDoes)
	if got := c.coming(20); got != 9*podDoes+20 {
		t.Errorf("a queue that grows by 100 in five seconds tells that %v come", got)
	}
	c.see(later.Add(time.Hour), 400, 9, podDoes, float64(9)*podDoes)
	if got := c.coming(20); got != 20 {
		t.Errorf("one that was not seen for an hour tells that %v come", got)
	}
}

// A queue that has begun may be of users who all came at once; the next count tells, and until then it is doubtful.
func TestAQueueThatHasBegunIsDoubtful(t *testing.T) {
	for name, c := range map[string]struct {
		next  float64
		doubt float64
	}{
		"it stays":           {90, 0},
		"it grows as it did": {180, 1},
	} {
		var x callers
		x.see(noon, 1, 3, podDoes, float64(3)*podDoes)
		if x.see(noon.Add(lookEvery), 91, 3, podDoes, float64(3)*podDoes); x.doubt() != begun || !x.wait() {
			t.Errorf("%s: when it has begun the doubt is %v", name, x.doubt())
		}
		x.evidence = 0.1 - telling
		if x.see(noon.Add(2*lookEvery), c.next, 3, podDoes, float64(3)*podDoes); x.doubt() != c.doubt || !x.wait() {
			t.Errorf("%s: the doubt is %v, want %v", name, x.doubt(), c.doubt)
		}
	}
}

// learnt is a joint policy that knows what requests take of pods of half a core.
func learnt(t *testing.T, wl *podscaler.Workload, seen capacity.Seen) *joint {
	t.Helper()
	p := unlearned(t)
	p.service = capacity.NewService(0.5, wl.SLO.Target.Seconds())
	for range 60 {
		p.service.See(seen)
	}
	return p
}

// small are requests of 50 ms, of which a pod gets ten a second done.
var small = capacity.Seen{Arrivals: 6, Completions: 6, InFlight: 1, CPU: 0.3, Pods: 1, Busiest: 0.3, Latency: 0.2, Whole: true, Steady: true}

// seen is what joint sees at a look: so many requests a second, in flight and on pods that use so many cores together.
func seen(wl *podscaler.Workload, look, pods int, cores, arrivals, inFlight, latency float64) *podscaler.View {
	now := start.Add(time.Duration(look) * lookEvery)
	v := &podscaler.View{Now: now, Workload: wl, Replicas: pods, Window: podscaler.Window{
		Over: time.Minute, Arrivals: podscaler.Known(arrivals), InFlight: podscaler.Known(inFlight), Latency: podscaler.Known(latency),
	}}
	for i := range pods {
		v.Pods = append(v.Pods, podscaler.Pod{
			Name: fmt.Sprintf("web-%d", i), Phase: podscaler.Running, Ready: true, ReadyChanged: start.Add(-time.Hour), Started: start.Add(-time.Hour),
			CPU: podscaler.Sample{Known: true, Value: cores / float64(pods), At: now, Span: 15 * time.Second},
		})
	}
	return v
}

// Five users more a second for two minutes make a queue like others', until the pods for them are there.
func TestUsersWhoKeepComingAreToldOncePodsCome(t *testing.T) {
	wl := shop(500)
	p, of := learnt(t, wl, small), &crowd{rng: rand.New(rand.NewPCG(1, 1)), users: 20}
	pods, due := 3, map[int]int{}
	for i := range 96 { // eight minutes
		if i < 24 {
			of.users += 25
		}
		pods = max(pods, due[i])
		of.live(pods)
		answered := float64(min(pods*podDoes, of.users+of.inFlight))
		r := p.Desired(seen(wl, i, pods, answered/podDoes/2, answered, float64(of.inFlight), 0.25+float64(of.inFlight/pods/podDoes)))
		due[i+24] = max(due[i+24], r.Replicas)
	}
	if queues(float64(of.inFlight), pods) || !p.callers.wait() {
		t.Errorf("eight minutes after, %d requests of 620 users are in flight on %d pods", of.inFlight, pods)
	}
}

// Pods that wait for a database hold many requests and use little CPU. That it hung for half a minute asks for no more of them.
func TestPodsThatWaitForSomebodyElseAreNotTakenForFull(t *testing.T) {
	wl := shop(500)
	wl.SLO.Target = 3 * time.Second
	p := learnt(t, wl, capacity.Seen{Arrivals: 60, Completions: 60, InFlight: 120, CPU: 0.3, Pods: 3, Busiest: 0.1, Latency: 2.2, Whole: true, Steady: true})
	pods, due, most := 3, map[int]int{}, 0
	for i := range 240 {
		if n := due[i]; n > 0 {
			pods = n
		}
		inFlight, latency := 120+float64(i*7%5), 2.2
		if hangs := i - 9; 0 < hangs && hangs <= 6 {
			inFlight, latency = inFlight+270*float64(hangs), 20
		}
		due[i+6] = min(p.Desired(seen(wl, i, pods, 0.3, 60, inFlight, latency)).Replicas, 100)
		if i > 120 {
			most = max(most, pods)
		}
	}
	if most > 4 {
		t.Errorf("ten minutes after it hung there are %d pods, where three do", most)
	}
}

// jam is requests that come three times as many as the one pod gets done, seen by joint after so many runs.
func jam(t *testing.T, runs int) (r podscaler.Recommendation) {
	t.Helper()
	wl := shop(500)
	p := learnt(t, wl, small)
	for i := range runs {
		r = p.Desired(seen(wl, i, 1, 0.5, 30, 100*float64(i+1), 20))
	}
	return r
}

// A queue that grew for two minutes is no reason for a pod for each of its requests, as it would be for users who wait.
func TestJointWorksOffAQueueOfThoseWhoDoNotWait(t *testing.T) {
	short, long := jam(t, 5), jam(t, 24)
	if short.Replicas > 10 || long.Replicas > 16 || long.Replicas <= short.Replicas {
		t.Errorf("%d replicas for 500 requests that wait and %d for 2400, where some five are needed for what comes", short.Replicas, long.Replicas)
	}
	if !slices.ContainsFunc(long.Reasons, func(r podscaler.Reason) bool { return r.Code == podscaler.ReasonQueueWorkedOff }) {
		t.Errorf("it says nothing of the queue: %v", long.Reasons)
	}
}
