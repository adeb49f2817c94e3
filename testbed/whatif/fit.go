package whatif

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/sim"
)

// What no recording says of a service.
const (
	spread      = .5                     // requests differ by up to half of their mean
	concurrency = 256                    // of a pod, so that its CPU is what limits it
	assumedWork = 100 * time.Millisecond // of a request, where requests were not counted
	metrics     = 15 * time.Second       // metrics-server's resolution
)

// Case is the cluster of the recording, and the limits of what is known of it.
func (r *Recorded) Case(ctx context.Context) (*Case, []string, error) {
	length := r.to.Sub(r.from)
	if r.now == nil || length < mostGap {
		return nil, nil, fmt.Errorf("the recording must cover %s or more, covers %s", pricing.Short(mostGap), pricing.Short(length))
	}
	delays, fitted, assumed := r.lives.delays()
	slices.Sort(r.ticks)
	cfg := sim.Config{
		Seed: 1, Start: r.from, Tick: max(time.Second, r.ticks[len(r.ticks)/2]), Wake: true, MetricsEvery: metrics,
		Hosts: r.first.Machines.Hosts, Pools: slices.Clone(r.intent.Pools), Delays: delays, Clones: r.lives.clonesAtOnce(),
	}
	r.reserve(&cfg)
	notes := r.notes(fitted, assumed)
	notes = append(notes, r.begun(&cfg)...)
	for _, name := range sorted(r.services) {
		s := r.services[name]
		w, note, err := s.fit(ctx, name, r.Think[name])
		if err != nil {
			return nil, nil, err
		}
		if cfg.Workloads = append(cfg.Workloads, w); note != "" {
			notes = append(notes, note)
		}
	}
	c := &Case{World: cfg, Intent: r.intent, Nodes: r.nodes, Length: length}
	c.Intent.Pools = slices.Clone(cfg.Pools)
	return c, notes, nil
}

// reserve keeps what DaemonSets take of every node.
func (r *Recorded) reserve(cfg *sim.Config) {
	if r.first.Cluster.Daemons == nil {
		return
	}
	for i := range cfg.Pools {
		p := &cfg.Pools[i]
		daemons := r.first.Cluster.Daemons(p)
		p.Reserved = p.Reserved.Plus(daemons.Static.Requests)
		for _, set := range daemons.Sets {
			p.Reserved = p.Reserved.Plus(set.Requests)
		}
	}
}

// begun has the world begin with the machines of the first step.
func (r *Recorded) begun(cfg *sim.Config) []string {
	foreign := 0
	for i := range r.first.Cluster.Nodes {
		if r.first.Cluster.Nodes[i].Machine == "" {
			foreign++
		}
	}
	for i := range r.first.Machines.Machines {
		m := &r.first.Machines.Machines[i]
		pool := slices.ContainsFunc(cfg.Pools, func(p nodescaler.Pool) bool { return p.Name == m.Pool })
		if pool && (m.Phase.Live() || m.Kept()) && !m.Created.IsZero() {
			cfg.Begin = append(cfg.Begin, sim.Begin{Pool: m.Pool, Shape: m.Shape, Host: m.Host, Spare: m.Kept()})
		}
	}
	if foreign == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d nodes that are no machine of a pool are not played: what runs on them takes room of the pools here", foreign)}
}

// notes are the limits of every answer.
func (r *Recorded) notes(fitted, assumed []string) []string {
	all := []string{
		"policies begin without memory, and machines of the first step as if they had just joined: the first hour weighs more than in the recording",
		"affinity, spread, volumes, quotas of namespaces and faults are not played, nor is a change of pods' requests",
	}
	if len(r.Think) == 0 {
		all = append(all, "requests arrive as they were recorded, however late the answers are (an open load): users who wait for answers ask less of a slow service; say how long they think, if so")
	}
	if len(fitted) > 0 {
		all = append(all, "how long machines and pods take is fitted to the recording: "+joined(fitted))
	}
	if len(assumed) > 0 {
		all = append(all, fmt.Sprintf("the recording has no %s: usual times are assumed", list(assumed)))
	}
	if r.changed {
		all = append(all, "settings changed during the recording: those of its first step are the baseline")
	}
	if r.unseen > 0 {
		all = append(all, fmt.Sprintf("%d steps that could not observe everything are omitted", r.unseen))
	}
	return all
}

func list(words []string) string {
	if n := len(words); n > 1 {
		return fmt.Sprintf("%s or %s", joined(words[:n-1]), words[n-1])
	}
	return joined(words)
}

func joined(words []string) (text string) {
	for i, w := range words {
		if i > 0 {
			text += ", "
		}
		text += w
	}
	return text
}

// fit is the service as the world has it.
func (s *service) fit(ctx context.Context, name string, think time.Duration) (w sim.Workload, note string, err error) {
	w = sim.Workload{
		Name: name, Replicas: s.start, Requests: s.wanted.Pod, Concurrency: concurrency, Balance: sim.LeastOfTwo,
		Unavailable: s.budget, Grace: nodescaler.DefaultGrace,
		Demand: sim.Demand{Mean: assumedWork, Spread: spread}, Load: sim.Load{Kind: sim.Open, Level: sim.Flat(0)},
	}
	if p := s.like; p != nil {
		w.Selector, w.Tolerations, w.Priority, w.Grace, w.Extra = p.Selector, p.Tolerations, p.Priority, p.GracePeriod(), p.Extra
		if w.Requests == (pricing.Resources{}) {
			w.Requests = p.Requests
		}
	}
	w.Quota = max(w.Requests.CPU, pricing.MilliCPU(1000*s.top), 1)
	if s.beside {
		return w, "", nil
	}
	counted := slices.DeleteFunc(slices.Clone(s.loads), func(l load) bool { return l.arrivals < 0 })
	used := slices.DeleteFunc(slices.Clone(s.loads), func(l load) bool { return l.cores < 0 })
	switch {
	case len(used) == 0:
		return w, "", fmt.Errorf("%s: the recording must have what its pods use: it has no CPU of any", name)
	case len(counted) == 0:
		note = fmt.Sprintf("requests of %s were not counted: it is played as requests of %s of CPU each, and its late share means nothing", name, assumedWork)
		w.Load.Level = curve(used, 0, func(l load) float64 { return l.cores / assumedWork.Seconds() })
	default:
		window := cmp.Or(s.wanted.SLO.Window, time.Minute)
		w.Load.Level = curve(counted, window/2, func(l load) float64 { return l.arrivals })
		if think > 0 {
			w.Load = sim.Load{Kind: sim.Sleep, Think: think, Spread: think, Level: users(counted, window/2, think)}
		}
		err = s.work(ctx, &w, counted)
	}
	return w, note, err
}

// curve is the load over time. Rates over a window are those of its middle.
func curve(loads []load, back time.Duration, level func(load) float64) sim.Curve {
	var c sim.Curve
	for _, l := range loads {
		if l.at >= back {
			c = append(c, sim.Point{At: l.at - back, Level: level(l)})
		}
	}
	return c
}

// users are how many there were: those who waited for an answer, and those who thought.
func users(loads []load, back, think time.Duration) sim.Curve {
	return curve(loads, back, func(l load) float64 { return l.arrivals*think.Seconds() + max(0, l.flights) })
}

// work fills in what a request takes: the CPU that it uses in the mean, and from the calmest times
// how far requests differ, and how long they wait for something else.
func (s *service) work(ctx context.Context, w *sim.Workload, loads []load) error {
	cores, arrivals := 0.0, 0.0
	for _, l := range loads {
		if l.cores >= 0 && l.ready > 0 {
			cores, arrivals = cores+l.cores, arrivals+l.arrivals
		}
	}
	if arrivals == 0 || cores == 0 {
		return nil
	}
	mean := cores / arrivals
	w.Demand.Mean = max(time.Microsecond, time.Duration(mean*float64(time.Second)))
	calm := slices.DeleteFunc(slices.Clone(loads), func(l load) bool {
		return l.flights < 0 || l.latency < 0 || l.arrivals <= 0 || l.ready == 0
	})
	slices.SortStableFunc(calm, func(a, b load) int {
		return cmp.Compare(a.arrivals/float64(a.ready), b.arrivals/float64(b.ready))
	})
	if calm = calm[:(len(calm)+1)/2]; len(calm) == 0 {
		return nil
	}
	demand, err := s.calibrate(ctx, *w, calm)
	w.Demand = demand
	return err
}

// spreads are how far the CPU times of requests may differ.
var spreads = []sim.Demand{{Spread: 0}, {Spread: .3}, {Spread: .6}, {Spread: .95}, {Tail: 2.5}}

// calibrate plays the calm times with requests of several kinds, and is the kind whose response
// times are most like those that were recorded.
func (s *service) calibrate(ctx context.Context, w sim.Workload, calm []load) (sim.Demand, error) {
	var sum load
	pods := 0.0
	for _, l := range calm {
		sum.flights, sum.arrivals, sum.latency = sum.flights+l.flights, sum.arrivals+l.arrivals, sum.latency+l.latency
		pods += float64(l.ready)
	}
	n := float64(len(calm))
	takes, latency := sum.flights/sum.arrivals, sum.latency/n // by Little's law
	best, least := w.Demand, math.Inf(1)
	for _, d := range spreads {
		d.Mean = w.Demand.Mean
		w.Demand = d
		alone, err := s.try(ctx, w, sum.arrivals/n, pods/n)
		if err != nil {
			return best, err
		}
		if wait := takes - alone.Mean(); wait > takes/20 {
			w.Demand.Wait = time.Duration(wait * float64(time.Second))
			if alone, err = s.try(ctx, w, sum.arrivals/n, pods/n); err != nil {
				return best, err
			}
		}
		quantile := cmp.Or(s.wanted.SLO.Quantile, noQuantile)
		if off := math.Abs(alone.Quantile(quantile) - latency); off < least {
			best, least = w.Demand, off
		}
	}
	return best, nil
}

// Of a calm time, this much is played: of so many requests, with at most so many pods.
const (
	tried    = 6000
	mostPods = 12
)

// try is what response times come to with a steady load on as many pods as there were.
func (s *service) try(ctx context.Context, w sim.Workload, rate, pods float64) (*sim.Sketch, error) {
	w.Replicas = int(min(mostPods, max(1, math.Round(pods))))
	rate *= float64(w.Replicas) / pods
	w.Window, w.LatencyGoal, w.GoalQuantile = time.Minute, noTarget, noQuantile
	w.Load, w.Selector, w.Tolerations, w.Extra = sim.Load{Kind: sim.Open, Level: sim.Flat(rate)}, nil, nil, nil
	shape := pricing.Shape{Name: "all", CPU: pricing.MilliCPU(mostPods)*w.Requests.CPU + 1, Memory: mostPods*w.Requests.Memory + 1}
	world, err := sim.New(sim.Config{
		Seed: 1, Start: time.Unix(0, 0), Tick: time.Hour, MetricsEvery: time.Hour, Prices: pricing.DefaultBook(), Workloads: []sim.Workload{w},
		Hosts: []nodescaler.Host{{Host: pricing.Host{Name: "all", Room: shape.Resources()}, Online: true}},
		Pools: []nodescaler.Pool{{Name: "all", Max: 1, Shapes: []pricing.Shape{shape}}}, Initial: map[string]int{"all": 1},
	}, nil)
	if err != nil {
		return nil, err
	}
	if err := world.Run(ctx, time.Duration(tried/rate*float64(time.Second))); err != nil {
		return nil, err
	}
	return &world.Scores()[0].Latencies, nil
}
