package policy

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// recount computes the numbers of joint's reasons again: from what a run saw, from the numbers that
// other reasons name, and from what joint has learnt where only it knows.
type recount struct {
	v *podscaler.View
	p *joint
	r *podscaler.Recommendation
	// of SizedForLoad
	cores, wasted, rate, takes, full, quota, waits float64
}

// amounts are the numbers in a text, in their order.
func amounts(text string) (all []float64) {
	for _, n := range regexp.MustCompile(`-?\d+(\.\d+)?(e[+-]\d+)?`).FindAllString(strings.ReplaceAll(text, "cpu", ""), -1) {
		f, _ := strconv.ParseFloat(n, 64)
		all = append(all, f)
	}
	return all
}

// near reports whether numbers are the same, as they are printed.
func near(a, b float64) bool { return math.Abs(a-b) <= 0.012*max(math.Abs(a), math.Abs(b))+0.0006 }

func (c *recount) sized(text string) error {
	n := amounts(text)
	c.cores, c.rate, c.takes, c.wasted, c.full, c.quota = n[1], n[2], n[3]/1000, n[4], n[5]/100, n[6]
	used, _ := used(c.v.Pods)
	switch {
	case c.takes == 0 && !near(c.cores, used):
		return fmt.Errorf("%v cores, of which pods use %v", c.cores, used)
	case c.takes > 0 && !near(c.cores, c.rate*c.takes):
		return fmt.Errorf("%v cores are not %v requests of %v s", c.cores, c.rate, c.takes)
	}
	e := &c.p.estimator
	if c.takes > 0 {
		base, answer := max(number(c.v.Window.Arrivals), used/c.takes), 0.6*c.v.Workload.SLO.Target.Seconds()
		waits := 0.0
		if !e.waiting && !c.p.sizer.guard.beyond() {
			waits = max(c.v.Window.InFlight.Value-base*answer, 0)
		}
		c.waits = waits
		if g := e.pause.grows; e.pause.others() && g > 0 { // what joins a queue has come, too
			base = max(base, used/c.takes+g)
		}
		if want := base + waits/(e.pause.estimate()+answer); !near(c.rate, want) {
			return fmt.Errorf("%v requests a second, counted again %v", c.rate, want)
		}
	}
	return c.carries(n[0], c.cores)
}

// carries checks that so many pods carry so many cores, and one fewer would not.
func (c *recount) carries(pods, cores float64) error {
	if cores == 0 {
		return nil
	}
	if want := (cores + c.wasted) / (c.full * c.quota); pods < want*0.988-0.01 || pods-1 > want*1.012+0.01 {
		return fmt.Errorf("%v replicas carry %v cores, counted again %.4g", pods, cores, want)
	}
	return nil
}

// reason counts the numbers of a reason again, and says what is wrong with them.
func (c *recount) reason(r podscaler.Reason) error {
	n, pl := amounts(r.Text), c.v.Room.Places
	is := func(i int, want float64) error {
		if !near(n[i], want) {
			return fmt.Errorf("number %d is %v, counted again %v", i+1, n[i], want)
		}
		return nil
	}
	all := func(wants ...float64) error {
		if len(n) < len(wants) {
			return fmt.Errorf("it has %d numbers, want %d", len(n), len(wants))
		}
		for i, want := range wants {
			if err := is(i, want); err != nil && !math.IsNaN(want) {
				return err
			}
		}
		return nil
	}
	some := math.NaN()
	e, w := &c.p.estimator, c.v.Workload
	switch r.Code {
	case podscaler.ReasonSizedForLoad:
		return nil // was the first
	case podscaler.ReasonQueueWorkedOff:
		answer := 0.6 * w.SLO.Target.Seconds()
		// What waits is a difference, of which it matters how finely its parts are printed.
		if inFlight := c.v.Window.InFlight.Value; math.Abs(n[1]-c.waits) > 0.002*inFlight {
			return fmt.Errorf("%v wait of %v, counted again %v", n[1], inFlight, c.waits)
		}
		return all(n[1] / (e.pause.estimate() + answer))
	case podscaler.ReasonForecastLoad:
		return c.carries(n[0], n[1])
	case podscaler.ReasonForecastAhead:
		if n[0] == float64(c.p.sizer.guard.most()) {
			return nil
		}
		return c.carries(n[0], n[1])
	case podscaler.ReasonReactiveFloor:
		used, _ := used(c.v.Pods)
		if !slices.ContainsFunc([]float64{.85, .8, .6}, func(full float64) bool {
			exact := used / (c.quota * full)
			return math.Abs(n[0]-math.Ceil(exact)) < 1 || near(n[0], exact)
		}) {
			return fmt.Errorf("%v replicas for %v cores of %v each", n[0], used, c.quota)
		}
		return is(1, used)
	case podscaler.ReasonModelUncertain:
		if sure := 100 * c.p.estimator.service.Confidence(); math.Abs(n[0]-sure) > 0.51 {
			return fmt.Errorf("it is %.1f %% sure", sure)
		}
		return nil
	case podscaler.ReasonNeedUnconfirmed:
		if n[0] <= n[1] || n[1] < float64(pl.Coming) {
			return fmt.Errorf("%v are needed, and only %v were", n[0], n[1])
		}
		return nil
	case podscaler.ReasonGuardLimited:
		if most := 3*float64(c.p.sizer.guard.counts[0].replicas) + 6; n[0] <= n[1] || n[1] != most {
			return fmt.Errorf("the guard allows %v", most)
		}
		return all(some, some, 3, 60, 30, 6)
	case podscaler.ReasonModelOff:
		switch {
		case strings.Contains(r.Text, "differ from"):
			return all(100 * e.service.Miss())
		case strings.Contains(r.Text, "in flight on pods"):
			return all(c.v.Window.InFlight.Value)
		case strings.Contains(r.Text, "users do not pause"):
			return all(60)
		}
		return all(80)
	case podscaler.ReasonObjectiveUnreachable:
		return all(c.p.sizer.guard.times, 60)
	case podscaler.ReasonScaleDownStabilized:
		if n[0] >= n[1] || n[1] > float64(c.v.Replicas) {
			return fmt.Errorf("%v are needed and %v kept of %d", n[0], n[1], c.v.Replicas)
		}
		return nil
	case podscaler.ReasonPaidPlacesFilled:
		if n[0]+n[1] < float64(c.r.Replicas) {
			return fmt.Errorf("%v and %v are not %d", n[0], n[1], c.r.Replicas)
		}
		return all(some, some, float64(pl.Ready), float64(pl.Coming))
	case podscaler.ReasonPaidPlacesLeft:
		return all(some, float64(c.v.Replicas), float64(pl.Coming))
	case podscaler.ReasonPlacesLimited:
		return all(some, float64(max(pl.Most, c.v.Replicas)))
	case podscaler.ReasonMarginalPrice:
		full := c.cores / (c.quota * float64(serving(c.v.Pods)))
		if got := regexp.MustCompile(`use (\d+) % of their CPU`).FindStringSubmatch(r.Text); got == nil || math.Abs(amounts(got[1])[0]-100*full) > 1+2*full {
			return fmt.Errorf("pods are at %v, counted again %.3g", got, 100*full)
		}
		if pl != nil && strings.Contains(r.Text, "needs a new machine") {
			if !strings.Contains(r.Text, fmt.Sprintf("(%s/h, room for %d)", pl.Next, pl.PerMachine)) {
				return fmt.Errorf("the next machine costs %s and takes %d", pl.Next, pl.PerMachine)
			}
		}
		return nil
	}
	return fmt.Errorf("nothing counts its numbers again")
}

// walk is a load that goes up and down, in what a run sees of it.
type walk struct{ rate, demand, flying float64 }

func (w *walk) next(t *rapid.T, now time.Time, pods int) *podscaler.View {
	w.rate = min(max(w.rate*rapid.Float64Range(0.7, 1.5).Draw(t, "times"), 0.5), 300)
	cpu := min(w.rate*w.demand/float64(pods), 0.5)
	switch rapid.IntRange(0, 3).Draw(t, "queue") {
	case 0:
		w.flying = 0
	case 1:
		w.flying = math.Round(w.flying/2 + w.rate*w.demand)
	default:
		w.flying = math.Round(max(w.flying+w.rate*rapid.Float64Range(-3, 5).Draw(t, "grows"), 0))
	}
	latency := max(w.demand, w.flying/max(w.rate, 1))
	v := partsView(pods, cpu, w.rate, latency, w.flying)
	v.Now = now
	for i := range v.Pods {
		v.Pods[i].CPU.At = now
	}
	v.Room.PodLead, v.Room.MachineLead = 20*time.Second, 2*time.Minute
	if rapid.IntRange(0, 4).Draw(t, "places") > 0 {
		ready := pods + rapid.IntRange(0, 6).Draw(t, "ready")
		coming := ready + 3*rapid.IntRange(0, 2).Draw(t, "coming")
		v.Room.Places = &podscaler.Places{Ready: ready, Coming: coming, Most: coming + 3*rapid.IntRange(0, 20).Draw(t, "machines"), PerMachine: 3, Next: 10 * pricing.Rate(pricing.Unit)}
	}
	return v
}

// Every number in joint's reasons is what comes of counting again from what the run saw, over
// random runs. The first reason is the cause, and no reason is there twice.
func TestLawEveryNumberOfAReasonIsTrue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := partsOf(t)
		w := &walk{rate: rapid.Float64Range(1, 100).Draw(t, "rate"), demand: rapid.Float64Range(0.005, 0.4).Draw(t, "demand")}
		pods, now := rapid.IntRange(1, 12).Draw(t, "pods"), partsStart
		for range rapid.IntRange(1, 60).Draw(t, "runs") {
			now = now.Add(15 * time.Second)
			v := w.next(t, now, pods)
			r := p.Desired(v)
			if !r.Known {
				continue
			}
			c := &recount{v: v, p: p, r: &r}
			i := slices.IndexFunc(r.Reasons, func(r podscaler.Reason) bool { return r.Code == podscaler.ReasonSizedForLoad })
			if err := c.sized(r.Reasons[i].Text); err != nil {
				t.Fatalf("%s: %v", r.Reasons[i].Text, err)
			}
			for j, why := range r.Reasons {
				if err := c.reason(why); err != nil {
					t.Fatalf("%s: %s: %v", why.Code, why.Text, err)
				}
				if slices.Contains(r.Reasons[:j], why) {
					t.Fatalf("%s is there twice", why)
				}
			}
			c.leads(t)
			pods = min(max(r.Replicas, 1), pods+5)
		}
	})
}

// leads checks that the first reason is of the way that replicas go.
func (c *recount) leads(t *rapid.T) {
	first, up := c.r.Reasons[0], c.r.Replicas > c.v.Replicas
	keeps := []string{podscaler.ReasonScaleDownStabilized, podscaler.ReasonPaidPlacesLeft}
	if up && slices.Contains(keeps, first.Code) || first.Code == podscaler.ReasonMarginalPrice {
		t.Fatalf("%d go to %d, for %s: %s", c.v.Replicas, c.r.Replicas, first.Code, first.Text)
	}
	if !up && first.Code == podscaler.ReasonPaidPlacesFilled && c.r.Replicas < c.v.Replicas && c.p.allocator.leaves(c.v, c.v.Room.Places, c.r.Replicas) {
		t.Fatalf("%d go to %d, for %s: %s", c.v.Replicas, c.r.Replicas, first.Code, first.Text)
	}
}
