package whatif

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/nodescaler/recording"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// mostGap is the longest time between two steps in which the load is taken to go in a straight
// line. A longer one is not made up.
const mostGap = 15 * time.Minute

// Recorded is what a recording says of a cluster and its load, moment by moment.
type Recorded struct {
	// Think is how long a workload's users pause who wait for each answer, by workload. Without an
	// entry, requests arrive as they were recorded, however late the answers are.
	Think map[string]time.Duration

	from, to time.Time
	first    loop.Observation
	intent   loop.Intent
	nodes    *nodepolicy.Spec
	services map[string]*service
	lives    lives
	ticks    []time.Duration
	now      *moment // the last that was seen whole
	cost     float64
	machines time.Duration
	unseen   int
	changed  bool // what was wanted did not stay as it was
}

// moment is what is charged until the next one.
type moment struct {
	at       time.Time
	rate     pricing.Rate
	machines int
}

// Add takes in a moment, which is after those before.
func (r *Recorded) Add(m *recording.Moment) error {
	o := &m.Observation
	if unseen := o.ClusterErr != nil || o.MachinesErr != nil; unseen {
		r.unseen++
		return nil
	}
	if r.now == nil {
		if err := r.begin(m); err != nil {
			return err
		}
	}
	if gap := o.Time.Sub(r.to); gap < 0 || gap > mostGap {
		return fmt.Errorf("%s: must be within %s after the step before it, which was at %s; what was not recorded is not made up: use --from or --to",
			o.Time.Format(time.RFC3339), pricing.Short(mostGap), r.to.Format(time.RFC3339))
	}
	r.charge(o)
	r.lives.see(o)
	for i := range m.Intent.Workloads {
		if s := r.services[m.Intent.Workloads[i].Name]; s != nil {
			s.see(o, &m.Intent.Workloads[i])
		}
	}
	for i := range o.Cluster.Pods {
		r.pod(&o.Cluster.Pods[i])
	}
	for _, s := range r.services {
		s.end(o.Time.Sub(r.from))
	}
	r.changed = r.changed || !alike(&r.intent, &m.Intent)
	return nil
}

// begin takes in the first moment.
func (r *Recorded) begin(m *recording.Moment) error {
	if len(m.Intent.Offered) > 0 || m.Intent.HandedOff {
		return errors.New("cluster-autoscaler orders machines in this recording, and its decisions cannot be played")
	}
	r.first, r.intent = m.Observation, m.Intent
	r.from, r.to = m.Observation.Time, m.Observation.Time
	r.services = map[string]*service{}
	for i := range m.Intent.Workloads {
		w := &m.Intent.Workloads[i]
		r.services[w.Name] = &service{wanted: *w, start: m.Observation.Cluster.Replicas[w.Name]}
	}
	for i := range m.Observation.Cluster.Pods {
		p := &m.Observation.Cluster.Pods[i]
		if p.Daemon || p.Terminating {
			continue
		}
		name := cmp.Or(p.Workload, bare)
		if _, wanted := r.services[name]; !wanted {
			r.services[name] = &service{beside: true}
		}
		if s := r.services[name]; s.beside {
			s.start++
		}
	}
	r.nodes = m.Nodes
	return nil
}

// bare is the name by which pods go that nothing owns.
const bare = "/bare"

// charge adds up what machines cost since the moment before, at what that saw.
func (r *Recorded) charge(o *loop.Observation) {
	if r.now != nil {
		passed := o.Time.Sub(r.now.at)
		r.cost += r.now.rate.For(passed).Units()
		r.machines += passed * time.Duration(r.now.machines)
		r.ticks = append(r.ticks, passed)
	}
	var placed []pricing.Placed
	running := 0
	for i := range o.Machines.Machines {
		m := &o.Machines.Machines[i]
		if m.Created.IsZero() {
			continue
		}
		p := pricing.Placed{Shape: m.Shape, Host: m.Host, Stopped: m.Phase == nodescaler.Spare}
		if placed = append(placed, p); !p.Stopped {
			running++
		}
	}
	book := cmp.Or(r.intent.Prices, pricing.DefaultBook())
	r.now, r.to = &moment{o.Time, book.Total(placed, o.Time), running}, o.Time
}

// pod takes in a pod of a moment.
func (r *Recorded) pod(p *nodescaler.Pod) {
	r.lives.pod(r.from, p)
	s := r.services[cmp.Or(p.Workload, bare)]
	if s == nil || p.Daemon || p.Terminating {
		return
	}
	s.like = p
	s.pods++
	if !p.Ready {
		return
	}
	s.ready++
	if p.CPU.Known {
		s.measured, s.cores = s.measured+1, s.cores+p.CPU.Value
		s.top = max(s.top, p.CPU.Value)
	}
}

// alike reports whether the same is wanted, as far as it can be changed here.
func alike(a, b *loop.Intent) bool {
	return len(a.Workloads) == len(b.Workloads) && len(a.Pools) == len(b.Pools) && a.Limit == b.Limit && a.DryRun == b.DryRun &&
		reflect.DeepEqual(a.Prices, b.Prices) &&
		slices.EqualFunc(a.Workloads, b.Workloads, func(x, y loop.Workload) bool {
			return x.Name == y.Name && x.Min == y.Min && x.Max == y.Max && x.SLO == y.SLO && reflect.DeepEqual(x.Policy, y.Policy) &&
				(x.Held == nil) == (y.Held == nil)
		}) &&
		slices.EqualFunc(a.Pools, b.Pools, func(x, y nodescaler.Pool) bool {
			return x.Name == y.Name && x.Min == y.Min && x.Max == y.Max && slices.Equal(x.Shapes, y.Shapes) &&
				(x.HeldUp == nil) == (y.HeldUp == nil) && (x.HeldDown == nil) == (y.HeldDown == nil)
		})
}

// outcome is what the recording itself says of its time.
func (r *Recorded) outcome() *Outcome {
	o := &Outcome{Cost: r.cost, Machines: r.machines.Hours() / r.to.Sub(r.from).Hours()}
	for _, name := range sorted(r.services) {
		s := r.services[name]
		if s.beside {
			continue
		}
		o.Workloads = append(o.Workloads, Service{Workload: name, Replicas: s.replicas / float64(max(1, s.moments)), Late: s.late(), Over: s.over()})
	}
	return o
}

func sorted[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

// service is what was recorded of a workload.
type service struct {
	wanted loop.Workload
	beside bool // it is no workload of the recording, and takes room only
	start  int  // replicas
	like   *nodescaler.Pod

	pods, ready, measured int // of the moment that is taken in
	cores, top            float64
	window                *podscaler.Window

	moments   int
	replicas  float64
	loads     []load
	good, all float64 // requests
	missed    map[int]bool
	counted   bool // latencies were
	budget    int
}

// load is what a service had to do at one moment. What is not known is negative.
type load struct {
	at                       time.Duration // since the beginning
	arrivals, cores, flights float64
	latency                  float64
	ready                    int
}

// see takes in what was measured of the workload.
func (s *service) see(o *loop.Observation, w *loop.Workload) {
	s.moments++
	s.replicas += float64(o.Cluster.Replicas[w.Name])
	for _, b := range o.Cluster.Budgets {
		if b.Workload == w.Name {
			s.budget = max(s.budget, b.Allowed)
		}
	}
	if m, measured := o.Windows[w.Name]; measured && m.Err == nil {
		s.window = &m.Window
	}
}

// end closes the moment.
func (s *service) end(at time.Duration) {
	l := load{at: at, arrivals: -1, cores: -1, flights: -1, latency: -1, ready: s.ready}
	if s.measured > 0 { // what the others use is taken to be the same
		l.cores = s.cores * float64(s.ready) / float64(s.measured)
	}
	if w := s.window; w != nil {
		s.judge(at, w, &l)
	}
	if s.window != nil || l.cores >= 0 {
		s.loads = append(s.loads, l)
	}
	s.pods, s.ready, s.measured, s.cores, s.window = 0, 0, 0, 0, nil
}

// judge takes in what was measured of the requests.
func (s *service) judge(at time.Duration, w *podscaler.Window, l *load) {
	for into, from := range map[*float64]podscaler.Reading{&l.arrivals: w.Arrivals, &l.flights: w.InFlight, &l.latency: w.Latency} {
		if v, known := from.Number(); known {
			*into = v
		}
	}
	if good, known := w.Good.Number(); known && l.arrivals > 0 {
		s.good, s.all = s.good+good*l.arrivals, s.all+l.arrivals
	}
	if l.latency >= 0 && s.wanted.SLO.Target > 0 {
		s.counted = true
		if s.missed == nil {
			s.missed = map[int]bool{}
		}
		if l.latency > s.wanted.SLO.Target.Seconds() {
			s.missed[int(at/time.Minute)] = true
		}
	}
}

func (s *service) late() *float64 {
	if s.all == 0 || s.wanted.SLO.Target == 0 {
		return nil
	}
	share := 1 - s.good/s.all
	return &share
}

func (s *service) over() *int {
	if !s.counted {
		return nil
	}
	n := len(s.missed)
	return &n
}
