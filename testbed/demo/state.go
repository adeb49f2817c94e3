package demo

import (
	"context"
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
	Objective       podscaler.SLO
	Latency         podscaler.Reading // seconds, as the autoscaler would read it
	Arrivals        podscaler.Reading // requests a second
	Replicas        int               // asked for
	Ready           int
	Pending         int // pods that no node has room for
	Hosts           []loop.HostLoad
	Machines        map[nodescaler.Phase]int
	// Rate is what all machines cost now, those on order included; Static is what the fleet
	// without an autoscaler costs. Spent and StaticSpent are the bills so far.
	Unit               string
	Rate, Static       pricing.Rate
	Spent, StaticSpent pricing.Micros
	Dear               bool // prices are doubled
	// Day is the requests a second in every whole minute so far; Over counts the minutes in
	// which the objective was missed.
	Day  []float64
	Over int
	Peak float64 // what the rate stays below
}

// State returns the present state. What the loop knows of hosts and machines is as of its last
// step.
func (s *Session) State() *State {
	o, score, now := &s.last.Observed, &s.world.Scores()[0], s.Now()
	st := &State{
		Time: now, Elapsed: s.world.Now(), Length: s.cfg.Length, Objective: objective,
		Hosts: o.Hosts, Machines: o.Machines, Pending: o.Pending,
		Unit: s.book.Unit, Rate: o.Cost.Ordered, Static: s.static.ledger.Rate(now),
		Spent: s.world.Cost(), StaticSpent: s.static.ledger.Between(start, now), Dear: s.dear, Peak: s.peak,
		Day: make([]float64, len(score.Minutes)), Over: over(score),
	}
	for i := range s.last.Workloads {
		st.Replicas, st.Ready = s.last.Workloads[i].Replicas, s.last.Workloads[i].Ready
	}
	for i := range score.Minutes {
		st.Day[i] = float64(score.Minutes[i].Requests) / 60
	}
	// An error is the metrics being away: the readings stay unknown, as they are to the loop.
	if w, err := s.world.Read(context.Background(), &s.shop, now); err == nil {
		st.Latency, st.Arrivals = w.Latency, w.Arrivals
	}
	return st
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
	P50, P90, P99      float64 // seconds, over all requests that were answered; NaN when none was
	Objective          podscaler.SLO
	Unit               string
	Spent, StaticSpent pricing.Micros
	StaticFleet        string // in words
	Over, Minutes      int    // minutes over the objective, of so many
	Orders, Returns    int
	Moves              int // pods that were evicted
	Decisions          int // steps that changed something
	Steps              int
}

// Summary adds the session up, as far as it has come.
func (s *Session) Summary() Summary {
	score, now := &s.world.Scores()[0], s.Now()
	return Summary{
		Seed: s.cfg.Seed, Length: s.world.Now(),
		Requests: score.Requests, Failed: score.Failed,
		P50: score.Latencies.Quantile(.5), P90: score.Latencies.Quantile(.9), P99: score.Latencies.Quantile(.99), Objective: objective,
		Unit: s.book.Unit, Spent: s.world.Cost(), StaticSpent: s.static.ledger.Between(start, now),
		StaticFleet: s.static.String(), Over: over(score), Minutes: len(score.Minutes),
		Orders: s.world.Totals.Orders, Returns: s.world.Totals.Returns, Moves: score.Moves,
		Decisions: s.decisions, Steps: s.world.Totals.Steps,
	}
}
