package testbed

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/plimsoll/plimsoll/podscaler/capacity"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/sim"
)

// Profiling measures what the pods of a workload serve: for each number of pods the highest open
// load, which comes regardless of the requests before, at which the objective's part of all
// requests is still answered within its target.
type Profiling struct {
	Pods   []int         // the numbers of pods
	Length time.Duration // of each load
	Guess  float64       // of what the first number serves
	// To is how near to each other the load that holds and the one that does not are in the end,
	// as a part of them.
	To float64
}

// Serve puts an open load of requests a second on so many pods, and says whether the objective was
// kept, and how many requests that took.
type Serve func(ctx context.Context, pods int, rate float64) (holds bool, requests int, err error)

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

// FittedProfile is a·x² + b·x + c, what is left over at a point in the mean, and the part of the
// points' differences that the curve explains.
type FittedProfile struct {
	A        Number `json:"a"`
	B        Number `json:"b"`
	C        Number `json:"c"`
	Residual Number `json:"residual"`
	R2       Number `json:"r2"`
}

// Validate says everything that is wrong with what is asked.
func (p Profiling) Validate() error {
	var errs []error
	for i, n := range p.Pods {
		if n < 1 || i > 0 && n <= p.Pods[i-1] {
			errs = append(errs, fmt.Errorf("pods: must be numbers from 1 up that rise, were %v", p.Pods))
			break
		}
	}
	if len(p.Pods) == 0 {
		errs = append(errs, errors.New("pods: must be one number at least, were none"))
	}
	return errors.Join(errs...)
}

// Of measures the pods of a workload.
func (p Profiling) Of(ctx context.Context, workload string, serve Serve) (*Profiled, error) {
	out := &Profiled{Workload: workload}
	var points []capacity.Point
	guess, step := p.Guess, 1.25
	for i, n := range p.Pods {
		total, err := edge{least: max(1/p.Length.Seconds(), leastRate), to: p.To}.find(guess, step, func(rate float64) (bool, error) {
			holds, requests, err := serve(ctx, n, rate)
			out.Requests += requests
			return holds, err
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", pricing.Count(n, "pod"), err)
		}
		points = append(points, capacity.Point{Pods: n, Total: total})
		out.Points = append(out.Points, ProfiledPoint{n, Rounded(total), Rounded(total / float64(n))})
		if i+1 < len(p.Pods) { // each pod serves about the same
			guess, step = total*float64(p.Pods[i+1])/float64(n), 1+2*p.To
		}
	}
	out.Linear = fitted(capacity.FitLinear(points))
	out.Quadratic = fitted(capacity.FitQuadratic(points))
	return out, nil
}

// fitted is a fit as results show it, if there is one.
func fitted(f capacity.Fitted, err error) *FittedProfile {
	if err != nil {
		return nil
	}
	return &FittedProfile{Rounded(f.A), Rounded(f.B), Rounded(f.C), Rounded(f.Residual), Rounded(f.R2)}
}

// leastRate is the least load that is tried, in requests a second: k6 sends none of less.
const leastRate = 0.02

// edge is how the highest load that holds is looked for: none below least, and to within a part of
// it.
type edge struct{ least, to float64 }

// find goes from a guess up or down, by longer and longer steps, until the edge is behind it, and
// then halves what it lies in. What it returns has held.
func (e edge) find(guess, step float64, holds func(rate float64) (bool, error)) (float64, error) {
	low, high := 0.0, math.Inf(1)
	for rate := max(guess, e.least); ; {
		is, err := holds(rate)
		if err != nil {
			return 0, err
		}
		if is {
			low = rate
		} else {
			high = rate
		}
		switch {
		case high <= e.least:
			return 0, fmt.Errorf("no load holds: %.3g requests a second miss the objective", high)
		case math.IsInf(high, 1):
			rate, step = low*step, min(step*step, 2)
		case low == 0:
			rate, step = max(high/step, e.least), min(step*step, 2)
		case high-low <= e.to*high:
			return low, nil
		default:
			rate = (low + high) / 2
		}
	}
}

// Simulate measures the pods of an experiment's workload in the simulated world.
func (p Profiling) Simulate(ctx context.Context, e *Experiment) (*Profiled, error) {
	if err := p.check(e); err != nil {
		return nil, err
	}
	return p.Of(ctx, e.Workloads[0].Name, func(ctx context.Context, pods int, rate float64) (bool, int, error) {
		return p.holds(ctx, e, pods, rate)
	})
}

func (p Profiling) check(e *Experiment) error {
	errs := []error{p.Validate()}
	if len(e.Workloads) != 1 {
		errs = append(errs, fmt.Errorf("workloads: must be one to be profiled, were %d", len(e.Workloads)))
	}
	if len(e.Pools) != 1 {
		errs = append(errs, fmt.Errorf("pools: must be one to be profiled, were %d", len(e.Pools)))
	}
	if p.Length < time.Minute {
		errs = append(errs, fmt.Errorf("length: must be at least 1m, was %s", p.Length))
	}
	return errors.Join(errs...)
}

// holds makes a run, in which no one decides anything, and says whether the objective was kept.
func (p Profiling) holds(ctx context.Context, e *Experiment, pods int, rate float64) (bool, int, error) {
	w, err := p.world(e, pods, rate)
	if err != nil {
		return false, 0, err
	}
	if err := w.Run(ctx, p.Length); err != nil {
		return false, 0, err
	}
	s := w.Scores()[0]
	if ready := s.Minutes[0].Ready; ready < pods {
		return false, s.Requests, fmt.Errorf("only %d of them have room on the machines of pool %s", ready, e.Pools[0].Name)
	}
	return float64(s.Good) >= float64(e.Workloads[0].SLO.P)*float64(s.Requests), s.Requests, nil
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

// Profile is the profile of the nearest curve that is one: the parabola where five numbers of
// pods or more say so, and it leaves less than half of what the line does. Chance in fewer points
// bends a curve as much.
func (p *Profiled) Profile() (quadratic bool, f *FittedProfile, err error) {
	if q := p.Quadratic; q != nil && len(p.Points) > 4 && q.Residual < p.Linear.Residual/2 {
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
	text, err := p.written(strconv.Quote)
	return "profile: {" + text + "}", err
}

// File is what plimsoll simulate --profile reads.
func (p *Profiled) File() (string, error) {
	return p.written(func(number string) string { return number })
}

// written is the profile with its numbers as they are written somewhere.
func (p *Profiled) written(as func(number string) string) (string, error) {
	quadratic, f, err := p.Profile()
	switch {
	case err != nil:
		return "", err
	case quadratic:
		return fmt.Sprintf("quadratic: {a: %s, b: %s, c: %s}", as(short(f.A)), as(short(f.B)), as(short(f.C))), nil
	}
	return fmt.Sprintf("linear: {perPod: %s, base: %s}", as(short(f.B)), as(short(f.C))), nil
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
