package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/timing"
)

// World is a cluster on virtual machines in virtual time. It satisfies the ports of the loop:
// Cluster, Machines and Signals.
type World struct {
	cfg    Config
	now    time.Duration // since cfg.Start
	agenda agenda
	chance chances

	hosts    []nodescaler.Host
	machines []*machine // by name
	nodes    []*node    // by name
	services []*service // by name
	servers  int

	departures departures
	cloning    cloning
	ledger     *pricing.Ledger
	dirty      bool     // the scheduler has something to look at
	blind      int      // faults that have taken the metrics away
	noise      []*Fault // of neighbours
	peak       pricing.Rate
	spent      pricing.Micros // on spares that are none any more
	down       map[string]int // faults that keep a host down
	waking     bool
	err        error // what broke the world

	step func(ctx context.Context, now time.Time) error

	Totals Totals
}

// chances are the world's own streams of chance.
type chances struct{ clone, boot, remove, wake, start *rand.Rand }

// New makes a world. step is called at every tick, and is where the loop decides.
func New(cfg Config, step func(ctx context.Context, now time.Time) error) (*World, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	w := &World{cfg: cfg, step: step, hosts: slices.Clone(cfg.Hosts), down: map[string]int{}, ledger: pricing.NewLedger(cfg.Prices)}
	w.chance = chances{
		clone: timing.Stream(cfg.Seed, "clone"), boot: timing.Stream(cfg.Seed, "boot"),
		remove: timing.Stream(cfg.Seed, "remove"), wake: timing.Stream(cfg.Seed, "wake"), start: timing.Stream(cfg.Seed, "start"),
	}
	slices.SortFunc(w.hosts, func(a, b nodescaler.Host) int { return strings.Compare(a.Name, b.Name) })
	if err := w.populate(); err != nil {
		return nil, err
	}
	w.peak = 0 // one that begins as a spare is no machine that runs, not for a moment
	w.topRate()
	for i := range cfg.Workloads {
		w.addService(&w.cfg.Workloads[i])
	}
	slices.SortFunc(w.services, func(a, b *service) int { return strings.Compare(a.cfg.Name, b.cfg.Name) })
	for _, f := range cfg.Faults {
		w.agenda.add(f.At, func() { w.must(w.Inject(f)) })
	}
	w.schedule()
	w.warm()
	w.every(cfg.MetricsEvery, w.measure)
	w.every(time.Minute, w.minute)
	w.agenda.add(0, w.tick)
	return w, w.err
}

// populate joins the machines that are there from the start.
func (w *World) populate() error {
	places, err := w.cfg.Places()
	if err != nil {
		return err
	}
	made := map[*nodescaler.Pool]int{}
	for _, p := range places {
		made[p.Pool]++
		m := w.newMachine(p.Pool, fmt.Sprintf("start-%03d", made[p.Pool]), p.Pool.Shapes[0], p.Host)
		m.exist(w)
		m.join(w)
		if p.Spare {
			m.node.obs.Cordoned, m.node.obs.Draining, m.node.obs.Ready = true, true, false
			m.node.away = true
			m.rest(w)
		}
	}
	return nil
}

func (w *World) addService(cfg *Workload) {
	s := &service{
		world: w, cfg: cfg, quota: float64(cfg.Quota) / 1000, replicas: cfg.Replicas,
		demand: timing.Stream(w.cfg.Seed, "demand "+cfg.Name), balance: timing.Stream(w.cfg.Seed, "balance "+cfg.Name),
	}
	keep := cfg.Window + w.cfg.Late
	s.stats = stats{svc: s, recent: recent{keep: keep}, starts: counter{keep: int(keep / time.Second)}, score: Score{Workload: cfg.Name}}
	if cfg.ScrapeEvery > 0 {
		s.stats.hist = newHistogram(cfg.Buckets, cfg.ScrapeEvery, keep)
		w.every(cfg.ScrapeEvery, func() { s.stats.hist.scrape(w.now) })
	}
	if w.cfg.Late > 0 {
		s.stats.past = make([]int, int(w.cfg.Late/time.Second)+2)
		w.every(time.Second, func() { s.stats.past[int(w.now/time.Second)%len(s.stats.past)] = s.stats.inFlight })
	}
	s.users = newSender(s, cfg.Load, timing.Stream(w.cfg.Seed, "users "+cfg.Name))
	w.services = append(w.services, s)
	s.sync()
	w.agenda.add(0, func() { s.users.level(0, w.level(s)) })
	if !cfg.Load.Level.flat() {
		w.every(time.Second, func() { s.users.level(w.now, w.level(s)) })
	}
}

// level is a service's at present. Users of a load that is shared are whole ones: were each
// service's rounded by itself, some would be nobody's, or several's.
func (w *World) level(s *service) float64 {
	if !s.cfg.Load.Shared {
		return s.cfg.Load.Level.At(w.now)
	}
	var parts []float64
	own := 0
	for _, o := range w.services {
		if o == s {
			own = len(parts)
		}
		if o.cfg.Load.Shared {
			parts = append(parts, o.cfg.Load.Level.At(w.now))
		}
	}
	return float64(apportion(parts)[own])
}

// warm makes the pods that fit at the start ready at once: the run begins with a service that is
// up.
func (w *World) warm() {
	for _, s := range w.services {
		for _, p := range s.pods {
			if p.node != nil {
				p.run()
			}
		}
	}
}

// Run lives on until the given time after the start.
func (w *World) Run(ctx context.Context, until time.Duration) error {
	for w.err == nil {
		at, users := w.agenda.next(), (*service)(nil)
		leaving := false
		if d := w.departures.next(); d < at {
			at, leaving = d, true
		}
		for _, s := range w.services {
			if t := s.users.next(); t < at {
				at, users, leaving = t, s, false
			}
		}
		if at > until {
			break
		}
		w.now = at
		switch {
		case users != nil:
			users.users.act(at)
		case leaving:
			srv := w.departures[0]
			srv.svc.depart(at, srv)
		default:
			w.agenda.pop().do()
			if w.dirty {
				w.schedule()
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	w.now = max(w.now, until)
	return w.err
}

// tick lets the loop make its step, and plans the next.
func (w *World) tick() {
	w.callStep()
	w.later(w.cfg.Tick, w.tick)
}

func (w *World) callStep() {
	w.Totals.Steps++
	if w.step != nil {
		w.must(w.step(context.Background(), w.clock()))
	}
}

// wakeDelay is how long it takes from a pod that fits nowhere to the step that it calls for: the
// scheduler, the watch and the last step take their time. Were it nothing, a policy that asks for
// more at every step would run to its limit in one instant.
const wakeDelay = time.Second

// wake calls for a step, if the world is to do so.
func (w *World) wake() {
	if !w.cfg.Wake || w.waking {
		return
	}
	w.waking = true
	w.later(wakeDelay, func() {
		w.waking = false
		w.callStep()
	})
}

func (w *World) minute() {
	w.topRate()
	for _, s := range w.services {
		s.stats.endMinute(s.cfg.Load.Level.At(w.now - time.Second))
	}
}

// every does something again and again, first after one interval.
func (w *World) every(interval time.Duration, do func()) {
	var again func()
	again = func() {
		do()
		w.later(interval, again)
	}
	w.later(interval, again)
}

// later does something after a time.
func (w *World) later(after time.Duration, do func()) { w.agenda.add(w.now+after, do) }

// clock is the present as a time of day.
func (w *World) clock() time.Time { return w.cfg.Start.Add(w.now) }

// must ends the run with err, if there is one.
func (w *World) must(err error) { w.err = errors.Join(w.err, err) }

func (w *World) service(name string) *service {
	for _, s := range w.services {
		if s.cfg.Name == name {
			return s
		}
	}
	return nil
}

// Now is how long the world has lived.
func (w *World) Now() time.Duration { return w.now }

// Cost is what the machines have cost since the start.
func (w *World) Cost() pricing.Micros { return w.ledger.Between(w.cfg.Start, w.clock()) }

// PeakRate is the most that the machines have cost an hour at any time. A tariff that lasts less
// than a minute may be missed.
func (w *World) PeakRate() pricing.Rate { return w.peak }

// topRate takes note of what the machines cost now.
func (w *World) topRate() { w.peak = max(w.peak, w.ledger.Rate(w.clock())) }

// Reprice lets machines cost what b says from now on. What they have cost stays as it is.
func (w *World) Reprice(b *pricing.Book) error { return w.ledger.Reprice(b, w.clock()) }

// Scores says what has become of every service so far, by name.
func (w *World) Scores() []Score {
	out := make([]Score, len(w.services))
	for i, s := range w.services {
		out[i] = s.stats.score
		out[i].Unfinished = s.stats.inFlight
		overdue, over := s.stats.overdue(w.now)
		out[i].Overdue, out[i].Over = overdue, out[i].Over+over
		out[i].Latencies.buckets = slices.Clone(out[i].Latencies.buckets) // which run on
		for _, p := range s.pods {
			out[i].PodTime += w.now - p.made
		}
	}
	return out
}

// MachineTime is the time of all machines so far.
func (w *World) MachineTime() time.Duration {
	t := w.Totals.MachineTime
	for _, m := range w.machines {
		if m.runs() {
			t += w.clock().Sub(m.from)
		}
	}
	return t
}

// SpareCost is what the spares have cost so far, and is part of the cost.
func (w *World) SpareCost() pricing.Micros {
	sum := w.spent
	for _, m := range w.machines {
		if m.obs.Phase == nodescaler.Spare {
			sum += w.cfg.Prices.SpareRate(m.obs.Shape).For(w.clock().Sub(m.from))
		}
	}
	return sum
}
