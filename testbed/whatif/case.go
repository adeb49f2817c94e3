package whatif

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler/loop"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	podpolicy "github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/sim"
)

// Case is a cluster with its load, and what is wanted of it.
type Case struct {
	// World has no prices and no objectives: those of the intent count.
	World  sim.Config
	Intent loop.Intent
	Nodes  *nodepolicy.Spec // nil decides on no machines
	Length time.Duration
}

// Outcome is what came of a time.
type Outcome struct {
	Cost      float64   `json:"cost"`
	Machines  float64   `json:"machines"` // in the mean
	Workloads []Service `json:"workloads"`
}

// Service is what came of a workload. What its objective, or none, cannot judge is nil.
type Service struct {
	Workload string  `json:"workload"`
	Replicas float64 `json:"replicas"` // in the mean
	// Late is the part of the requests that failed, or that took longer than the objective allows.
	Late *float64 `json:"lateShare"`
	// Over counts the minutes in which the objective was missed.
	Over *int `json:"minutesOver"`
}

// Hear is called after each step, with what it was decided by.
type Hear func(*loop.Observation, *loop.Intent, *loop.Step) error

// Run plays the case from its beginning; hear may be nil.
func (c *Case) Run(ctx context.Context, hear Hear) (*Outcome, error) {
	in := c.Intent
	in.Prices = cmp.Or(in.Prices, pricing.DefaultBook())
	memory, err := remember(&in, c.Nodes)
	if err != nil {
		return nil, err
	}
	cfg := c.World
	cfg.Prices, cfg.Workloads = in.Prices, judged(cfg.Workloads, in.Workloads)
	ports := loop.Ports{}
	world, err := sim.New(cfg, func(ctx context.Context, now time.Time) error {
		return step(ctx, now, &ports, &in, memory, hear)
	})
	if err != nil {
		return nil, err
	}
	ports.Cluster, ports.Machines, ports.Signals = world, world, world
	if err := world.Run(ctx, c.Length); err != nil {
		return nil, err
	}
	return c.outcome(world), nil
}

// remember is the memory that a run begins with. Settings that no policy can work by are refused.
func remember(in *loop.Intent, nodes *nodepolicy.Spec) (*loop.Memory, error) {
	for i := range in.Workloads {
		w := &in.Workloads[i]
		if w.Policy == nil {
			continue
		}
		policy, err := w.Policy.New()
		if err == nil {
			err = podpolicy.Check(&w.Workload, policy)
		}
		if err != nil {
			return nil, fmt.Errorf("workload %s: %w", w.Name, err)
		}
	}
	if nodes == nil {
		return &loop.Memory{}, nil
	}
	policy, err := nodepolicy.New(*nodes)
	if err != nil {
		return nil, fmt.Errorf("node policy: %w", err)
	}
	return &loop.Memory{Nodes: policy}, nil
}

// step observes, decides and acts once.
func step(ctx context.Context, now time.Time, p *loop.Ports, in *loop.Intent, m *loop.Memory, hear Hear) error {
	o := p.Observe(ctx, now)
	p.Measure(ctx, &o, in, m)
	s := loop.Decide(&o, in, m)
	if !in.DryRun && o.ClusterErr == nil {
		p.Act(ctx, &s)
		m.Learn(&s)
	}
	if hear == nil {
		return o.ClusterErr
	}
	return hear(&o, in, &s)
}

// The goal that a service is measured by which has no objective.
const (
	noTarget   = time.Second
	noQuantile = .9
)

// judged are the services with the objectives of their workloads.
func judged(services []sim.Workload, wanted []loop.Workload) []sim.Workload {
	all := slices.Clone(services)
	for i := range all {
		s := &all[i]
		s.Window, s.LatencyGoal, s.GoalQuantile = time.Minute, noTarget, noQuantile
		for k := range wanted {
			if slo := wanted[k].SLO; wanted[k].Name == s.Name {
				s.Window = cmp.Or(slo.Window, s.Window)
				s.LatencyGoal, s.GoalQuantile = cmp.Or(slo.Target, s.LatencyGoal), cmp.Or(slo.Quantile, s.GoalQuantile)
			}
		}
	}
	return all
}

// outcome is what came of the world, of the workloads that are wanted.
func (c *Case) outcome(w *sim.World) *Outcome {
	o := &Outcome{Cost: w.Cost().Units(), Machines: w.MachineTime().Hours() / c.Length.Hours()}
	scores := w.Scores()
	for i := range scores {
		score := &scores[i]
		k := slices.IndexFunc(c.Intent.Workloads, func(w loop.Workload) bool { return w.Name == score.Workload })
		if k < 0 {
			continue
		}
		s := Service{Workload: score.Workload, Replicas: score.PodTime.Hours() / c.Length.Hours()}
		if c.Intent.Workloads[k].SLO.Target > 0 {
			s.Late, s.Over = late(score), over(score)
		}
		o.Workloads = append(o.Workloads, s)
	}
	return o
}

// late is the part of a service's requests that were late, overdue or failed; nil without requests.
func late(s *sim.Score) *float64 {
	all := s.Requests + s.Overdue
	if all == 0 {
		return nil
	}
	share := float64(all-s.Good) / float64(all)
	return &share
}

func over(s *sim.Score) *int {
	n := 0
	for i := range s.Minutes {
		if s.Minutes[i].Violated {
			n++
		}
	}
	return &n
}
