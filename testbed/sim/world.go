package sim

import (
	"context"
	"fmt"
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
	fleet
	step   func(ctx context.Context, now time.Time) error
	waking bool
}

// New makes a world. step is called at every tick, and is where the loop decides.
func New(cfg Config, step func(ctx context.Context, now time.Time) error) (*World, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	w := &World{step: step}
	w.cfg, w.begin, w.startup, w.unplaced = cfg, cfg.Start, timing.Stream(cfg.Seed, "start"), w.callSoon
	w.hosts, w.down, w.ledger = slices.Clone(cfg.Hosts), map[string]int{}, pricing.NewLedger(cfg.Prices)
	w.chance = chances{
		clone: timing.Stream(cfg.Seed, "clone"), boot: timing.Stream(cfg.Seed, "boot"),
		remove: timing.Stream(cfg.Seed, "remove"), wake: timing.Stream(cfg.Seed, "wake"),
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
	w.every(time.Minute, w.endMinute)
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
	begin := func(pool *nodescaler.Pool, b *Begin) {
		made[pool]++
		m := w.newMachine(pool, fmt.Sprintf("start-%03d", made[pool]), b.Shape, b.Host)
		m.exist(&w.fleet)
		m.join(&w.fleet)
		if b.Spare {
			m.node.obs.Cordoned, m.node.obs.Draining, m.node.obs.Ready = true, true, false
			m.node.away = true
			m.rest(&w.fleet)
		}
	}
	for _, p := range places {
		begin(p.Pool, &Begin{Shape: p.Pool.Shapes[0], Host: p.Host, Spare: p.Spare})
	}
	for i := range w.cfg.Begin {
		b := &w.cfg.Begin[i]
		for k := range w.cfg.Pools {
			if w.cfg.Pools[k].Name == b.Pool {
				begin(&w.cfg.Pools[k], b)
			}
		}
	}
	return nil
}

func (w *World) addService(cfg *Workload) {
	s := &service{
		world: &w.cluster, cfg: cfg, quota: float64(cfg.Quota) / 1000, replicas: cfg.Replicas,
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

// callSoon calls for a step, if the world is to do so.
func (w *World) callSoon() {
	if !w.cfg.Wake || w.waking {
		return
	}
	w.waking = true
	w.later(wakeDelay, func() {
		w.waking = false
		w.callStep()
	})
}

func (w *World) endMinute() {
	w.topRate()
	for _, s := range w.services {
		s.stats.endMinute(s.cfg.Load.Level.At(w.now-time.Second), w.running())
	}
}

// Inject lets a fault happen now.
func (w *World) Inject(f Fault) error {
	switch f.Kind {
	case CloneFails:
		w.cloning.failing += max(1, f.Count)
	case HostDies:
		return w.kill(f.Host, f.For)
	case MetricsVanish:
		w.blind++
		w.later(f.For, func() { w.blind-- })
	case NoisyNeighbour:
		return w.crowd(f)
	default:
		return fmt.Errorf("fault kind: must be one of %s, was %q", FaultKinds, f.Kind)
	}
	return nil
}

// crowd takes CPU from the pods on a host, or on all, for a time. Neighbours that overlap take one
// after the other.
func (w *World) crowd(f Fault) error {
	if f.Host != "" && w.host(f.Host) == nil {
		return fmt.Errorf("host %q does not exist", f.Host)
	}
	w.noise = append(w.noise, &f)
	w.share()
	w.later(f.For, func() {
		w.noise = slices.DeleteFunc(w.noise, func(o *Fault) bool { return o == &f })
		w.share()
	})
	return nil
}

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
