package demo

import (
	"context"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/sim"
)

// State is how things are at one moment.
type State struct {
	Time            time.Time
	Elapsed, Length time.Duration
	Services        []Service
	Pending         int // pods that no node has room for
	Hosts           []loop.HostLoad
	Machines        map[nodescaler.Phase]int
	// Rate is what all machines cost now, those on order included; Static is what the fleet
	// without an autoscaler costs. Spent and StaticSpent are the bills so far.
	Unit               string
	Rate, Static       pricing.Rate
	Spent, StaticSpent pricing.Micros
	Dear               bool // prices are doubled
	// Day is the requests a second in every whole minute so far, to all workloads, and Peak what
	// they stay below.
	Day  []float64
	Peak float64
}

// Service is how a workload does.
type Service struct {
	Name      string
	Objective podscaler.SLO
	Latency   podscaler.Reading // seconds, as the autoscaler would read it
	Arrivals  podscaler.Reading // requests a second
	Replicas  int               // asked for
	Ready     int
	Over      int // minutes in which the objective was missed
}

// State returns the present state. What the loop knows of hosts and machines is as of its last
// step.
func (s *Session) State() *State {
	o, scores, now := &s.last.Observed, s.scores(), s.Now()
	st := &State{
		Time: now, Elapsed: s.world.Now(), Length: s.cfg.Length,
		Hosts: o.Hosts, Machines: o.Machines, Pending: o.Pending,
		Unit: s.book.Unit, Rate: o.Cost.Ordered, Static: s.static.ledger.Rate(now),
		Spent: s.world.Cost(), StaticSpent: s.static.ledger.Between(start, now), Dear: s.dear, Peak: s.peak,
		Day: make([]float64, len(scores[0].Minutes)),
	}
	for i := range scores {
		st.Services = append(st.Services, s.service(i, &scores[i]))
		for j := range st.Day {
			st.Day[j] += float64(scores[i].Minutes[j].Requests) / 60
		}
	}
	return st
}

// service is how one workload does.
func (s *Session) service(i int, score *sim.Score) Service {
	w := &s.runner.Workloads[i].Workload
	out := Service{Name: w.Name, Objective: w.SLO, Over: over(score)}
	for j := range s.last.Workloads {
		if seen := &s.last.Workloads[j]; seen.Workload == w.Name {
			out.Replicas, out.Ready = seen.Replicas, seen.Ready
		}
	}
	// An error is the metrics being away: the readings stay unknown, as they are to the loop.
	if read, err := s.world.Read(context.Background(), w, s.Now()); err == nil {
		out.Latency, out.Arrivals = read.Latency, read.Arrivals
	}
	return out
}

// scores are what became of the workloads' requests, in the order of the loop's workloads.
func (s *Session) scores() []sim.Score {
	list := s.runner.Workloads
	at := func(score sim.Score) int {
		return slices.IndexFunc(list, func(w loop.Workload) bool { return w.Name == score.Workload })
	}
	return slices.SortedFunc(slices.Values(s.world.Scores()), func(a, b sim.Score) int { return at(a) - at(b) })
}

// over counts the minutes in which the objective was missed.
func over(score *sim.Score) int {
	n := 0
	for i := range score.Minutes {
		if score.Minutes[i].Violated {
			n++
		}
	}
	return n
}

// Summary is what has become of a session.
type Summary struct {
	Seed               uint64
	Length             time.Duration
	Requests, Failed   int
	Minutes            int
	Services           []ServiceSummary
	Unit               string
	Spent, StaticSpent pricing.Micros
	StaticFleet        string // in words
	Orders, Returns    int
	Moves              int // pods that were evicted
	Decisions          int // steps that changed something
	Steps              int
}

// ServiceSummary is what has become of a workload.
type ServiceSummary struct {
	Name          string
	Objective     podscaler.SLO
	Over          int     // minutes in which it was missed
	P50, P90, P99 float64 // seconds, over all requests that were answered; NaN when none was
}

// Summary adds the session up, as far as it has come.
func (s *Session) Summary() Summary {
	scores := s.scores()
	sum := Summary{
		Seed: s.cfg.Seed, Length: s.world.Now(), Minutes: len(scores[0].Minutes),
		Unit: s.book.Unit, Spent: s.world.Cost(), StaticSpent: s.static.ledger.Between(start, s.Now()), StaticFleet: s.static.String(),
		Orders: s.world.Totals.Orders, Returns: s.world.Totals.Returns,
		Decisions: s.decisions, Steps: s.world.Totals.Steps,
	}
	for i := range scores {
		score, w := &scores[i], &s.runner.Workloads[i].Workload
		sum.Requests, sum.Failed, sum.Moves = sum.Requests+score.Requests, sum.Failed+score.Failed, sum.Moves+score.Moves
		at := score.Latencies.Quantile
		sum.Services = append(sum.Services, ServiceSummary{Name: w.Name, Objective: w.SLO, Over: over(score), P50: at(.5), P90: at(.9), P99: at(.99)})
	}
	return sum
}
