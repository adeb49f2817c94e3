package policy

import (
	"fmt"
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
	asked    int   // so far
	lately   []int // in each of the last looks
	flying   []int // at each of them
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
		c.asked += asked
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

// watch has a pause watch a crowd for so many looks, and the rate over the last minute with it.
func watch(p *pause, of *crowd, from, looks int, pods func(look int) int) {
	const window = int(time.Minute / lookEvery)
	for i := from; i < from+looks; i++ {
		before := of.asked
		of.live(pods(i))
		of.lately, of.flying = latest(of.lately, of.asked-before, window), latest(of.flying, of.inFlight, window)
		c := count{noon.Add(time.Duration(i) * lookEvery), float64(of.inFlight), added(of.lately) / 60, pods(i)}
		if p.deduced {
			c.inFlight = added(of.flying) / float64(len(of.flying))
		}
		p.see(c, podDoes, !p.deduced)
	}
}

func added(all []int) (sum float64) {
	for _, n := range all {
		sum += float64(n)
	}
	return sum
}

// Users who pause for a second are not taken for others a minute after they came, however many
// wait, and once pods have worked off their queue the pause is known.
func TestPauseOfUsersIsFoundOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		of := &crowd{rng: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)), users: rapid.IntRange(100, 600).Draw(t, "users")}
		few := rapid.IntRange(1, 3).Draw(t, "pods")
		enough := of.users/podDoes*2 + 4
		p := pause{deduced: rapid.Bool().Draw(t, "deduced")}
		watch(&p, of, 0, 12, func(int) int { return few })
		if p.others() {
			t.Fatalf("on %d pods the pause is %v s", few, p.estimate())
		}
		watch(&p, of, 12, 48, func(int) int { return enough })
		if got := p.estimate(); p.weight == 0 || got < 0.5 || got > 2 {
			t.Fatalf("on %d pods the pause is %v s by %v queues, and should be 1", enough, got, p.weight)
		}
	})
}

// Requests half again as many as pods get done do not depend on each other, as is found out within
// a minute, and they are not taken for users again while their queue is worked off and after.
func TestRequestsWithoutPausesAreFoundOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		few := rapid.IntRange(2, 20).Draw(t, "pods")
		rate := float64(few*podDoes) * rapid.Float64Range(1.5, 6).Draw(t, "times")
		of := &crowd{rng: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)), rate: rate}
		var p pause
		watch(&p, of, 0, 12, func(int) int { return few })
		if !p.others() {
			t.Fatalf("%.0f requests a second where %d are answered pass for users who pause for %v s", rate, few*podDoes, p.estimate())
		}
		for i := 12; i < 96; i++ {
			watch(&p, of, i, 1, func(int) int { return int(2*rate/podDoes) + 2 })
			if queues(float64(of.inFlight), p.queue[len(p.queue)-1].pods) && !p.others() {
				t.Fatalf("as their queue is worked off they pass for users who pause for %v s", p.estimate())
			}
		}
		if p.weight > 0 && !p.others() {
			t.Fatalf("what is learnt from the queue is a pause of %v s", p.estimate())
		}
	})
}

// A queue that was attack ends with its attackers: it shows nothing of who is left.
func TestQueueThatIsLeftShowsNoPause(t *testing.T) {
	of := &crowd{rng: rand.New(rand.NewPCG(1, 1)), rate: 400}
	var p pause
	watch(&p, of, 0, 60, func(int) int { return 6 })
	of.rate = 20
	for i := 60; i < 600; i++ {
		watch(&p, of, i, 1, func(int) int { return 40 })
		if len(p.queue) > 0 && queues(p.queue[len(p.queue)-1].inFlight, 40) && !p.others() {
			t.Fatalf("after %v, with %d in flight, they pass for users who pause for %v s", time.Duration(i)*lookEvery, of.inFlight, p.estimate())
		}
	}
}

// learnt is a joint policy that knows what requests take of pods of half a core.
func learnt(t *testing.T, wl *podscaler.Workload, seen capacity.Seen) *joint {
	t.Helper()
	p := unlearned(t)
	p.estimator.service = capacity.NewService(0.5, wl.SLO.Target.Seconds())
	for range 60 {
		p.estimator.service.See(seen)
	}
	return p
}

// small are requests of 50 ms, of which a pod gets ten a second done.
var small = capacity.Seen{Arrivals: 6, Completions: 6, InFlight: 1, CPU: 0.3, Pods: 1, Busiest: 0.3, Latency: 0.2, Whole: true, Steady: true}

// seen is what joint sees at a look: so many requests a second, in flight and on pods that use so
// many cores together.
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

// Five users more a second for two minutes make a queue like others', until the pods for them are
// there.
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
	if queues(float64(of.inFlight), pods) || p.estimator.pause.others() {
		t.Errorf("eight minutes after, %d requests of 620 users are in flight on %d pods", of.inFlight, pods)
	}
}

// Pods that wait for a database hold many requests and use little CPU. That it hung for half a
// minute asks for no more of them.
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

// jam is requests that come three times as many as the one pod gets done, seen by joint after so
// many runs.
func jam(t *testing.T, runs int) (r podscaler.Recommendation) {
	t.Helper()
	wl := shop(500)
	p := learnt(t, wl, small)
	for i := range runs {
		r = p.Desired(seen(wl, i, 1, 0.5, 30, 100*float64(i+1), 20))
	}
	return r
}

// A queue that grew for two minutes is no reason for a pod for each of its requests, as it would be
// for users who wait.
func TestJointWorksOffAQueueOfThoseWhoDoNotWait(t *testing.T) {
	short, long := jam(t, 5), jam(t, 24)
	if short.Replicas > 10 || long.Replicas > 16 || long.Replicas <= short.Replicas {
		t.Errorf("%d replicas for 500 requests that wait and %d for 2400, where some five are needed for what comes", short.Replicas, long.Replicas)
	}
	if !slices.ContainsFunc(long.Reasons, func(r podscaler.Reason) bool { return r.Code == podscaler.ReasonQueueWorkedOff }) {
		t.Errorf("it says nothing of the queue: %v", long.Reasons)
	}
}

// Pods that wait for a database most of the time hold many requests and answer them in time: that
// is no queue to keep pods for.
func TestRequestsThatAreInTimeKeepNoPods(t *testing.T) {
	wl := shop(500)
	wl.SLO.Target = time.Second
	p := learnt(t, wl, capacity.Seen{Arrivals: 40, Completions: 40, InFlight: 20, CPU: 2.1, Pods: 8, Busiest: 0.27, Latency: 0.6, Whole: true, Steady: true})
	var r podscaler.Recommendation
	for i := range 480 { // 40 minutes
		r = p.Desired(seen(wl, i, 8, 2.1, 40, 30+float64(i%3), 0.7))
	}
	if r.Replicas >= 8 {
		t.Errorf("of 8 pods at half of their CPU %d stay, with 30 requests in flight that take 0.7 of 1 s: %v", r.Replicas, r.Reasons)
	}
}
