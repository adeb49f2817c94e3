package testbed

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/plimsoll/plimsoll/podscaler/capacity"
	"github.com/plimsoll/plimsoll/testbed/sim"
)

// Profiling measures what the pods of an experiment's workload serve: for each number of pods the
// highest open load, which comes regardless of the requests before, at which the objective's
// part of all requests is still answered within its target. It is measured in the simulated world,
// by halving what lies between a load that holds and one that does not.
type Profiling struct {
	Pods   int           // numbers of pods, from 1 up to this
	Length time.Duration // of each run
}

// Profiled is what a profiling came to.
type Profiled struct {
	Workload string          `json:"workload"`
	Points   []ProfiledPoint `json:"points"`
	// Linear and Quadratic are what comes nearest to the points; none where there are too few.
	Linear    *FittedProfile `json:"linear,omitempty"`
	Quadratic *FittedProfile `json:"quadratic,omitempty"`
	Requests  int            `json:"requests"`
}

// ProfiledPoint is what so many pods serve together, in requests a second.
type ProfiledPoint struct {
	Pods   int    `json:"pods"`
	Total  Number `json:"total"`
	PerPod Number `json:"perPod"`
}

// FittedProfile is a·x² + b·x + c, and what is left over at a point in the mean.
type FittedProfile struct {
	A        Number `json:"a"`
	B        Number `json:"b"`
	C        Number `json:"c"`
	Residual Number `json:"residual"`
}

// profiledTo is how near to each other the load that holds and the one that does not are in the
// end.
const profiledTo = 0.005

// Measure makes the runs.
func (p Profiling) Measure(ctx context.Context, e *Experiment) (*Profiled, error) {
	if err := p.check(e); err != nil {
		return nil, err
	}
	out := &Profiled{Workload: e.Workloads[0].Name}
	var points []capacity.Point
	guess := 1.0
	for n := 1; n <= p.Pods; n++ {
		total, err := p.most(ctx, e, n, guess, out)
		if err != nil {
			return nil, fmt.Errorf("%d pods: %w", n, err)
		}
		guess = total * float64(n+1) / float64(n)
		points = append(points, capacity.Point{Pods: n, Total: total})
		out.Points = append(out.Points, ProfiledPoint{n, Rounded(total), Rounded(total / float64(n))})
	}
	out.Linear = fitted(capacity.FitLinear(points))
	out.Quadratic = fitted(capacity.FitQuadratic(points))
	return out, nil
}

func (p Profiling) check(e *Experiment) error {
	var errs []error
	if len(e.Workloads) != 1 {
		errs = append(errs, fmt.Errorf("workloads: must be one to be profiled, were %d", len(e.Workloads)))
	}
	if len(e.Pools) != 1 {
		errs = append(errs, fmt.Errorf("pools: must be one to be profiled, were %d", len(e.Pools)))
	}
	if p.Pods < 1 {
		errs = append(errs, fmt.Errorf("pods: must be at least 1, was %d", p.Pods))
	}
	if p.Length < time.Minute {
		errs = append(errs, fmt.Errorf("length: must be at least 1m, was %s", p.Length))
	}
	return errors.Join(errs...)
}

// fitted is a fit as results show it, if there is one.
func fitted(f capacity.Fitted, err error) *FittedProfile {
	if err != nil {
		return nil
	}
	return &FittedProfile{Rounded(f.A), Rounded(f.B), Rounded(f.C), Rounded(f.Residual)}
}

// most is the highest load that holds with that many pods.
func (p Profiling) most(ctx context.Context, e *Experiment, pods int, guess float64, out *Profiled) (float64, error) {
	low, high := 0.0, guess
	for {
		holds, err := p.holds(ctx, e, pods, high, out)
		if err != nil {
			return 0, err
		}
		if !holds {
			break
		}
		low, high = high, 2*high
	}
	for high-low > profiledTo*high {
		rate := (low + high) / 2
		holds, err := p.holds(ctx, e, pods, rate, out)
		switch {
		case err != nil:
			return 0, err
		case holds:
			low = rate
		default:
			high = rate
		}
		if high < 1e-6 {
			return 0, errors.New("no load holds: the objective is missed by a single request")
		}
	}
	return low, nil
}

// holds makes a run, in which no one decides anything, and says whether the objective was kept.
func (p Profiling) holds(ctx context.Context, e *Experiment, pods int, rate float64, out *Profiled) (bool, error) {
	w, err := p.world(e, pods, rate)
	if err != nil {
		return false, err
	}
	if err := w.Run(ctx, p.Length); err != nil {
		return false, err
	}
	s := w.Scores()[0]
	out.Requests += s.Requests
	if ready := s.Minutes[0].Ready; ready < pods {
		return false, fmt.Errorf("only %d of them have room on the machines of pool %s", ready, e.Pools[0].Name)
	}
	return float64(s.Good) >= float64(e.Workloads[0].SLO.P)*float64(s.Requests), nil
}

// world has that many pods from the start, on as many machines as there is room for, one a pod.
func (p Profiling) world(e *Experiment, pods int, rate float64) (*sim.World, error) {
	load := sim.Load{Kind: sim.Open, Even: e.Load.Even, Level: sim.Flat(rate)}
	c := e.config(&Job{Policy: &Policy{Name: "profile"}, Load: load, Length: p.Length, Trial: 1})
	c.Workloads[0].Replicas, c.Faults = pods, nil
	pool := &c.Pools[0]
	for machines := min(pods, pool.Max); ; machines-- {
		c.Initial[pool.Name] = machines
		w, err := sim.New(c, func(context.Context, time.Time) error { return nil })
		if machines <= 1 || !errors.Is(err, sim.ErrNoRoom) {
			return w, err
		}
	}
}

// Profile is the profile of the nearest curve that is one: the parabola where it leaves less than
// half of what the line does, which the last bit of noise would not do.
func (p *Profiled) Profile() (quadratic bool, f *FittedProfile, err error) {
	if q := p.Quadratic; q != nil && len(p.Points) > 3 && q.Residual < p.Linear.Residual/2 {
		if _, err := capacity.Quadratic(float64(q.A), float64(q.B), float64(q.C)); err == nil {
			return true, q, nil
		}
	}
	if p.Linear == nil {
		return false, nil, errors.New("a line must have two numbers of pods at least")
	}
	_, err = capacity.Linear(float64(p.Linear.B), float64(p.Linear.C))
	return false, p.Linear, err
}

// Block is what the settings of policy Predictive say of it.
func (p *Profiled) Block() (string, error) {
	quadratic, f, err := p.Profile()
	if err != nil {
		return "", err
	}
	if quadratic {
		return fmt.Sprintf("profile: {quadratic: {a: %q, b: %q, c: %q}}", short(f.A), short(f.B), short(f.C)), nil
	}
	return fmt.Sprintf("profile: {linear: {perPod: %q, base: %q}}", short(f.B), short(f.C)), nil
}

// short is a number with the digits that a measurement has.
func short(n Number) string {
	v := float64(n)
	if v == 0 {
		return "0"
	}
	digits := max(3-int(math.Floor(math.Log10(math.Abs(v)))), 0)
	return fmt.Sprintf("%.*f", min(digits, 9), v)
}
